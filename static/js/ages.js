/* Keeps what is said about time true while the page stands open.

   <time datetime data-age>               "12 s ago", counted on
   <time datetime data-moment>            date and time in the reader's own time zone (UTC on hover);
                                          data-moment="time": the time of day alone
   data-elapsed-since="RFC 3339"          time since then, 0:42
   data-remaining-until="RFC 3339"        time until then, 0:42; 0:00 when it has come
   data-measured-at + data-stale-after    gets .is-stale when the figure is older than that (seconds) */

import { duration, language, t } from "./strings.js";

const STEPS = [
  [60, 1, "seconds_ago", "in_seconds"],
  [3600, 60, "minutes_ago", "in_minutes"],
  [86400, 3600, "hours_ago", "in_hours"],
  [30 * 86400, 86400, "days_ago", "in_days"],
];
const DATE = new Intl.DateTimeFormat(language, { dateStyle: "medium" });
const TIME = new Intl.DateTimeFormat(language, { timeStyle: "medium" });
const DATE_TIME = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });

export function ageWords(when, now = Date.now()) {
  const seconds = Math.trunc((now - when) / 1000);
  const size = Math.abs(seconds);
  if (size < 2) return t("just_now");
  for (const [limit, unit, past, coming] of STEPS) {
    if (size < limit) return t(seconds < 0 ? coming : past, { n: Math.floor(size / unit) });
  }
  return DATE.format(when);
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function refresh(root = document, now = Date.now()) {
  for (const element of root.querySelectorAll("time[data-age]")) {
    say(element, ageWords(Date.parse(element.dateTime), now));
  }
  for (const element of root.querySelectorAll("[data-elapsed-since]")) {
    say(element, duration((now - Date.parse(element.dataset.elapsedSince)) / 1000));
  }
  for (const element of root.querySelectorAll("[data-remaining-until]")) {
    say(element, duration((Date.parse(element.dataset.remainingUntil) - now) / 1000));
  }
  for (const element of root.querySelectorAll("[data-measured-at]")) {
    const age = (now - Date.parse(element.dataset.measuredAt)) / 1000;
    element.classList.toggle("is-stale", age > Number(element.dataset.staleAfter || 10));
  }
}

function moments(root) {
  for (const element of root.querySelectorAll("time[data-moment]:not([title])")) {
    const when = Date.parse(element.dateTime);
    element.title = `${new Date(when).toISOString().replace("T", " ").slice(0, 19)} UTC`;
    say(element, (element.dataset.moment === "time" ? TIME : DATE_TIME).format(when));
  }
}

document.addEventListener("htmx:load", (event) => {
  moments(event.detail.elt);
  refresh(event.detail.elt);
});
moments(document);
refresh();
setInterval(() => document.hidden || refresh(), 1000);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
