/* What a reader has opened stays open when a live part is fetched anew.

   data-keep-open on the part that is swapped; its <details> need an id. */

const opened = new Set();

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (!detail.target.matches?.("[data-keep-open]")) return;
  for (const { id, open } of detail.target.querySelectorAll("details[id]")) {
    if (open) opened.add(id);
    else opened.delete(id);
  }
});

document.addEventListener("htmx:load", ({ detail }) => {
  if (!detail.elt.matches?.("[data-keep-open]")) return;
  for (const element of detail.elt.querySelectorAll("details[id]")) {
    element.open ||= opened.has(element.id);
  }
});
