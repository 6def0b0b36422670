/* Rows of inputs and outputs that can be added and removed.

   data-tensor-rows holds data-tensor-list with data-tensor-row elements, a template
   data-tensor-template with an empty row, and a button data-tensor-add; a row has a button
   data-tensor-remove. The server reads the fields by their order. */

import { bind } from "./bind.js";

bind("[data-tensor-rows]", (editor) => {
  const list = editor.querySelector("[data-tensor-list]");
  const template = editor.querySelector("[data-tensor-template]");
  editor.addEventListener("click", (event) => {
    if (event.target.closest("[data-tensor-add]")) {
      list.append(template.content.firstElementChild.cloneNode(true));
      list.lastElementChild.querySelector("input").focus();
      return;
    }
    const row = event.target.closest("[data-tensor-remove]")?.closest("[data-tensor-row]");
    if (!row) return;
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    (next?.querySelector("input") ?? editor.querySelector("[data-tensor-add]")).focus();
  });
});
