/* Signing what a page shows, with a key of this browser or a passkey.

   <form data-signing-sign data-signing-user="dana" data-signing-payload-url="/…/payload/"
         data-signing-payload-type="application/vnd.covenant.contract+json" data-signing-digest="HEX"
         data-signing-enrolled="KEYID KEYID" data-signing-revoked="KEYID" data-signing-expired="KEYID"
         data-signing-in-browsers="KEYID" data-signing-passkeys="[{keyid, name, credential, rpId}]"
         action="/…/sign/" method="post">
     csrf token, <input type="hidden" name="envelope">, <code data-signing-keyid></code>,
     <fieldset data-signing-choices hidden><template>radio</template></fieldset>,
     <p data-signing-message role="status"></p> <a data-signing-when="STATE STATE" hidden>…</a> <button>…</button>
   The bytes are fetched, must have the digest that the page shows, are signed, and the form is sent
   with the envelope in it. `data-signing-state` on the form says where it stands.

   Sentences come from data-message-STATE of the form. States: no-crypto no-storage no-key not-enrolled
   revoked expired elsewhere ready working no-passkeys wrong-host cancelled fetch-failed digest-mismatch
   failed. Keys are made by signing-enrol.js. */

import { bind } from "./bind.js";
import "./signing-enrol.js";
import { CannotSign, listKeys, sha256Hex, signDsse } from "./signing-keys.js";
import { signByPasskey } from "./signing-passkeys.js";
import { reasonOf, say, setBusy } from "./signing-states.js";
import { supported } from "./webauthn.js";

export { signDsse } from "./signing-keys.js";

function words(form, name) {
  return (form.dataset[name] ?? "").split(/\s+/).filter(Boolean);
}

function passkeysOf(form) {
  if (!form.dataset.signingPasskeys || !supported()) return [];
  return JSON.parse(form.dataset.signingPasskeys)
    .filter(({ rpId }) => location.hostname === rpId || location.hostname.endsWith(`.${rpId}`))
    .map((passkey) => ({ ...passkey, sign: (...what) => signByPasskey(passkey, ...what) }));
}

/** Every key to sign with, this browser's first, or the state that says why there is none. */
async function findKeys(form) {
  const passkeys = passkeysOf(form);
  const [enrolled, revoked, expired] = ["Enrolled", "Revoked", "Expired"].map((name) => words(form, `signing${name}`));
  let held = [];
  try {
    held = await listKeys(form.dataset.signingUser);
  } catch (error) {
    // A private window keeps no keys, but a passkey is not kept here.
    if (!passkeys.length) throw error;
  }
  const ended = new Set([...revoked, ...expired]);
  const own = held
    .filter(({ keyid }) => enrolled.includes(keyid) && !ended.has(keyid))
    .map((key) => ({ ...key, sign: (...what) => signDsse(key, ...what) }));
  const usable = [...own, ...passkeys];
  if (usable.length) return { keys: usable, state: "ready" };
  const has = (ids) => held.some(({ keyid }) => ids.includes(keyid));
  if (has(revoked)) return { keys: [], state: "revoked" };
  if (has(expired)) return { keys: [], state: "expired" };
  if (words(form, "signingInBrowsers").length) return { keys: [], state: "elsewhere" };
  return { keys: [], state: held.length ? "not-enrolled" : "no-key" };
}

function chosen(form, keys) {
  const keyid = form.querySelector("[data-signing-choices] input:checked")?.value;
  return keys.find((key) => key.keyid === keyid) ?? keys[0];
}

function offer(form, keys) {
  const box = form.querySelector("[data-signing-choices]");
  if (box) {
    const before = box.querySelector("input:checked")?.value;
    for (const old of box.querySelectorAll("[data-signing-choice]")) old.remove();
    const template = box.querySelector("template");
    for (const key of keys) {
      const choice = template.content.firstElementChild.cloneNode(true);
      choice.dataset.signingChoice = "";
      const input = choice.querySelector("input");
      input.value = key.keyid;
      input.checked = before ? key.keyid === before : key === keys[0];
      choice.querySelector("[data-signing-slot=name]").textContent = key.name;
      choice.querySelector(`[data-signing-slot=${key.credential ? "browser" : "passkey"}]`)?.remove();
      input.addEventListener("change", () => showKey(form, keys));
      box.append(choice);
    }
    box.hidden = keys.length < 2;
  }
  showKey(form, keys);
}

function showKey(form, keys) {
  const place = form.querySelector("[data-signing-keyid]");
  if (place) place.textContent = chosen(form, keys)?.keyid ?? "";
}

async function prepare(form) {
  setBusy(form, true);
  try {
    if (!globalThis.crypto?.subtle) throw new CannotSign("no-crypto");
    const { keys, state } = await findKeys(form);
    offer(form, keys);
    say(form, state);
    setBusy(form, false);
    for (const button of form.querySelectorAll("[type=submit], button:not([type])")) button.disabled = !keys.length;
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
    const found = await findKeys(form);
    state = found.state;
    if (found.keys.length) {
      const payload = await fetchPayload(form);
      if (payload === null) state = "fetch-failed";
      else if ((await sha256Hex(payload)) !== form.dataset.signingDigest) state = "digest-mismatch";
      else {
        const envelope = await chosen(form, found.keys).sign(payload, form.dataset.signingPayloadType);
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
