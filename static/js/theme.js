/* Theme without a flash: a classic script in <head>, so that it runs before the first paint.

   The reader's choice ("light", "dark" or none: as the system) is kept in localStorage under
   "covenant-theme" and stands as data-theme on <html>. A button with data-theme-toggle goes round
   system → light → dark. Each change fires "theme:change" on document (charts redraw themselves). */

(() => {
  const KEY = "covenant-theme";
  const ORDER = ["", "light", "dark"];
  const root = document.documentElement;

  function stored() {
    try {
      return localStorage.getItem(KEY) ?? "";
    } catch {
      return ""; // storage is switched off: the system's theme it is
    }
  }

  function show(theme) {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
  }

  function choose(theme) {
    show(theme);
    try {
      if (theme) localStorage.setItem(KEY, theme);
      else localStorage.removeItem(KEY);
    } catch {
      // Not kept beyond this page then.
    }
    document.dispatchEvent(new CustomEvent("theme:change", { detail: { theme } }));
  }

  show(stored());

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-toggle]")) return;
    choose(ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!stored()) document.dispatchEvent(new CustomEvent("theme:change", { detail: { theme: "" } }));
  });
  addEventListener("storage", (event) => {
    if (event.key === KEY) show(event.newValue ?? "");
  });
  // Paper is white.
  addEventListener("beforeprint", () => show("light"));
  addEventListener("afterprint", () => show(stored()));
})();
