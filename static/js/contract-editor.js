/* The two views of a contract's draft: a form and its YAML, each written into the other by the server.

   <form data-contract-editor> holds the hidden input "changed" (which view was written in last), the
   pane data-editor-form, and data-editor-yaml with a textarea and data-editor-lines. While one view's
   change is on its way the other cannot be written in, so that neither undoes the other; requests go
   one after the other, so that none is lost.
   The server's list of faults (data-fault, with data-at and data-line) is put to the fields and lines. */

import { bind } from "./bind.js";

const LINE_REM = 1.5;

function countLines(text) {
  let count = 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** The element for a place: its field, its row, or the list around it. */
function holderOf(form, pointer) {
  for (let at = pointer; at; at = at.slice(0, at.lastIndexOf("/"))) {
    const found = form.querySelector(`[data-pointer="${CSS.escape(at)}"]`);
    if (found) return found;
  }
  return null;
}

function sectionOf(form, pointer) {
  return [...form.querySelectorAll("[data-pointers]")].find((section) =>
    section.dataset.pointers.split(" ").some((own) => pointer === own || pointer.startsWith(`${own}/`)),
  );
}

function clearFaults(form) {
  for (const list of form.querySelectorAll("[data-placed]")) list.remove();
  for (const holder of form.querySelectorAll(".field-invalid")) {
    holder.classList.remove("field-invalid");
    for (const control of holder.querySelectorAll("[aria-invalid]")) {
      control.removeAttribute("aria-invalid");
      control.removeAttribute("aria-describedby");
    }
  }
  for (const count of form.querySelectorAll("[data-faults-count]")) {
    count.hidden = true;
    count.textContent = "";
  }
}

function placeFault(form, pointer, detail, number) {
  const section = sectionOf(form, pointer);
  const count = section?.querySelector("[data-faults-count]");
  if (count) {
    count.hidden = false;
    count.textContent = String(Number(count.textContent || 0) + 1);
  }
  const holder = holderOf(form, pointer);
  if (!holder) return;
  const list = document.createElement("ul");
  list.className = "field-errors";
  list.dataset.placed = "";
  list.id = `fault-${number}`;
  const item = document.createElement("li");
  item.textContent = detail;
  list.append(item);
  holder.append(list);
  holder.classList.add("field-invalid");
  const control = holder.matches(".field") ? holder.querySelector("input:not([type=hidden]), select") : null;
  control?.setAttribute("aria-invalid", "true");
  control?.setAttribute("aria-describedby", list.id);
}

bind("[data-contract-editor]", (form) => {
  const pane = form.querySelector("[data-editor-form]");
  const lines = form.querySelector("[data-editor-lines]");
  const place = form.querySelector("[data-editor-place]");
  const numbers = lines.appendChild(document.createElement("div"));
  const text = () => form.querySelector("#id_document");
  const fields = () => form.querySelector("#editor-fields");
  let written = 0;
  let sent = 0;
  let open = null;
  pane.hidden = false;

  function drawLines() {
    const bad = new Set([...form.querySelectorAll("[data-fault]")].map((fault) => Number(fault.dataset.line)));
    const count = countLines(text().value);
    numbers.replaceChildren(
      ...Array.from({ length: count }, (_, index) => {
        const line = document.createElement("span");
        line.textContent = String(index + 1);
        line.classList.toggle("line-bad", bad.has(index + 1));
        return line;
      }),
    );
    follow();
  }

  function follow() {
    numbers.style.transform = `translateY(${-text().scrollTop}px)`;
  }

  function showPlace() {
    const before = text().value.slice(0, text().selectionStart);
    const line = countLines(before);
    place.textContent = `${form.dataset.messageLine} ${line}:${before.length - before.lastIndexOf("\n")}`;
  }

  function placeFaults() {
    clearFaults(form);
    [...form.querySelectorAll("[data-fault]")].forEach((fault, index) => {
      const { textContent } = fault.querySelector("[data-fault-detail]");
      placeFault(form, fault.dataset.at, textContent, index);
    });
    drawLines();
  }

  function goTo(line) {
    const area = text();
    const rows = area.value.split("\n");
    const start = rows.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.focus();
    area.setSelectionRange(start, start + (rows[line - 1] ?? "").length);
    const size = parseFloat(getComputedStyle(document.documentElement).fontSize) * LINE_REM;
    area.scrollTop = Math.max(0, (line - 5) * size);
    follow();
    showPlace();
  }

  function hold(view) {
    if (view === "form") text().readOnly = true;
    else fields().disabled = true;
  }

  function release() {
    text().readOnly = false;
    // A form of a text that cannot be read stays as the server sent it.
    if (!fields().querySelector("[data-pointers]")) return;
    fields().disabled = false;
  }

  // What is typed for a button to use is no change of the document yet.
  pane.addEventListener("input", (event) => event.target.closest("[data-editor-ignore]") && event.stopPropagation(), true);
  form.addEventListener("input", (event) => {
    const inText = event.target === text();
    if (!inText && !pane.contains(event.target)) return;
    written += 1;
    form.elements.changed.value = inText ? "yaml" : "form";
    hold(form.elements.changed.value);
    if (inText) {
      drawLines();
      showPlace();
    }
  });
  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-go-line]");
    if (button) goTo(Number(button.dataset.goLine));
  });
  form.addEventListener("scroll", (event) => event.target === text() && follow(), true);
  for (const name of ["keyup", "click", "focusin"]) {
    form.addEventListener(name, (event) => event.target === text() && showPlace());
  }
  // Enter in a field is no wish to save: it goes on as Tab would, by staying where it is.
  pane.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input")) event.preventDefault();
  });

  form.addEventListener("htmx:beforeRequest", () => {
    sent = written;
  });
  form.addEventListener("htmx:afterRequest", () => {
    if (sent === written) release();
  });
  const isOurs = (event) => event.detail.target?.id === "editor-fields";
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    if (isOurs(event)) open = new Set([...fields().querySelectorAll("details[open]")].map(({ id }) => id));
  });
  document.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target?.id !== "editor-fields" || !open) return;
    for (const section of fields().querySelectorAll("details")) section.open = open.has(section.id);
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target?.id === "editor-meaning") placeFaults();
  });
  placeFaults();
});
