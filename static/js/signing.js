/* Signing in the browser: create a key, sign what a page shows, list this device's keys.

   <form data-signing-create data-signing-user="dana" action="/keys/" method="post" data-signing-next="/…">
     csrf token, <input name="name">, <input type="password" name="password">,
     <input type="hidden" name="public_key">, <input type="hidden" name="key_id">,
     <p data-signing-message role="status"></p> <button>…</button>
   The key is made here; its public half, the name and the password go to the form's action. A
   refusal (problem+json) is shown and the new key forgotten.

   <form data-signing-sign data-signing-user="dana" data-signing-payload-url="/…/payload/"
         data-signing-payload-type="application/vnd.covenant.contract+json" data-signing-digest="HEX"
         data-signing-enrolled="KEYID KEYID" data-signing-revoked="KEYID" action="/…/sign/" method="post">
     csrf token, <input type="hidden" name="envelope">, <code data-signing-keyid></code>,
     <p data-signing-message role="status"></p> <button>…</button>
   The bytes are fetched, must have the digest that the page shows, are signed, and the form is sent
   with the envelope in it. `data-signing-state` on the form says where it stands.

   <ul data-signing-keys data-signing-user="dana"><template><li><b data-signing-slot="name"></b>
     <code data-signing-slot="keyid"></code> <button type="button" data-signing-forget>…</button></li></template></ul>

   Sentences come from data-message-STATE of the form, so that they can be translated. States:
   no-crypto no-storage no-key not-enrolled revoked ready working fetch-failed digest-mismatch failed created. */

import { bind } from "./bind.js";
import { csrfToken, parseProblem } from "./http.js";
import { CannotSign, createKey, forgetKey, listKeys, sha256Hex, signDsse } from "./signing-keys.js";

export { signDsse } from "./signing-keys.js";

const BAD_STATES = new Set(["no-crypto", "no-storage", "revoked", "fetch-failed", "digest-mismatch", "failed"]);

function say(form, state, text) {
  form.dataset.signingState = state;
  const place = form.querySelector("[data-signing-message]");
  if (!place) return;
  place.textContent = text ?? form.getAttribute(`data-message-${state}`) ?? "";
  place.dataset.tone = BAD_STATES.has(state) ? "bad" : "plain";
}

function setBusy(form, busy) {
  if (busy) form.setAttribute("aria-busy", "true");
  else form.removeAttribute("aria-busy");
  for (const button of form.querySelectorAll("[type=submit], button:not([type])")) button.disabled = busy;
}

function reasonOf(error) {
  return error instanceof CannotSign ? error.reason : "failed";
}

function words(form, name) {
  return (form.dataset[name] ?? "").split(/\s+/).filter(Boolean);
}

/* ---- a new key ---- */

async function enrol(form) {
  setBusy(form, true);
  say(form, "working");
  let key;
  try {
    key = await createKey(form.dataset.signingUser, form.elements.name?.value.trim() ?? "");
    form.elements.public_key.value = key.publicKey;
    if (form.elements.key_id) form.elements.key_id.value = key.keyid;
    const response = await fetch(form.action, {
      method: "POST",
      headers: { Accept: "application/problem+json, application/json", "X-CSRFToken": csrfToken() },
      body: new URLSearchParams(new FormData(form)),
    });
    if (response.ok) {
      say(form, "created");
      form.dispatchEvent(new CustomEvent("signing:created", { bubbles: true, detail: { keyid: key.keyid } }));
      location.assign(form.dataset.signingNext || (response.redirected ? response.url : location.href));
      return;
    }
    const problem = parseProblem(await response.text());
    if (response.status < 500) await forgetKey(key.keyid);
    say(form, "failed", problem ? [problem.detail ?? problem.title, problem.hint].filter(Boolean).join(" ") : undefined);
  } catch (error) {
    // Without an answer the key may have been enrolled: it is kept.
    say(form, reasonOf(error));
  }
  if (form.elements.password) form.elements.password.value = "";
  setBusy(form, false);
}

bind("[data-signing-create]", (form) => {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!form.hasAttribute("aria-busy")) enrol(form);
  });
});

/* ---- a signature ---- */

/** The key to sign with, or the state that says why there is none. */
async function findKey(form) {
  const keys = await listKeys(form.dataset.signingUser);
  const enrolled = words(form, "signingEnrolled");
  const revoked = words(form, "signingRevoked");
  const usable = keys.find((key) => enrolled.includes(key.keyid) && !revoked.includes(key.keyid));
  if (usable) return { key: usable, state: "ready" };
  if (keys.some((key) => revoked.includes(key.keyid))) return { state: "revoked" };
  return { state: keys.length ? "not-enrolled" : "no-key" };
}

async function prepare(form) {
  setBusy(form, true);
  try {
    if (!globalThis.crypto?.subtle) throw new CannotSign("no-crypto");
    const { key, state } = await findKey(form);
    const place = form.querySelector("[data-signing-keyid]");
    if (place) place.textContent = key?.keyid ?? "";
    say(form, state);
    setBusy(form, false);
    for (const button of form.querySelectorAll("[type=submit], button:not([type])")) button.disabled = !key;
  } catch (error) {
    say(form, reasonOf(error));
    form.removeAttribute("aria-busy");
  }
}

async function fetchPayload(form) {
  try {
    const response = await fetch(form.dataset.signingPayloadUrl, { headers: { Accept: "*/*" }, cache: "no-store" });
    return response.ok ? new Uint8Array(await response.arrayBuffer()) : null;
  } catch {
    return null;
  }
}

async function sign(form, submitter) {
  setBusy(form, true);
  say(form, "working");
  let state;
  try {
    const found = await findKey(form);
    state = found.state;
    if (found.key) {
      const payload = await fetchPayload(form);
      if (payload === null) state = "fetch-failed";
      else if ((await sha256Hex(payload)) !== form.dataset.signingDigest) state = "digest-mismatch";
      else {
        const envelope = await signDsse(found.key, payload, form.dataset.signingPayloadType);
        form.elements.envelope.value = JSON.stringify(envelope);
        setBusy(form, false);
        // Submitted anew, so that other behaviours of the form (one submit at a time, htmx) take part.
        form.requestSubmit(submitter ?? undefined);
        return;
      }
    }
  } catch (error) {
    state = reasonOf(error);
  }
  say(form, state);
  setBusy(form, false);
}

bind("[data-signing-sign]", (form) => {
  form.elements.envelope.value = "";
  form.addEventListener(
    "submit",
    (event) => {
      if (form.elements.envelope.value) return;
      event.preventDefault();
      event.stopPropagation();
      if (!form.hasAttribute("aria-busy")) sign(form, event.submitter);
    },
    true,
  );
  prepare(form);
});

// Back from the page's cache: what was signed then is not what is signed next.
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.querySelectorAll("[data-signing-sign]")) {
    form.elements.envelope.value = "";
    prepare(form);
  }
});

/* ---- this device's keys ---- */

async function showKeys(list) {
  const template = list.querySelector("template");
  for (const old of list.querySelectorAll("[data-signing-key]")) old.remove();
  let keys = [];
  try {
    keys = await listKeys(list.dataset.signingUser);
    list.dataset.signingState = keys.length ? "listed" : "no-key";
  } catch (error) {
    list.dataset.signingState = reasonOf(error);
  }
  for (const key of keys) {
    const item = template.content.firstElementChild.cloneNode(true);
    item.dataset.signingKey = key.keyid;
    for (const slot of item.querySelectorAll("[data-signing-slot]")) slot.textContent = key[slot.dataset.signingSlot];
    item.querySelector("[data-signing-forget]")?.addEventListener("click", async () => {
      await forgetKey(key.keyid);
      await showKeys(list);
    });
    list.append(item);
  }
}

bind("[data-signing-keys]", (list) => {
  showKeys(list);
});
