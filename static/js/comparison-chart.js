/* How a figure of two versions is spread, both on one axis.

   data-comparison-chart="shares | cumulative", data-chart-url (a comparison as the API gives it),
   data-chart-path (where the distribution stands in it, as answers.outputs.0.values), data-chart-axis
   (unit of the values), data-label-range, data-label-within, data-label-above, data-label-pair, data-label-to;
   parts as in components/chart.html. The first version is dashed or hatched, the second plain, so that
   they are told apart without their colours. The same figures stand in a table behind the button. */

import { bind } from "./bind.js";
import { send } from "./http.js";
import { CONFIG, slot, swatch, token } from "./stat-chart.js";
import { figure, number, t } from "./strings.js";

const FRESH_FOR = 5000;
const answers = new Map();

/* One request for all charts of the page. */
function comparison(url) {
  const known = answers.get(url);
  if (known && Date.now() - known.at < FRESH_FOR) return known.answer;
  const answer = send("GET", url).then(({ body }) => body);
  answers.set(url, { at: Date.now(), answer });
  return answer;
}

const total = (counts) => counts.reduce((sum, count) => sum + count, 0);
const percent = (count, all) => (all ? (100 * count) / all : null);

/* The buckets from the first to the last in which anybody has a value, with one more on either side. */
function occupied({ edges, series }) {
  const some = [...Array(edges.length + 1).keys()].filter((index) => series.some(({ counts }) => counts[index]));
  if (!some.length) return [];
  const [first, last] = [Math.max(0, some[0] - 1), Math.min(edges.length, some.at(-1) + 1)];
  return [...Array(last - first + 1).keys()].map((index) => first + index);
}

/* Differences may be as small as 1e-8. */
const edge = (value) => (value && Math.abs(value) < 0.01 ? value.toExponential(0).replace("-", "−") : figure(value));

function rangeName({ edges, low }, index, labels) {
  if (index === edges.length) return labels.above.replace("{n}", edge(edges.at(-1)));
  if (!index && low === null) return `≤ ${edge(edges[0])}`;
  const from = index ? edges[index - 1] : low;
  return from === edges[index] ? edge(from) : `${edge(from)}–${edge(edges[index])}`;
}

/* Rows of the table and points of the chart: a name and one value for each version. */
function rows(data, mode, labels) {
  const { edges, series } = data;
  const sums = series.map(({ counts }) => total(counts));
  const within = (counts, index) => total(counts.slice(0, index + 1));
  return occupied(data)
    .filter((index) => mode === "shares" || index < edges.length)
    .map((index) => ({
      name: mode === "shares" ? rangeName(data, index, labels) : `≤ ${figure(edges[index])}`,
      tick: index < edges.length ? edge(edges[index]) : `> ${edge(edges.at(-1))}`,
      at: edges[index] ?? edges.at(-1),
      values: series.map(({ counts }, which) =>
        percent(mode === "shares" ? counts[index] : within(counts, index), sums[which]),
      ),
    }));
}

function traces(points, series, mode) {
  return series.map(({ name, version }, which) => {
    const color = token(version ? `--v${slot(version)}` : "--accent");
    const y = points.map(({ values }) => values[which]);
    const first = which === 0 && series.length > 1;
    if (mode === "cumulative") {
      const line = { color, width: 1.75, shape: "linear", dash: first ? "dash" : "solid" };
      return { type: "scatter", mode: "lines+markers", name, x: points.map(({ at }) => at), y, line, marker: { color, size: 4 }, hovertemplate: "%{y:.4~g} %" };
    }
    const pattern = first ? { shape: "/", fgcolor: color, bgcolor: token("--surface"), size: 5, solidity: 0.4 } : undefined;
    const marker = { color, line: { color, width: 1 }, pattern };
    return { type: "bar", name, x: points.map((point) => point.name), y, marker, hovertemplate: "%{y:.4~g} %" };
  });
}

/* Under the bars stands where each range ends; of many, some. */
function ticks(points) {
  const every = Math.ceil(points.length / 12);
  const shown = points.filter((_, index) => index % every === 0);
  return { tickvals: shown.map(({ name }) => name), ticktext: shown.map(({ tick }) => tick), tickangle: 0 };
}

function layout(mode, axisUnit, points, upTo) {
  const text = token("--text-3");
  const grid = token("--line");
  const axis = { gridcolor: grid, linecolor: grid, zeroline: false, tickfont: { color: text }, fixedrange: true };
  const title = { text: mode === "shares" ? [upTo, axisUnit].filter(Boolean).join(", ") : axisUnit, standoff: 4 };
  const x = mode === "shares" ? { type: "category", showgrid: false, ...ticks(points) } : { type: "log", dtick: "D2", tickformat: "~g" };
  return {
    margin: { l: 40, r: 8, t: 8, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: text },
    showlegend: false,
    bargap: 0.2,
    hovermode: "x unified",
    hoverlabel: { bgcolor: token("--raised"), bordercolor: token("--line-strong"), font: { color: token("--text") } },
    xaxis: { ...axis, ...x, title },
    yaxis: { ...axis, rangemode: "tozero", range: mode === "cumulative" ? [0, 102] : undefined, nticks: 5, tickformat: ",~f" },
  };
}

function table(place, points, series, head) {
  const element = document.createElement("table");
  element.className = "table";
  const top = element.createTHead().insertRow();
  for (const [index, name] of [head, ...series.map((one) => (one.name ? `${one.name} (%)` : "%"))].entries()) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    if (index) cell.className = "num";
    top.append(cell);
  }
  const body = element.createTBody();
  for (const { name, values } of points) {
    const row = body.insertRow();
    row.insertCell().textContent = name;
    for (const value of values) {
      const cell = row.insertCell();
      cell.className = "num";
      cell.textContent = value === null ? "—" : number(value, 2);
    }
  }
  place.replaceChildren(element);
}

function start(chart) {
  const { comparisonChart: mode, chartUrl, chartAxis, chartPath, labelRange, labelWithin, labelAbove, labelPair, labelTo } = chart.dataset;
  const part = (name) => chart.querySelector(`[data-chart-${name}]`);
  const plot = part("plot");
  let data = null;

  function draw() {
    if (!data) return;
    const points = rows(data, mode, { above: labelAbove });
    const { series } = data;
    part("message").textContent = points.length ? "" : t("chart_empty");
    part("legend").replaceChildren(
      ...series.map((one, which) => swatch(`${one.name || labelPair} · ${number(total(one.counts))}`, one.version ? `vc-${slot(one.version)}` : "vc-none", which || series.length < 2 ? "" : "4 2")),
    );
    if (part("table").hidden) {
      window.Plotly.react(plot, traces(points, series, mode), layout(mode, chartAxis, points, labelTo), CONFIG);
    } else {
      table(part("table"), points, series, [mode === "shares" ? labelRange : labelWithin, chartAxis && `(${chartAxis})`].filter(Boolean).join(" "));
    }
  }

  async function load() {
    if (document.hidden || !chart.isConnected) return;
    try {
      data = chartPath.split(".").reduce((part, name) => part?.[name], await comparison(chartUrl));
      chart.classList.remove("is-stale");
      draw();
    } catch (problem) {
      if (data) chart.classList.add("is-stale");
      else part("message").textContent = problem.sentence || t("chart_failed", { status: problem.status ?? 0 });
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
  const timer = setInterval(load, 10000);
  load();
  return () => {
    clearInterval(timer);
    size.disconnect();
    document.removeEventListener("theme:change", draw);
    window.Plotly?.purge(plot);
  };
}

bind("[data-comparison-chart]", start);
