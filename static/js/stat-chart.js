/* Time series drawn by Plotly from a JSON URL (components/chart.html).

   data-chart-url, data-chart-kind (line | area | bar), data-chart-unit, data-chart-live (seconds)
   JSON: {"series": [{"name", "version"?, "x": [RFC 3339], "y": [number | null], "dash"?}],
          "limit"?: {"value", "label"?}, "markers"?: [{"t", "label"}], "signed"?: true,
          "span"?: [RFC 3339, RFC 3339]}
   The axis starts at zero, or below it where values may be negative ("signed"); a version has its
   own colour; the limit is a dashed line; times are the reader's; charts of one span line up. The same figures stand in a table
   behind the button. */

import { bind } from "./bind.js";
import { send } from "./http.js";
import { figure, language, t } from "./strings.js";

const TABLE_ROWS = 200;
const DASHES = { dot: "2 2", dash: "4 2" };
export const CONFIG = { displayModeBar: false, responsive: false, doubleClick: "reset", scrollZoom: false };
const TICKS = [
  { dtickrange: [null, 59999], value: "%H:%M:%S" },
  { dtickrange: [60000, 86399999], value: "%H:%M" },
  { dtickrange: [86400000, null], value: "%m-%d" },
];
const TIME = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" });

export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const slot = (version) => ((version - 1) % 8) + 1;
const colour = (series) => token(series.version ? `--v${slot(series.version)}` : "--neutral");

/* A point between two gaps has no line to stand in: it gets a mark, all others none. */
const lone = (y) => y.map((value, at) => (value !== null && (y[at - 1] ?? null) === null && (y[at + 1] ?? null) === null ? 5 : 0));

function traces(data, kind) {
  return data.series.map((series) => ({
    x: series.x.map((time) => new Date(time)),
    y: series.y,
    name: series.name,
    type: kind === "bar" ? "bar" : "scatter",
    mode: "lines+markers",
    stackgroup: kind === "area" ? "all" : undefined,
    line: { color: colour(series), width: 1.75, dash: series.dash ?? "solid" },
    marker: { color: colour(series), ...(kind === "bar" ? {} : { size: lone(series.y) }) },
    hovertemplate: "%{y:.4~g}",
  }));
}

function highest(data, kind) {
  const sums = new Map();
  let high = 0;
  for (const series of data.series) {
    series.y.forEach((value, index) => {
      if (value === null) return;
      const total = value + (kind === "line" ? 0 : (sums.get(series.x[index]) ?? 0));
      sums.set(series.x[index], total);
      high = Math.max(high, total);
    });
  }
  return Math.max(high, data.limit?.value ?? 0) || 1;
}

function lowest(data) {
  if (!data.signed) return 0;
  const values = data.series.flatMap((series) => series.y).filter((value) => value !== null);
  return Math.min(0, data.limit?.value ?? 0, ...values);
}

function marks(data) {
  const shapes = [];
  const annotations = [];
  if (data.limit) {
    const line = { color: token("--bad"), width: 1, dash: "dash" };
    shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: data.limit.value, y1: data.limit.value, line });
  }
  for (const marker of data.markers ?? []) {
    const x = new Date(marker.t);
    const line = { color: token("--text-3"), width: 1, dash: "dot" };
    shapes.push({ type: "line", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line });
    const text = (data.markers.length === 1 && marker.label) || "▾";
    annotations.push({ x, yref: "paper", y: 1, yanchor: "bottom", showarrow: false, text, hovertext: marker.label });
  }
  return { shapes, annotations };
}

function layout(data, kind) {
  const text = token("--text-3");
  const grid = token("--line");
  const axis = { gridcolor: grid, linecolor: grid, zeroline: Boolean(data.signed), zerolinecolor: token("--line-strong"), tickfont: { color: text }, fixedrange: true };
  return {
    margin: { l: 40, r: 8, t: data.markers?.length ? 18 : 8, b: 24 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: text },
    showlegend: false,
    barmode: "stack",
    hovermode: "x unified",
    hoverlabel: { bgcolor: token("--raised"), bordercolor: token("--line-strong"), font: { color: token("--text") } },
    xaxis: { ...axis, type: "date", range: data.span?.map((time) => new Date(time)), showgrid: false, ticks: "outside", ticklen: 4, tickcolor: grid, tickangle: 0, nticks: 7, hoverformat: "%H:%M:%S", tickformatstops: TICKS },
    yaxis: { ...axis, range: [lowest(data) * 1.1, highest(data, kind) * 1.1], nticks: 5, tickformat: ",~f" },
    ...marks(data),
  };
}

function legend(place, data, unit) {
  const items = data.series.map((series) => [series.name, series.version ? `vc-${slot(series.version)}` : "vc-none", series.dash]);
  const nodes = items.map(([name, css, dash]) => swatch(name, css, DASHES[dash] ?? ""));
  if (data.limit) {
    const label = `${data.limit.label ?? t("chart_limit")} ${figure(data.limit.value)} ${unit}`;
    nodes.push(swatch(label, "", "3 2", "chart-legend-limit"));
  }
  place.replaceChildren(...nodes);
}

export function swatch(text, css, dash, line = "") {
  const item = document.createElement("span");
  item.className = `chart-legend-item ${css}`;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 14 8");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", "M0 4h14");
  if (dash) path.setAttribute("stroke-dasharray", dash);
  if (line) path.setAttribute("class", line);
  svg.append(path);
  item.append(svg, text);
  return item;
}

function table(place, data, unit) {
  const times = [...new Set(data.series.flatMap((series) => series.x))].sort().reverse();
  const values = data.series.map((series) => new Map(series.x.map((time, index) => [time, series.y[index]])));
  const element = document.createElement("table");
  element.className = "table";
  if (times.length > TABLE_ROWS) element.createCaption().textContent = t("chart_truncated", { n: TABLE_ROWS });
  const head = element.createTHead().insertRow();
  for (const [index, name] of [t("chart_time"), ...data.series.map((series) => `${series.name} (${unit})`)].entries()) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    if (index) cell.className = "num";
    head.append(cell);
  }
  const body = element.createTBody();
  for (const time of times.slice(0, TABLE_ROWS)) {
    const row = body.insertRow();
    row.insertCell().textContent = TIME.format(new Date(time));
    for (const column of values) {
      const cell = row.insertCell();
      cell.className = "num";
      const value = column.get(time);
      cell.textContent = value === null || value === undefined ? "—" : figure(value);
    }
  }
  place.replaceChildren(element);
}

function start(chart) {
  const { chartUrl, chartKind: kind = "line", chartUnit: unit = "", chartLive } = chart.dataset;
  const part = (name) => chart.querySelector(`[data-chart-${name}]`);
  const plot = part("plot");
  let data = null;
  let running = false;

  function draw() {
    if (!data) return;
    const empty = !data.series.some((series) => series.y.some((value) => value !== null));
    part("message").textContent = empty ? t("chart_empty") : "";
    legend(part("legend"), data, unit);
    if (!part("table").hidden) table(part("table"), data, unit);
    else window.Plotly.react(plot, traces(data, kind), layout(data, kind), CONFIG);
  }

  async function load() {
    if (running || document.hidden || !chart.isConnected) return;
    running = true;
    try {
      data = (await send("GET", chartUrl)).body;
      chart.classList.remove("is-stale");
      draw();
    } catch (problem) {
      if (data) chart.classList.add("is-stale");
      else part("message").textContent = problem.sentence || t("chart_failed", { status: problem.status ?? 0 });
    } finally {
      running = false;
    }
  }

  part("toggle").addEventListener("click", () => {
    const shown = part("table").hidden;
    part("table").hidden = !shown;
    plot.hidden = shown;
    part("toggle").setAttribute("aria-pressed", String(shown));
    part("toggle").setAttribute("aria-label", t(shown ? "chart_show_chart" : "chart_show_table"));
    draw();
  });

  const size = new ResizeObserver(() => data && !plot.hidden && plot.querySelector(".main-svg") && window.Plotly.Plots.resize(plot));
  size.observe(plot);
  document.addEventListener("theme:change", draw);
  document.addEventListener("visibilitychange", load);
  const timer = chartLive ? setInterval(load, Number(chartLive) * 1000) : 0;
  load();
  return () => {
    clearInterval(timer);
    size.disconnect();
    document.removeEventListener("theme:change", draw);
    document.removeEventListener("visibilitychange", load);
    window.Plotly?.purge(plot);
  };
}

bind("[data-stat-chart]", start);
