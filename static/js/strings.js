/* The sentences of the scripts in the reader's language, and numbers as that language writes them.

   t("split_applied", { revision: 12, ms: 41 })   text from the page's #script-strings (JSON). */

let strings;

export const language = document.documentElement.lang || "en";

export function t(key, values = {}) {
  strings ??= JSON.parse(document.getElementById("script-strings")?.textContent ?? "{}");
  const sentence = strings[key] ?? key;
  return sentence.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export function number(value, digits = 0) {
  return new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value);
}

/* Three figures where there are decimals to show, as the server's tags do. */
export function figure(value) {
  const size = Math.abs(value);
  return number(value, size < 10 ? 2 : size < 100 ? 1 : 0);
}

export function fileSize(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit ? figure(bytes) : number(bytes)}\u00a0${units[unit]}`;
}

export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  if (h) return `${h}:${two(m)}:${two(s)}`;
  return `${m}:${two(s)}`;
}
