/* Signing in with passkeys, and enrolling them.

   <form data-passkey-sign-in data-options="/sign-in/passkey/options/" action="/sign-in/passkey/" hidden
         data-next="/where/"> <button>…</button> <p data-passkey-message role="status"></p>
   Shown where the browser knows passkeys (with it, elements [data-passkey-only]); goes on to the
   address that the server answers with.

   <form data-passkey-enrol data-options="/settings/security/passkeys/options/" action="…/add/"
         data-next="/settings/security/"> <input name="name"> proof fields … <button>…</button>
   <template data-passkey-codes> is shown in place of the form when new recovery codes come with it.

   Sentences come from data-message-STATE of the form: working, no-passkeys, wrong-host, cancelled,
   known, failed. `data-passkey-state` says where it stands. */

import { bind } from "./bind.js";
import { csrfToken, Problem, send } from "./http.js";
import { CannotUsePasskey, createCredential, getAssertion, supported } from "./webauthn.js";

function say(form, state, text) {
  form.dataset.passkeyState = state;
  const place = form.querySelector("[data-passkey-message]");
  if (!place) return;
  place.textContent = text ?? form.getAttribute(`data-message-${state}`) ?? "";
  place.dataset.tone = state === "working" ? "plain" : "bad";
}

/** Runs `act` once at a time; every way that it can fail is said in the form. */
async function attempt(form, act) {
  if (form.getAttribute("aria-busy") === "true") return;
  form.setAttribute("aria-busy", "true");
  say(form, "working");
  try {
    await act();
  } catch (error) {
    if (error instanceof CannotUsePasskey) say(form, error.reason);
    else if (error instanceof Problem && error.message) say(form, "refused", error.sentence);
    else say(form, "failed");
  } finally {
    form.removeAttribute("aria-busy");
  }
}

async function postForm(form, url) {
  const response = await fetch(url, {
    method: "POST",
    headers: { Accept: "application/problem+json, application/json", "X-CSRFToken": csrfToken() },
    body: new URLSearchParams(new FormData(form)),
  });
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Problem({ ...(body ?? {}), status: response.status, body, response });
  return body;
}

async function signIn(form) {
  const { body: options } = await send("POST", form.dataset.options);
  const credential = await getAssertion(options);
  const next = form.dataset.next;
  const url = next ? `${form.action}?next=${encodeURIComponent(next)}` : form.action;
  const { body } = await send("POST", url, { json: credential });
  location.assign(body.next);
}

async function enrol(form) {
  const options = await postForm(form, form.dataset.options);
  const credential = await createCredential(options);
  const name = form.elements.name.value.trim();
  const { body } = await send("POST", form.action, { json: { name, credential } });
  const template = document.querySelector("template[data-passkey-codes]");
  if (!body.recovery_codes.length || !template) {
    location.assign(form.dataset.next);
    return;
  }
  const shown = template.content.cloneNode(true);
  shown.querySelector("code").textContent = body.recovery_codes.join("\n");
  const section = shown.firstElementChild;
  form.replaceWith(shown);
  section.focus();
}

bind("form[data-passkey-sign-in]", (form) => {
  if (!supported()) return;
  form.hidden = false;
  for (const element of document.querySelectorAll("[data-passkey-only]")) element.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form, () => signIn(form));
  });
});

bind("form[data-passkey-enrol]", (form) => {
  if (!supported()) say(form, "no-passkeys");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form, () => enrol(form));
  });
});
