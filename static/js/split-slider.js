/* Moves traffic between versions (components/split_slider.html).

   The draft is changed by the sliders and number fields; its sum is always 100 %. Versions that are not
   ready cannot be raised and say why. Apply sends  PUT data-split-url?wait=1  with If-Match: "revision"
   and {weights, reason, …kept fields}; the answer's acknowledgements are shown for each gateway.
   412: shows what changed and offers to load it. A live event about somebody else's change
   (topic data-split-topic, type split…; or resync) is loaded at once, or asks first when there is a draft.
   Fires "split:applied" on the form with the answer. */

import { bind } from "./bind.js";
import { Split } from "./split-form.js";

function bindInputs(form, split) {
  for (const [version, row] of split.rows) {
    for (const input of row.querySelectorAll("input")) {
      const event = input.type === "range" ? "input" : "change";
      input.addEventListener(event, () => split.move(version, Math.min(100, Math.max(0, Number(input.value) || 0))));
      input.addEventListener("change", () => (split.gesture = null));
    }
  }
  split.part("reset").addEventListener("click", () => split.reset());
  split.part("load").addEventListener("click", () => split.settle(true));
  split.part("keep").addEventListener("click", () => split.settle(false));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (split.changed && !split.busy) split.apply();
  });
}

function start(form) {
  const split = new Split(form);
  split.show();
  // Who may only look still sees each change as it happens.
  if (!("splitLocked" in form.dataset)) bindInputs(form, split);
  const listen = ({ detail }) => {
    const mine = detail.topic === form.dataset.splitTopic && String(detail.type).startsWith("split");
    if (split.busy || !(mine || detail.type === "resync")) return;
    if (mine && Number(detail.revision) === split.revision) split.heard(detail.acknowledgements);
    if (Number(detail.revision ?? Infinity) <= split.revision) return;
    split.foreignChange("split_foreign").catch(() => {}); // the next event, or 412 on Apply, tells it again
  };
  document.addEventListener("live:event", listen);
  return () => document.removeEventListener("live:event", listen);
}

bind("form[data-split]", start);
