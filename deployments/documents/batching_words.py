"""The batching advisor's advice in the reader's own words: what, why, and what it will do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from deployments.rules.diagnosis.batching import Advice

SETTINGS: Final = {
    "max_batch_size": _("Largest batch"),
    "queue_delay_us": _("Queue delay (µs)"),
    "preferred_batch_sizes": _("Preferred batch sizes"),
    "instance_count": _("Instances"),
}

# Code → what to do, why, and the expected effect.
WORDS: Final[dict[str, tuple[Promise | str, Promise | str, Promise | str]]] = {
    "batch_full": (
        _("Allow larger batches"),
        _(
            "Executions are full (%(efficiency)s rows each) and the instances "
            "compute %(use)s %% of the time, so requests queue for %(queue_ms)s ms."
        ),
        _(
            "Fewer executions for the same requests. Load-test the larger batch first: it takes "
            "more memory and time for each."
        ),
    ),
    "batch_small": (
        _("Allow larger batches"),
        _("One request alone fills an execution, and %(load)s requests are there at once."),
        _("Up to %(load)s requests share an execution."),
    ),
    "batching_ineffective": (
        _("Wait a little longer for a fuller batch"),
        _(
            "%(load)s requests are at the node at once, but an execution takes only %(together)s "
            "of them: dynamic batching is not effective."
        ),
        _(
            "About %(gathered)s requests share an execution: %(executions)s executions per "
            "second for %(rate)s requests. Each request waits %(added)s ms longer on average."
        ),
    ),
    "delay_useless": (
        _("Do not wait for a fuller batch"),
        _(
            "Within the queue delay %(arrivals)s further requests come: each request waits for "
            "nobody."
        ),
        _("Every request is quicker by up to %(saved)s ms, and nothing is lost."),
    ),
    "fits": (
        _("Nothing to change"),
        _(
            "%(rate)s requests per second, %(together)s in an execution, %(load)s at the node at "
            "once; the instances compute %(use)s %% of the time."
        ),
        "",
    ),
    "instances_busy": (
        _("Run more instances"),
        _(
            "The instances compute %(use)s %% of the time, and a request waits %(queue_ms)s ms "
            "for %(compute_ms)s ms of work."
        ),
        _(
            "They compute %(after)s %% of the time then, and the queue nearly goes. Each "
            "instance takes its memory once more."
        ),
    ),
    "instances_idle": (
        _("Run fewer instances"),
        _(
            "The instances compute %(use)s %% of the time, and hardly ever are two requests "
            "there at once."
        ),
        _("The memory of the others is free, with no request slower."),
    ),
    "instances_split": (
        _("Run fewer instances, so that requests meet in one batch"),
        _(
            "%(load)s requests are at the node at once, but free instances take each of them "
            "alone (%(together)s in an execution)."
        ),
        _(
            "Requests wait for each other instead of for many small executions; measure it by a "
            "load test."
        ),
    ),
    "no_batch_axis": (
        _("Export the model with a free batch axis"),
        _("%(could)s requests are at the node at once, and the graph takes one at a time."),
        _("Up to %(could)s requests could share an execution."),
    ),
    "not_batched": (
        _("Switch dynamic batching on"),
        _("%(could)s requests are at the node at once, and each is executed alone."),
        _(
            "Up to %(could)s requests share an execution; compute time per request falls most on "
            "a GPU."
        ),
    ),
    "preferred_unreachable": (
        _("Leave preferred batch sizes out"),
        _(
            "A batch of %(size)s is preferred, but no more than %(reachable)s rows are ever "
            "there at once: each batch waits out the whole queue delay."
        ),
        _(
            "Batches leave as soon as the delay is over or an instance is free, whichever was "
            "sooner."
        ),
    ),
    "too_few": (
        _("Too few requests to tell"),
        _("%(requests)s requests in this span; %(needed)s are needed."),
        "",
    ),
}


@dataclass(frozen=True, slots=True)
class Told:
    """A piece of advice in words; `change` is the setting, "" where there is none."""

    code: str
    verdict: str
    title: str
    why: str
    effect: str
    setting: str
    change: str
    now: str
    wanted: str


def told(advice: Advice) -> Told:
    """The advice in the reader's language."""
    title, why, effect = WORDS[advice.code]
    data = defaultdict(lambda: "—", advice.data)
    return Told(
        advice.code,
        advice.verdict,
        str(title),
        str(why) % data,
        str(effect) % data,
        advice.setting,
        str(SETTINGS[advice.setting]) if advice.setting else "",
        advice.now,
        advice.wanted,
    )
