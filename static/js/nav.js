/* The drawer of a phone, and menus that close when one looks elsewhere.

   data-nav-open        opens the dialog #nav-drawer
   <details data-menu>  closes on a click outside, on Escape (focus goes back) and when focus leaves */

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-nav-open]")) document.getElementById("nav-drawer")?.showModal();
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

document.addEventListener("focusout", (event) => {
  const menu = event.target.closest?.("details[data-menu][open]");
  if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
});

/* Of tabs that are wider than a phone, the one where one is stands in view. */
for (const tab of document.querySelectorAll(".tabs > [aria-current=page]")) {
  const row = tab.parentElement;
  if (row.scrollWidth > row.clientWidth) row.scrollLeft = tab.offsetLeft - row.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
}
