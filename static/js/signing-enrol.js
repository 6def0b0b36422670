/* New signing keys, and those that this browser holds.

   <form data-signing-create data-signing-user="dana" action="/keys/" method="post" data-signing-next="/…">
     csrf token, <input name="name">, proof fields (password, code), [<input type="hidden" name="replaces">,
     <input type="hidden" name="rotation">], <input type="hidden" name="public_key">,
     <input type="hidden" name="key_id">, <p data-signing-message role="status"></p> <button>…</button>
   The key is made here; its public half and the fields go to the form's action. Where this browser
   holds the key that it replaces, both sign for it. A refusal (problem+json) is shown and the new key
   forgotten.

   <form data-signing-passkey data-signing-options="/…/passkey-options/" action="/…/passkeys/" …> the same
   fields but the last three: the device makes the key.

   <ul data-signing-keys data-signing-user="dana"><template><li><b data-signing-slot="name"></b>
     <code data-signing-slot="keyid"></code> <button type="button" data-signing-forget>…</button></li></template></ul>
   <span data-signing-here="KEYID" hidden> is shown where this browser holds the key,
   <span data-signing-elsewhere="KEYID" hidden> where it does not.

   Sentences come from data-message-STATE of the form, so that they can be translated. States: no-crypto
   no-storage no-passkeys wrong-host cancelled known working failed created. */

import { bind } from "./bind.js";
import { csrfToken, parseProblem, Problem, send } from "./http.js";
import { ageWords } from "./ages.js";
import { createKey, forgetKey, listKeys, signRotation } from "./signing-keys.js";
import { reasonOf, say, setBusy } from "./signing-states.js";
import { createCredential, supported } from "./webauthn.js";

function forgetProof(form) {
  for (const name of ["password", "code"]) if (form.elements[name]) form.elements[name].value = "";
}

function enrolled(form, keyid, url) {
  say(form, "created");
  form.dispatchEvent(new CustomEvent("signing:created", { bubbles: true, detail: { keyid } }));
  location.assign(form.dataset.signingNext || url);
}

/* ---- a key of this browser ---- */

async function fillIn(form, key) {
  form.elements.public_key.value = key.publicKey;
  if (form.elements.key_id) form.elements.key_id.value = key.keyid;
  const replaces = form.elements.replaces?.value;
  if (!replaces || !form.elements.rotation) return;
  const old = (await listKeys(form.dataset.signingUser)).find((one) => one.keyid === replaces);
  if (old) form.elements.rotation.value = JSON.stringify(await signRotation(form.dataset.signingUser, old, key));
}

async function enrol(form) {
  setBusy(form, true);
  say(form, "working");
  let key;
  try {
    key = await createKey(form.dataset.signingUser, form.elements.name?.value.trim() ?? "");
    await fillIn(form, key);
    const response = await fetch(form.action, {
      method: "POST",
      headers: { Accept: "application/problem+json, application/json", "X-CSRFToken": csrfToken() },
      body: new URLSearchParams(new FormData(form)),
    });
    if (response.ok) {
      enrolled(form, key.keyid, response.redirected ? response.url : location.href);
      return;
    }
    const problem = parseProblem(await response.text());
    if (response.status < 500) await forgetKey(key.keyid);
    say(form, "failed", problem ? [problem.detail ?? problem.title, problem.hint].filter(Boolean).join(" ") : undefined);
  } catch (error) {
    // Without an answer the key may have been enrolled: it is kept.
    say(form, reasonOf(error));
  }
  forgetProof(form);
  setBusy(form, false);
}

bind("[data-signing-create]", (form) => {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!form.hasAttribute("aria-busy")) enrol(form);
  });
});

/* ---- a passkey ---- */

async function enrolPasskey(form) {
  setBusy(form, true);
  say(form, "working");
  try {
    const { body: options } = await send("POST", form.dataset.signingOptions);
    const credential = await createCredential(options);
    const { name, password, code, days, replaces } = form.elements;
    const { body: key } = await send("POST", form.getAttribute("action"), {
      json: {
        name: name.value.trim(),
        credential,
        password: password?.value ?? "",
        code: code?.value ?? "",
        days: days?.value ? Number(days.value) : null,
        replaces: replaces?.value ?? "",
      },
    });
    enrolled(form, key.keyid, location.href);
    return;
  } catch (error) {
    if (error instanceof Problem && error.message) say(form, "failed", error.sentence);
    else say(form, reasonOf(error));
  }
  forgetProof(form);
  setBusy(form, false);
}

bind("[data-signing-passkey]", (form) => {
  if (!supported()) {
    say(form, "no-passkeys");
    for (const button of form.querySelectorAll("[type=submit]")) button.disabled = true;
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!form.hasAttribute("aria-busy")) enrolPasskey(form);
  });
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
    for (const slot of item.querySelectorAll("[data-signing-slot]")) {
      const value = key[slot.dataset.signingSlot];
      if (slot instanceof HTMLTimeElement) slot.dateTime = value;
      slot.textContent = slot instanceof HTMLTimeElement ? ageWords(Date.parse(value)) : value;
    }
    item.querySelector("[data-signing-forget]")?.addEventListener("click", async () => {
      await forgetKey(key.keyid);
      await showKeys(list);
    });
    list.append(item);
  }
  const here = new Set(keys.map((key) => key.keyid));
  for (const mark of document.querySelectorAll("[data-signing-here]")) mark.hidden = !here.has(mark.dataset.signingHere);
  for (const mark of document.querySelectorAll("[data-signing-elsewhere]")) {
    mark.hidden = here.has(mark.dataset.signingElsewhere);
  }
  for (const form of document.querySelectorAll("[data-signing-create]")) {
    if (here.has(form.elements.replaces?.value)) askNoProof(form);
  }
}

/* The old key vouches for the new one: nothing else is asked for. */
function askNoProof(form) {
  for (const name of ["password", "code"]) {
    const field = form.elements[name];
    if (!field) continue;
    field.required = false;
    field.closest(".field").hidden = true;
  }
}

bind("[data-signing-keys]", (list) => {
  showKeys(list);
});
