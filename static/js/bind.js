/* Binds a behaviour to elements by a selector, now and whenever htmx brings new content.

   bind("[data-copy]", (element) => { … })   start runs once for each element.
   Elements that htmx takes away are simply dropped; a start function that must tidy up returns a
   function, which is called when its element has left the page. */

const bindings = [];
const cleanups = new Map();

function apply({ selector, start, seen }, root) {
  const found = [...root.querySelectorAll(selector)];
  if (root.matches?.(selector)) found.unshift(root);
  for (const element of found) {
    if (seen.has(element)) continue;
    seen.add(element);
    const stop = start(element);
    if (typeof stop === "function") cleanups.set(element, [...(cleanups.get(element) ?? []), stop]);
  }
}

export function bind(selector, start) {
  const binding = { selector, start, seen: new WeakSet() };
  bindings.push(binding);
  if (document.readyState === "loading") {
    document.addEventListener("DOMContentLoaded", () => apply(binding, document), { once: true });
  } else {
    apply(binding, document);
  }
}

document.addEventListener("htmx:load", (event) => {
  for (const [element, stops] of cleanups) {
    if (element.isConnected) continue;
    stops.forEach((stop) => stop());
    cleanups.delete(element);
  }
  for (const binding of bindings) apply(binding, event.detail.elt);
});
