/* Further files of an upload, by the names that it calls them (components/upload_set.html).

   Files come by "upload:further" {files}, fired at data-upload-set, or are dropped there. What an element with
   data-upload-needs="NAME|NAME" names has to be there; the set shows what is missing. A form is not sent while a
   file is on its way. */

import { bind } from "./bind.js";
import { t } from "./strings.js";
import { mount } from "./upload.js";

class UploadSet {
  constructor(element) {
    this.element = element;
    this.part = (name) => element.querySelector(`[data-upload-set-${name}]`);
    this.needed = [];
    this.of = "";
  }

  get rows() {
    return [...this.part("files").children];
  }

  add(files) {
    this.element.hidden = false;
    for (const file of files) {
      this.rows.find((row) => row.dataset.uploadSetName === file.name)?.remove();
      const row = this.part("row").content.cloneNode(true).firstElementChild;
      row.dataset.uploadSetName = file.name;
      this.part("files").append(row);
      const upload = row.querySelector("[data-upload]");
      upload.addEventListener("upload:reset", () => this.remove(row));
      mount(upload).choose([file]);
    }
    this.say();
  }

  remove(row) {
    row.remove();
    this.say();
  }

  need(names, of) {
    [this.needed, this.of] = [names, of];
    if (names.length) this.element.hidden = false;
    this.say();
  }

  say() {
    const here = new Set(this.rows.map((row) => row.dataset.uploadSetName));
    const missing = this.needed.filter((name) => !here.has(name));
    const need = this.part("need");
    need.hidden = this.needed.length === 0;
    need.dataset.state = missing.length ? "missing" : "complete";
    const [file, names] = [this.of, (missing.length ? missing : this.needed).join(", ")];
    need.textContent = t(missing.length ? "upload_set_missing" : "upload_set_complete", { file, names });
  }

  get busy() {
    return this.rows.some((row) => !row.querySelector("input[type=hidden]").value);
  }
}

function start(element) {
  const set = new UploadSet(element);
  element.addEventListener("upload:further", (event) => set.add(event.detail.files));
  element.addEventListener("upload:needs", (event) => set.need(event.detail.names, event.detail.of));
  // The upload that these belong to has an event of the same name, which the page waits for.
  element.addEventListener("upload:done", (event) => event.stopPropagation());
  element.addEventListener("click", (event) => {
    const row = event.target.closest("[data-upload-set-remove]")?.closest("li");
    if (row) set.remove(row);
  });
  set.part("file").addEventListener("change", (event) => {
    set.add(event.target.files);
    event.target.value = "";
  });
  const drop = set.part("drop");
  const over = (event, on) => {
    event.preventDefault();
    drop.toggleAttribute("data-over", on);
  };
  drop.addEventListener("dragover", (event) => over(event, true));
  drop.addEventListener("dragleave", (event) => over(event, false));
  drop.addEventListener("drop", (event) => {
    over(event, false);
    set.add(event.dataTransfer.files);
  });
  const form = element.closest("form");
  const sending = (event) => {
    if (!set.busy) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const need = set.part("need");
    [need.hidden, need.dataset.state, need.textContent] = [false, "missing", t("upload_set_busy")];
    need.scrollIntoView({ block: "center" });
  };
  form?.addEventListener("submit", sending, { capture: true });
  return () => form?.removeEventListener("submit", sending, { capture: true });
}

bind("[data-upload-set]", start);

bind("[data-upload-needs]", (element) => {
  const names = element.dataset.uploadNeeds.split("|").filter(Boolean);
  const detail = { names, of: element.dataset.uploadNeedsOf };
  for (const set of document.querySelectorAll("[data-upload-set]")) set.dispatchEvent(new CustomEvent("upload:needs", { detail }));
});
