/* How forms that sign or enrol say where they stand. */

import { CannotSign } from "./signing-keys.js";
import { CannotUsePasskey } from "./webauthn.js";

const PLAIN_STATES = new Set(["no-key", "not-enrolled", "elsewhere", "ready", "working", "created"]);

export function say(form, state, text) {
  form.dataset.signingState = state;
  for (const part of form.querySelectorAll("[data-signing-when]")) {
    part.hidden = !part.dataset.signingWhen.split(" ").includes(state);
  }
  const place = form.querySelector("[data-signing-message]");
  if (!place) return;
  place.textContent = text ?? form.getAttribute(`data-message-${state}`) ?? "";
  place.dataset.tone = PLAIN_STATES.has(state) ? "plain" : "bad";
}

export function setBusy(form, busy) {
  if (busy) form.setAttribute("aria-busy", "true");
  else form.removeAttribute("aria-busy");
  for (const button of form.querySelectorAll("[type=submit], button:not([type])")) button.disabled = busy;
}

export function reasonOf(error) {
  return error instanceof CannotSign || error instanceof CannotUsePasskey ? error.reason : "failed";
}
