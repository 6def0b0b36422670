/* One stream of live events for the page.

   data-live-topics="job:12,endpoint:production/fraud_detector"   on <body> or any element
   data-live-refresh="job:12,node:*"   with hx-get and hx-trigger="live-refresh": fetched anew when an
                                       event of such a topic comes, at most twice a second
   Fires on document: "live:event" (detail: the event's JSON with topic and type), "live:lost", "live:back".

   The stream is closed while the tab is hidden. After a gap everything that refreshes is fetched once,
   since events may have been missed. While it is down, #live-banner says so and data-live is "lost" on <html>. */

import { bind } from "./bind.js";
import { ageWords } from "./ages.js";
import { t } from "./strings.js";

const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30000;
const GRACE = 3000;
const REFRESH_GAP = 500;

const topics = new Map();
let source = null;
let subscribed = new Set();
let wait = FIRST_WAIT;
let retry = 0;
let lostAt = 0;
let hadGap = false;
let hasOpened = false;
let bannerTimer = 0;

const split = (text) => (text ?? "").split(",").map((part) => part.trim()).filter(Boolean);

export function matches(pattern, topic) {
  return pattern.endsWith("*") ? topic.startsWith(pattern.slice(0, -1)) : pattern === topic;
}

function banner() {
  const element = document.getElementById("live-banner");
  if (!element) return;
  const shown = lostAt > 0 && Date.now() - lostAt > GRACE;
  element.hidden = !shown;
  document.documentElement.toggleAttribute("data-live-lost", shown);
  if (shown) element.querySelector("[data-live-banner-text]").textContent = t("live_lost", { age: ageWords(lostAt) });
}

/* The element that a swap has put in place of this one: an event that came in between is its own. */
function successor(element) {
  const { liveRefresh } = element.dataset;
  return [...document.querySelectorAll("[data-live-refresh]")].find(
    (other) => other.dataset.liveRefresh === liveRefresh && other.id === element.id,
  );
}

/* A dialog waits for an answer: what stands behind it can wait too, and a swap would take it away. */
function isBehindADialog(element) {
  const dialog = document.querySelector("dialog[open]");
  return dialog !== null && !dialog.contains(element);
}

function refreshNow(element) {
  const current = element.isConnected ? element : successor(element);
  if (!current) return;
  // What is asked for while an answer is on its way would be dropped with the element that it replaces.
  if (current.classList.contains("htmx-request") || isBehindADialog(current)) refreshSoon(current);
  else window.htmx?.trigger(current, "live-refresh");
}

function refreshSoon(element) {
  if (element.liveTimer) return;
  const since = Date.now() - (element.liveLast ?? 0);
  element.liveTimer = setTimeout(() => {
    element.liveTimer = 0;
    element.liveLast = Date.now();
    refreshNow(element);
  }, Math.max(0, REFRESH_GAP - since));
}

function refresh(topic) {
  for (const element of document.querySelectorAll("[data-live-refresh]")) {
    const patterns = split(element.dataset.liveRefresh);
    if (topic === null || patterns.some((pattern) => matches(pattern, topic))) refreshSoon(element);
  }
}

function receive(message) {
  let event;
  try {
    event = JSON.parse(message.data);
  } catch {
    return; // a comment or keep-alive of another making
  }
  if (!event?.topic) return;
  document.dispatchEvent(new CustomEvent("live:event", { detail: event }));
  // "resync": the server cannot say what was missed, so everything may be out of date.
  refresh(event.type === "resync" ? null : event.topic);
}

function opened() {
  hasOpened = true;
  wait = FIRST_WAIT;
  clearInterval(bannerTimer);
  if (lostAt) document.dispatchEvent(new CustomEvent("live:back"));
  lostAt = 0;
  banner();
  if (hadGap) refresh(null);
  hadGap = false;
}

function lost() {
  source?.close();
  source = null;
  hadGap = true;
  if (!lostAt) {
    lostAt = Date.now();
    document.dispatchEvent(new CustomEvent("live:lost"));
  }
  clearInterval(bannerTimer);
  bannerTimer = setInterval(banner, 1000);
  clearTimeout(retry);
  // Spread, so that a restarted server is not met by everybody at once.
  retry = setTimeout(connect, wait * (0.7 + 0.6 * Math.random()));
  wait = Math.min(wait * 2, LONGEST_WAIT);
}

function close() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

function connect() {
  const wanted = new Set([...topics.values()].flat());
  // A stream that tells of more is kept: another would leave a gap, after which everything is fetched
  // anew, which takes topics away and brings them back, and so on without an end.
  if (source && wanted.size && [...wanted].every((topic) => subscribed.has(topic))) return;
  if (source) hadGap = true;
  close();
  subscribed = wanted;
  if (!wanted.size || document.hidden) return;
  const { liveUrl, liveSince } = document.body.dataset;
  // What happened between the making of this page and its first stream is sent as well.
  const since = hasOpened || !liveSince ? "" : `&since=${liveSince}`;
  const named = encodeURIComponent([...wanted].sort().join(","));
  source = new EventSource(`${liveUrl}?topics=${named}${since}`);
  source.onopen = opened;
  source.onmessage = receive;
  source.onerror = lost;
}

bind("[data-live-topics]", (element) => {
  topics.set(element, split(element.dataset.liveTopics));
  queueMicrotask(connect);
  return () => {
    topics.delete(element);
    // A swap puts its successor there in a moment.
    setTimeout(connect, REFRESH_GAP);
  };
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    if (source) hadGap = true;
    close();
    clearInterval(bannerTimer);
    lostAt = 0;
    banner();
  } else {
    connect();
  }
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const { elt, triggeringEvent } = event.detail.requestConfig ?? {};
  if (triggeringEvent?.type !== "live-refresh" || !isBehindADialog(elt)) return;
  event.detail.shouldSwap = false;
  refreshSoon(elt);
});
addEventListener("pagehide", close);
addEventListener("pageshow", (event) => event.persisted && connect());
