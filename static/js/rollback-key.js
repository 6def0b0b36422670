/* The key R opens the rollback dialog of an endpoint (3 a.m., one hand): it never acts by itself.

   Put data-rollback-key on the button that opens the dialog (components/rollback_button.html). */

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "r" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.repeat || event.target.matches("input, textarea, select, [contenteditable]")) return;
  if (document.querySelector("dialog[open]")) return;
  const button = document.querySelector("[data-rollback-key]:not(:disabled)");
  if (!button) return;
  event.preventDefault();
  button.click();
});
