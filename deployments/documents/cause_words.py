"""The root-cause board in words: what moved, what it means, what to do next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.templatetags.console_formats import NBSP, significant, span
from deployments.documents.occurrence_words import said
from deployments.rules.causes.board import Contrast, Mover, Steady
from deployments.rules.causes.findings import Finding
from deployments.rules.causes.quantities import Layer, Signal
from deployments.selectors.causes.board import Board

NAMES = {
    "conversion_rate": gettext_lazy("Conversion"),
    "feature_drift_score": gettext_lazy("Feature drift"),
    "model_output_entropy": gettext_lazy("Entropy of the answers"),
    "requests": gettext_lazy("Requests"),
    "errors": gettext_lazy("Errors"),
    "caller_faults": gettext_lazy("Requests refused as wrong"),
    "p99": gettext_lazy("Latency P99"),
    "timeouts": gettext_lazy("Time-outs"),
    "no_node": gettext_lazy("Requests without a node"),
    "queue": gettext_lazy("Queue time"),
    "compute": gettext_lazy("Compute time"),
    "batch": gettext_lazy("Batch efficiency"),
    "cache_hits": gettext_lazy("Cache hits"),
    "gpu_utilization": gettext_lazy("GPU utilisation"),
    "gpu_memory": gettext_lazy("GPU memory"),
    "gpu_temperature": gettext_lazy("GPU temperature"),
    "gpu_power": gettext_lazy("GPU power"),
    "gpu_clock": gettext_lazy("GPU clock"),
    "gpu_link": gettext_lazy("NVLink utilisation"),
    "host_cpu": gettext_lazy("Processor of the machine"),
    "host_memory": gettext_lazy("Memory of the machine"),
}
LAYERS = {
    Layer.BUSINESS: gettext_lazy("Business"),
    Layer.GATEWAY: gettext_lazy("Gateway"),
    Layer.TRITON: gettext_lazy("Triton"),
    Layer.GPU: gettext_lazy("GPU"),
    Layer.HOST: gettext_lazy("Machine"),
}
ICONS = {
    Layer.BUSINESS: "sla",
    Layer.GATEWAY: "endpoints",
    Layer.TRITON: "models",
    Layer.GPU: "nodes",
    Layer.HOST: "nodes",
}
MEANINGS = {
    "no_node": gettext_lazy("No node that has the version could be reached"),
    "version_fails": gettext_lazy("v%(version)s fails"),
    "version_slow": gettext_lazy("v%(version)s is slower than what answers beside it"),
    "batching_ineffective": gettext_lazy(
        "Dynamic batching is not effective: requests wait, and yet few are put together"
    ),
    "overload": gettext_lazy("More requests come than the instances can take"),
    "thermal": gettext_lazy("The GPU is hot and clocks itself down"),
    "memory_grows": gettext_lazy("GPU memory grows: something does not give it back"),
    "transfer_bound": gettext_lazy("Moving data to and between GPUs is what takes the time"),
    "machine_busy": gettext_lazy("The machine is busy with something else as well"),
    "outside_model": gettext_lazy(
        "The time is lost outside the model: queue and compute are as they were"
    ),
    "inputs_changed": gettext_lazy("The requests have changed, not the system"),
    "callers_gone": gettext_lazy("The callers are gone; what is here works"),
    "callers_at_fault": gettext_lazy("Callers send requests that the contract refuses"),
}
ADVICE = {
    "nodes": gettext_lazy("Look at the nodes"),
    "roll_back": gettext_lazy("Roll back on the page of the endpoint"),
    "batching": gettext_lazy("See what the batching advisor says"),
    "capacity": gettext_lazy("Add instances or nodes, or limit callers"),
    "cooling": gettext_lazy("Look at the node’s GPUs"),
    "memory": gettext_lazy("Look at the memory of the node’s GPUs"),
    "transfer": gettext_lazy("Look at the node’s GPUs"),
    "slow_requests": gettext_lazy("See where the slowest requests lost their time"),
    "telemetry": gettext_lazy("See which feature drifts"),
    "callers": gettext_lazy("See who calls"),
}


@dataclass(frozen=True, slots=True)
class Told:
    """A line of the board: words, when, how long after what, and how it looks."""

    text: str
    icon: str
    tone: str
    layer: str
    at: datetime | None = None
    after: str = ""
    step_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Meaning:
    """A finding: the conclusion, the evidence for it, and where to go on."""

    code: str
    text: str
    evidence: list[str]
    advice: str
    url: str


def sentences(board: Board) -> list[str]:
    """The whole story in a few sentences, the first mover first."""
    case = board.case
    if case.first is None:
        return [_("Nothing moved for the worse in this stretch of time.")]
    found = [_first_sentence(board)]
    symptom = case.symptom
    if symptom is not None and symptom is not case.first:
        later = (symptom.move.at - case.first.move.at).total_seconds()
        found.append(
            _("%(after)s later: %(what)s.") % {"after": span(later), "what": mover_text(symptom)}
            if later
            else _("At the same time: %(what)s.") % {"what": mover_text(symptom)}
        )
    found += [f"→ {meaning.text}." for meaning in meanings(board)[:2]]
    if case.over_at is not None:
        at = timezone.localtime(case.over_at)
        found.append(_("It was over at %(at)s.") % {"at": f"{at:%H:%M:%S}"})
    return found


def _first_sentence(board: Board) -> str:
    case = board.case
    if case.first is None:
        return ""
    what = mover_text(case.first)
    before = board.before
    if before is None or case.before_s is None:
        return _("First, %(what)s. Nothing is known to have happened just before.") % {"what": what}
    event = said(before).title
    if case.before_s <= 0:
        return _("First, %(what)s, at the time of: %(event)s.") % {"what": what, "event": event}
    return _("First, %(what)s, %(after)s after: %(event)s.") % {
        "what": what,
        "after": span(case.before_s),
        "event": event,
    }


def movers(board: Board) -> list[Told]:
    """What moved, in order of time, each with how long after the first."""
    first = board.case.first
    found = []
    for one in board.case.movers:
        later = (one.move.at - first.move.at).total_seconds() if first else 0.0
        found.append(
            Told(
                text=mover_text(one),
                icon=ICONS[one.signal.kind.layer],
                tone="bad" if one.is_bad else "neutral",
                layer=str(LAYERS[one.signal.kind.layer]),
                at=one.move.at,
                after=f"+{span(later)}" if later else "",
                step_s=one.signal.step_s,
            )
        )
    return found


def steady(board: Board) -> list[str]:
    """What stayed as it was: of the endpoint as a whole, the business and the machines."""
    return [
        steady_text(one)
        for one in board.case.steady
        if not one.signal.version or one.signal.kind.layer is Layer.BUSINESS
    ]


def meanings(board: Board) -> list[Meaning]:
    """What the case means, with its evidence and the next step."""
    return [_meaning(one, board) for one in board.findings]


def mover_text(one: Mover) -> str:
    """`v7: Queue time rose from 1.2 ms to 42 ms`."""
    if one.appeared:
        words = _("%(what)s %(after)s from its first requests, beside it %(before)s")
    elif one.move.rose:
        words = _("%(what)s rose from %(before)s to %(after)s")
    else:
        words = _("%(what)s fell from %(before)s to %(after)s")
    return words % {
        "what": name_of(one.signal),
        "before": value_of(one.signal.kind.unit, one.move.before),
        "after": value_of(one.signal.kind.unit, one.move.after),
    }


def steady_text(one: Steady) -> str:
    """`GPU memory flat at 3.1 GiB`."""
    return _("%(what)s flat at %(value)s") % {
        "what": name_of(one.signal),
        "value": value_of(one.signal.kind.unit, one.level),
    }


def contrast_text(one: Contrast) -> str:
    """`v2: Errors 34 %, the versions beside it 0 %`."""
    return _("v%(version)s: %(what)s %(value)s, beside it %(others)s") % {
        "version": one.version,
        "what": NAMES[one.kind.code],
        "value": value_of(one.kind.unit, one.value),
        "others": value_of(one.kind.unit, one.others),
    }


def name_of(signal: Signal) -> str:
    """The quantity, with the version or the place that it is of."""
    name = str(NAMES[signal.kind.code])
    if signal.version:
        return f"v{signal.version}: {name}"
    return f"{signal.place}: {name}" if signal.place else name


def value_of(unit: str, value: float) -> str:
    """A value with its unit, three figures."""
    if not math.isfinite(value):
        return "∞"
    joint = "" if unit.startswith("1/") or not unit else NBSP
    return f"{significant(value)}{joint}{unit.removeprefix('1')}"


def _meaning(one: Finding, board: Board) -> Meaning:
    return Meaning(
        code=one.code,
        text=str(MEANINGS[one.code]) % {"version": one.version},
        evidence=[_evidence(part) for part in one.evidence],
        # Nobody rolls back from what is over.
        advice="" if one.advice == "roll_back" and board.case.over_at else str(ADVICE[one.advice]),
        url=_url(one.advice, board),
    )


def _evidence(part: Mover | Steady | Contrast) -> str:
    if isinstance(part, Mover):
        return mover_text(part)
    return steady_text(part) if isinstance(part, Steady) else contrast_text(part)


def _url(advice: str, board: Board) -> str:
    names = [board.endpoint.environment.name, board.endpoint.model.name]
    if advice in ("nodes", "cooling", "memory", "transfer", "capacity"):
        return reverse("deployments:node-list")
    if advice == "callers":
        return reverse("deployments:endpoint-access", args=names)
    return reverse("deployments:endpoint-detail", args=names)
