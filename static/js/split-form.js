/* The state of one form of split sliders: what is in force, the draft, and how the two meet the server.
   Bound by split-slider.js, which also says what the markup and the answers look like. */

import { send } from "./http.js";
import { changes, leastMoved, moveShare, toBasisPoints, toPercent } from "./split-math.js";
import { drawBar, showAcknowledgements, showRow } from "./split-view.js";
import { figure, number, t } from "./strings.js";

const fromPercent = (weights) =>
  Object.fromEntries(Object.entries(weights).map(([version, percent]) => [version, toBasisPoints(percent)]));
const inWords = (before, after) =>
  changes(before, after)
    .map(([version, from, to]) => t("split_version_change", { version, before: number(from, 2), after: number(to, 2) }))
    .join(", ");

export class Split {
  constructor(form) {
    this.form = form;
    this.rows = new Map([...form.querySelectorAll("[data-split-version]")].map((row) => [row.dataset.splitVersion, row]));
    this.revision = Number(form.dataset.splitRevision);
    this.rate = Number(form.dataset.splitRps) || 0;
    this.keep = JSON.parse(form.querySelector("script[type='application/json']")?.textContent ?? "{}");
    this.now = Object.fromEntries([...this.rows].map(([version, row]) => [version, toBasisPoints(row.dataset.splitPercent)]));
    this.draft = { ...this.now };
    this.busy = false;
    this.foreign = null;
    this.gesture = null;
  }

  part(name) {
    return this.form.querySelector(`[data-split-${name}]`);
  }

  get changed() {
    return changes(this.now, this.draft).length > 0;
  }

  get caps() {
    const unready = [...this.rows].filter(([, row]) => row.dataset.splitReady !== "yes");
    return Object.fromEntries(unready.map(([version]) => [version, this.now[version] ?? 0]));
  }

  move(version, percent) {
    const wanted = toBasisPoints(percent);
    this.gesture ??= { ...this.draft };
    this.draft = moveShare(this.gesture, version, wanted, { caps: this.caps, base: this.now });
    const { splitWhy: reason } = this.rows.get(version).dataset;
    const refused = version in this.caps && wanted > this.draft[version];
    this.say(refused ? t("split_unready", { version, reason }) : "", "warn");
    this.show();
  }

  show() {
    const { form, changed } = this;
    form.toggleAttribute("data-changed", changed);
    drawBar(this.part("now"), this.now);
    drawBar(this.part("new"), this.draft);
    for (const [version, row] of this.rows) {
      const percent = toPercent(this.draft[version] ?? 0);
      const expected = this.rate ? t("split_expected", { rate: figure((this.rate * percent) / 100) }) : "";
      showRow(row, percent, expected);
    }
    const moved = this.part("moved");
    if (moved) moved.textContent = changed ? t("split_moved", { share: number(toPercent(leastMoved(this.now, this.draft)), 2) }) : "";
    for (const name of ["apply", "reset"]) {
      const button = this.part(name);
      if (button) button.disabled = !changed || this.busy;
    }
  }

  say(text, tone = "") {
    const status = this.part("status");
    if (!status) return;
    status.textContent = text;
    status.dataset.tone = tone;
    this.part("acks").replaceChildren();
  }

  reset() {
    this.draft = { ...this.now };
    this.gesture = null;
    this.say("");
    this.show();
  }

  take({ revision, weights }) {
    const versions = fromPercent(weights);
    // A version without a row: this page is older than the split it would show.
    if (Object.keys(versions).some((version) => versions[version] > 0 && !this.rows.has(version))) location.reload();
    this.revision = Number(revision);
    this.now = Object.fromEntries([...this.rows.keys()].map((version) => [version, versions[version] ?? 0]));
  }

  async apply() {
    const reason = this.form.elements.reason;
    if (!reason.value.trim()) {
      this.say(t("split_reason_needed"), "warn");
      reason.focus();
      return;
    }
    this.busy = true;
    this.say(t("split_applying"));
    this.show();
    const weights = Object.fromEntries(Object.entries(this.draft).map(([version, value]) => [version, toPercent(value)]));
    const started = performance.now();
    try {
      const { body } = await send("PUT", `${this.form.dataset.splitUrl}?wait=1`, {
        headers: { "If-Match": `"${this.revision}"` },
        json: { ...this.keep, weights, reason: reason.value.trim() },
      });
      this.applied(body, Math.round(performance.now() - started));
    } catch (problem) {
      await this.refused(problem);
    } finally {
      this.busy = false;
      this.show();
    }
  }

  applied(body, ms) {
    this.take(body);
    this.reset();
    this.form.elements.reason.value = "";
    this.say(t("split_applied", { revision: body.revision, ms: number(ms) }), "ok");
    showAcknowledgements(this.part("acks"), body.acknowledgements);
    this.form.dispatchEvent(new CustomEvent("split:applied", { bubbles: true, detail: body }));
  }

  async refused(problem) {
    if (problem.status === 412) {
      this.say("");
      await this.foreignChange("split_stale");
    } else if (problem.status === 504) {
      const revision = problem.body?.revision ?? this.revision + 1;
      await this.load();
      this.reset();
      this.say(t("split_waiting", { revision }), "warn");
      showAcknowledgements(this.part("acks"), problem.body?.acknowledgements);
    } else {
      this.say(problem.sentence || t("unreachable"), "bad");
    }
  }

  /** Gateways that answer after Apply did: shown where their waiting was shown. */
  heard(acknowledgements) {
    if (acknowledgements?.length && this.part("acks")?.childElementCount) showAcknowledgements(this.part("acks"), acknowledgements);
  }

  async load() {
    this.take((await send("GET", this.form.dataset.splitUrl)).body);
  }

  /** Somebody else moved the traffic: a clean form follows at once, one with a draft asks. */
  async foreignChange(key) {
    const { body } = await send("GET", this.form.dataset.splitUrl);
    if (Number(body.revision) <= this.revision) return;
    const who = body.author || t("somebody");
    const change = inWords(this.now, fromPercent(body.weights));
    const text = t(key, { revision: body.revision, who, change });
    if (!this.changed) {
      this.take(body);
      this.reset();
      this.say(text);
      return;
    }
    this.foreign = body;
    this.part("notice-text").textContent = text;
    this.part("notice").hidden = false;
  }

  /** Answer to the question: load theirs, or keep the draft on top of their revision. */
  settle(loadIt) {
    const draft = { ...this.draft };
    this.take(this.foreign);
    this.draft = loadIt ? { ...this.now } : draft;
    this.foreign = null;
    this.part("notice").hidden = true;
    this.show();
  }
}
