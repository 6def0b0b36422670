/* Short reports in the corner, read out by screen readers (#toasts is a live region).

   toast("Copied", "ok")      tones: ok info warn bad; what is bad stays until it is dismissed.
   The server shows one with the header  HX-Trigger: {"toast": {"text": "…", "tone": "ok"}} .
   A failed htmx request (but 409, 412 and 422, which are swapped) shows the problem's own words. */

import { parseProblem } from "./http.js";
import { t } from "./strings.js";

const SECONDS = { ok: 5, info: 7, warn: 12 };

function leave(element, seconds) {
  if (seconds) setTimeout(() => element.remove(), seconds * 1000);
}

export function toast(text, tone = "info") {
  const region = document.getElementById("toasts");
  const template = document.getElementById("toast-template");
  if (!region || !template) return;
  for (const shown of region.querySelectorAll("[data-toast] .toast-text")) {
    if (shown.textContent === text) shown.parentElement.remove();
  }
  const element = template.content.firstElementChild.cloneNode(true);
  element.classList.add(`tone-${tone}`);
  element.querySelector(".toast-text").textContent = text;
  const icon = document.getElementById("toast-icons").content.querySelector(`[data-tone="${tone}"]`);
  if (icon) element.querySelector("[data-toast-icon]").replaceWith(icon.firstElementChild.cloneNode(true));
  region.append(element);
  leave(element, SECONDS[tone]);
}

document.addEventListener("click", (event) => {
  event.target.closest("[data-toast-close]")?.closest("[data-toast]").remove();
});

document.addEventListener("toast", (event) => toast(event.detail.text, event.detail.tone));

document.addEventListener("htmx:responseError", (event) => {
  const { xhr } = event.detail;
  const problem = parseProblem(xhr.responseText);
  const words = problem ? [problem.detail ?? problem.title, problem.hint].filter(Boolean).join(" ") : "";
  toast(words || t("request_failed", { status: xhr.status }), "bad");
});

document.addEventListener("htmx:sendError", (event) => {
  // A refresh that was asked for by a live event is tried again by the next one.
  if (event.detail.requestConfig?.triggeringEvent?.type !== "live-refresh") toast(t("unreachable"), "bad");
});

for (const element of document.querySelectorAll("#toasts > [data-toast]")) {
  if (!element.classList.contains("tone-bad")) leave(element, SECONDS.warn);
}
