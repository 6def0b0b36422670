/* One submit at a time: a second click or Enter while the first is under way does nothing.

   <form data-guard>; a submit button may carry data-guard-label="Saving…" to say what it does.
   The guard is lifted when htmx has its answer, or when the page is shown again from the cache. */

function release(form) {
  delete form.dataset.guarded;
  for (const button of form.querySelectorAll("button[aria-busy]")) {
    button.removeAttribute("aria-busy");
    button.removeAttribute("aria-disabled");
    if (button.dataset.guardWas) button.textContent = button.dataset.guardWas;
    delete button.dataset.guardWas;
  }
}

function mark(button) {
  if (!button) return;
  button.setAttribute("aria-busy", "true");
  // aria-disabled, not disabled: a disabled button's name and value would not be sent.
  button.setAttribute("aria-disabled", "true");
  if (button.dataset.guardLabel) {
    button.dataset.guardWas = button.textContent;
    button.textContent = button.dataset.guardLabel;
  }
}

document.addEventListener(
  "submit",
  (event) => {
    const form = event.target.closest("form[data-guard]");
    if (!form) return;
    if ("guarded" in form.dataset) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    form.dataset.guarded = "";
    // After all listeners: what one of them stopped (a signature has to be made first) is no submit yet.
    setTimeout(() => {
      const byHtmx = form.matches("[hx-post], [hx-put], [hx-patch], [hx-delete], [hx-get]");
      if (event.defaultPrevented && !byHtmx) delete form.dataset.guarded;
      else mark(event.submitter ?? form.querySelector("[type=submit]"));
    });
  },
  true,
);

document.addEventListener("htmx:afterRequest", (event) => {
  const form = event.detail.requestConfig?.elt?.closest?.("form[data-guard]");
  if (form) release(form);
});

addEventListener("pageshow", () => document.querySelectorAll("form[data-guard]").forEach(release));
