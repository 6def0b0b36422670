/* How the split sliders show themselves: the two bars, a row, the gateways' acknowledgements. */

import { toPercent, WHOLE } from "./split-math.js";
import { number, t } from "./strings.js";

const SVG = "http://www.w3.org/2000/svg";

export function drawBar(svg, weights) {
  let start = 0;
  const parts = [];
  const words = [];
  for (const [version, weight] of Object.entries(weights)) {
    if (!weight) continue;
    const rect = document.createElementNS(SVG, "rect");
    rect.setAttribute("class", `vc-${((Number(version) - 1) % 8) + 1}`);
    rect.setAttribute("x", `${(100 * start) / WHOLE}%`);
    rect.setAttribute("width", `${(100 * weight) / WHOLE}%`);
    rect.setAttribute("height", "100%");
    parts.push(rect);
    words.push(`v${version} ${number(toPercent(weight), 2)} %`);
    start += weight;
  }
  svg.replaceChildren(...parts);
  svg.setAttribute("aria-label", words.join(", "));
}

export function showRow(row, percent, expected) {
  const [range, field] = row.querySelectorAll("input");
  range.value = percent;
  range.style.setProperty("--fill", `${percent}%`);
  range.setAttribute("aria-valuetext", `${number(percent, 2)} %`);
  if (document.activeElement !== field || Number(field.value) !== percent) field.value = String(percent);
  row.querySelector("[data-split-expected]").textContent = expected;
}

export function showAcknowledgements(list, acknowledgements = []) {
  const items = acknowledgements.map(({ gateway, outcome, took_ms: ms, reason }) => {
    const item = document.createElement("li");
    item.dataset.outcome = outcome;
    const key = { applied: "split_ack", refused: "split_nack" }[outcome] ?? "split_no_ack";
    item.textContent = t(key, { gateway, ms: ms === null || ms === undefined ? "?" : number(ms), detail: reason ?? "" });
    return item;
  });
  list.replaceChildren(...items);
}
