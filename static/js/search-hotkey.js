/* Search from the keyboard: "/" or Ctrl-K (⌘K) focuses the field, arrows walk the results, Enter opens.

   <form data-search> with an input (htmx fills the listbox #search-results with [role=option] links).
   data-search-open shows the field where it is folded away (phones). */

import { t } from "./strings.js";

const typing = (element) => element.matches("input, textarea, select, [contenteditable]");
const form = document.querySelector("[data-search]");
const input = form?.querySelector("input[type=search]");
const results = document.getElementById("search-results");
const options = () => [...results.querySelectorAll("[role=option]")];

function expand(open) {
  form.toggleAttribute("data-closed", !open);
  input.setAttribute("aria-expanded", String(open && options().length > 0));
}

function open() {
  form.toggleAttribute("data-open", true);
  input.focus();
  input.select();
}

function select(chosen) {
  options().forEach((option, index) => {
    option.id = `search-option-${index}`;
    option.setAttribute("aria-selected", String(option === chosen));
  });
  if (chosen) {
    input.setAttribute("aria-activedescendant", chosen.id);
    chosen.scrollIntoView({ block: "nearest" });
  } else {
    input.removeAttribute("aria-activedescendant");
  }
}

function move(step) {
  const all = options();
  if (!all.length) return;
  const at = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
  select(all[(at + step + all.length + (at < 0 && step < 0 ? 1 : 0)) % all.length]);
}

function onKey(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    expand(true);
    move(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Enter") {
    const chosen = results.querySelector('[aria-selected="true"]');
    if (chosen) {
      event.preventDefault();
      chosen.click();
    }
  } else if (event.key === "Escape") {
    if (results.childElementCount && !form.hasAttribute("data-closed")) expand(false);
    else input.blur();
  }
}

if (form && input && results) {
  input.addEventListener("keydown", onKey);
  input.addEventListener("input", () => {
    expand(true);
    if (!input.value.trim()) results.replaceChildren();
  });
  input.addEventListener("focus", () => expand(true));
  form.addEventListener("focusout", (event) => {
    if (!form.contains(event.relatedTarget)) form.removeAttribute("data-open");
  });
  results.addEventListener("htmx:afterSwap", () => {
    expand(true);
    select(null);
    results.setAttribute("aria-description", t("search_results", { n: options().length }));
  });
  document.addEventListener("click", (event) => event.target.closest("[data-search-open]") && open());
  document.addEventListener("keydown", (event) => {
    const hotkey = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k";
    const slash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (!hotkey && !(slash && !typing(event.target))) return;
    if (document.querySelector("dialog[open]")) return;
    event.preventDefault();
    open();
  });
}
