/* Copies text and says so.

   <button data-copy="the text">       copies the attribute
   <button data-copy-text>             copies the <pre> beside it (components/code.html) */

import { t } from "./strings.js";
import { toast } from "./toast.js";

async function write(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without a secure context (a console reached by http in a test network) only this way is left.
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done ? undefined : Promise.reject(new Error("copy was refused"));
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-text]");
  if (!button) return;
  const text = button.dataset.copy ?? button.parentElement.querySelector("pre")?.textContent ?? "";
  try {
    await write(text);
  } catch {
    toast(t("copy_failed"), "warn");
    return;
  }
  button.dataset.done = "";
  setTimeout(() => delete button.dataset.done, 1500);
  toast(t("copied"), "ok");
});
