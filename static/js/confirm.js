/* Dialogs that ask before an act (components/confirm.html).

   <button data-confirm="ID">          opens <dialog id="ID">
   data-dialog-close inside            closes it; so does Escape, and a click on the backdrop
   Forms inside may post plainly or by htmx. After an htmx post: success closes the dialog, a refusal
   (409, 412, 422) is told in [data-dialog-error] – a problem document's words, or the HTML that came. */

import { parseProblem } from "./http.js";

const REFUSALS = new Set([409, 412, 422]);

export function openDialog(dialog) {
  if (!dialog || dialog.open) return;
  dialog.querySelector("[data-dialog-error]")?.replaceChildren();
  dialog.showModal();
  dialog.querySelector("[data-autofocus]")?.focus();
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-confirm]");
  if (opener) openDialog(document.getElementById(opener.dataset.confirm));
  if (event.target.closest("[data-dialog-close]")) event.target.closest("dialog")?.close();
});

// A press that began inside (selecting text) and ended on the backdrop does not close.
document.addEventListener("pointerdown", (event) => {
  if (event.target.matches?.("dialog[data-dialog][open]")) event.target.dataset.pressed = "";
});
document.addEventListener("pointerup", (event) => {
  const dialog = document.querySelector("dialog[data-pressed]");
  if (!dialog) return;
  delete dialog.dataset.pressed;
  if (event.target === dialog) dialog.close();
});

function tell(dialog, xhr) {
  const place = dialog.querySelector("[data-dialog-error]");
  const problem = parseProblem(xhr.responseText);
  if (problem) {
    place.textContent = [problem.detail ?? problem.title, problem.hint].filter(Boolean).join(" ");
  } else {
    const document_ = new DOMParser().parseFromString(xhr.responseText, "text/html");
    place.replaceChildren(...document_.body.childNodes);
  }
}

document.addEventListener("htmx:beforeSwap", (event) => {
  const dialog = event.detail.requestConfig?.elt?.closest?.("dialog[data-dialog]");
  if (!dialog || !REFUSALS.has(event.detail.xhr.status)) return;
  event.detail.shouldSwap = false;
  tell(dialog, event.detail.xhr);
});

document.addEventListener("htmx:afterRequest", (event) => {
  const dialog = event.detail.requestConfig?.elt?.closest?.("dialog[data-dialog]");
  if (!dialog || !event.detail.successful || REFUSALS.has(event.detail.xhr.status)) return;
  dialog.querySelector("form")?.reset();
  dialog.close();
});
