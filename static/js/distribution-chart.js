/* How measured errors are spread: bars by power of ten, the limit as a line, the figures as a table.

   data-distribution-chart with data-chart-url, data-label-error, data-label-count; parts as in components/chart.html.
   JSON: {"bars": [{"label", "count"}], "limit": {"position": number | null, "label"}} */

import { bind } from "./bind.js";
import { send } from "./http.js";
import { t } from "./strings.js";

const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false };
const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function layout(data, labels) {
  const text = token("--text-3");
  const grid = token("--line");
  const axis = { gridcolor: grid, linecolor: grid, zeroline: false, tickfont: { color: text }, fixedrange: true };
  const { position } = data.limit;
  const line = { color: token("--bad"), width: 1, dash: "dash" };
  const known = position !== null && position !== undefined;
  return {
    margin: { l: 40, r: 8, t: 8, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: text },
    showlegend: false,
    bargap: 0.15,
    hoverlabel: { bgcolor: token("--raised"), bordercolor: token("--line-strong"), font: { color: token("--text") } },
    xaxis: { ...axis, type: "category", showgrid: false, title: { text: labels.error, standoff: 4 }, tickangle: 0 },
    yaxis: { ...axis, rangemode: "tozero", nticks: 5, tickformat: "d" },
    shapes: known ? [{ type: "line", xref: "x", x0: position, x1: position, yref: "paper", y0: 0, y1: 1, line }] : [],
  };
}

function legend(place, data) {
  const item = document.createElement("span");
  item.className = "chart-legend-item";
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 14 8");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", "M0 4h14");
  path.setAttribute("class", "chart-legend-limit");
  svg.append(path);
  item.append(svg, `${t("chart_limit")} ${data.limit.label}`);
  place.replaceChildren(item);
}

function table(place, data, labels) {
  const element = document.createElement("table");
  element.className = "table";
  const head = element.createTHead().insertRow();
  for (const name of [labels.error, labels.count]) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    head.append(cell);
  }
  head.lastElementChild.className = "num";
  const body = element.createTBody();
  for (const { label, count } of data.bars) {
    const row = body.insertRow();
    row.insertCell().textContent = label;
    const cell = row.insertCell();
    cell.className = "num";
    cell.textContent = String(count);
  }
  place.replaceChildren(element);
}

function start(chart) {
  const part = (name) => chart.querySelector(`[data-chart-${name}]`);
  const labels = { error: chart.dataset.labelError, count: chart.dataset.labelCount };
  const plot = part("plot");
  let data = null;

  function draw() {
    if (!data) return;
    part("message").textContent = data.bars.length ? "" : t("chart_empty");
    legend(part("legend"), data);
    if (!part("table").hidden) return table(part("table"), data, labels);
    const [x, y] = [data.bars.map((bar) => bar.label), data.bars.map((bar) => bar.count)];
    const trace = { type: "bar", x, y, marker: { color: token("--accent") }, hovertemplate: `%{x}: %{y}<extra></extra>` };
    return window.Plotly.react(plot, [trace], layout(data, labels), CONFIG);
  }

  part("toggle").addEventListener("click", () => {
    const shown = part("table").hidden;
    part("table").hidden = !shown;
    plot.hidden = shown;
    part("toggle").setAttribute("aria-pressed", String(shown));
    part("toggle").setAttribute("aria-label", t(shown ? "chart_show_chart" : "chart_show_table"));
    draw();
  });

  const size = new ResizeObserver(() => {
    // A plot that is hidden or has left the page has no size to follow.
    if (data && plot.offsetParent && plot.querySelector(".main-svg")) window.Plotly.Plots.resize(plot);
  });
  size.observe(plot);
  document.addEventListener("theme:change", draw);
  send("GET", chart.dataset.chartUrl).then(
    ({ body }) => {
      data = body;
      draw();
    },
    (problem) => {
      part("message").textContent = problem.sentence || t("chart_failed", { status: problem.status ?? 0 });
    },
  );
  return () => {
    size.disconnect();
    document.removeEventListener("theme:change", draw);
    window.Plotly?.purge(plot);
  };
}

bind("[data-distribution-chart]", start);
