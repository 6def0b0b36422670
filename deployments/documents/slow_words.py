"""Stages of a request's way, and what to do where one takes the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from deployments.rules.diagnosis.slow_requests import STAGES, Percentile

NAMES: Final = {
    "receive": _("Receiving the request"),
    "wait": _("At the gateway, before a node"),
    "send": _("Sending it to the node"),
    "queue": _("In Triton’s queue"),
    "compute": _("In the model"),
    "model": _("At the node, beyond the mean"),
    "answer": _("Sending the answer"),
    "rest": _("Not explained"),
}
ADVICE: Final = {
    "receive": _("The callers send slowly: large bodies, or a slow network. Send binary tensors."),
    "wait": _(
        "The gateway waits for a connection, or tries again after a fault: look at the attempts."
    ),
    "send": _("The node takes the body slowly: look at its network and its load."),
    "queue": _("Requests wait for the model: more instances, another batch, or less traffic."),
    "compute": _("The model itself takes the time: a lighter variant, or a faster node."),
    "model": _(
        "These requests took longer at the node than the average: a burst filled the queue, or a "
        "batch waited to be full."
    ),
    "answer": _("The callers read slowly, or the answers are large. Ask for fewer outputs."),
    "rest": _("The log does not say where: the request was ended before a node answered."),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A stage as a piece of a bar: its place and width in percent of the whole."""

    name: str
    label: str
    ms: float
    x: float
    width: float


def parts_of(stages: Mapping[str, float]) -> list[Part]:
    """The stages as pieces of one bar, in the order of the way; those of no time are left out."""
    total = sum(stages.values())
    found, x = [], 0.0
    for name in STAGES:
        ms = stages.get(name, 0.0)
        width = 100 * ms / total if total else 0.0
        if ms > 0:
            found.append(Part(name, str(NAMES[name]), ms, round(x, 3), round(width, 3)))
        x += width
    return found


def sentence(one: Percentile) -> str:
    """What the requests at or above a percentile spent their time on, in words."""
    words = {
        "n": one.slower,
        "percent": f"{one.percent:g}",
        "mean": f"{one.slower_ms:.2f}",
        "share": f"{100 * one.share:.0f}",
        "stage": NAMES[one.main],
    }
    template = ngettext(
        "%(n)s request at or above P%(percent)s took %(mean)s ms: %(share)s %% of it “%(stage)s”",
        "%(n)s requests at or above P%(percent)s took %(mean)s ms on average: %(share)s %% of it "
        "“%(stage)s”",
        one.slower,
    )
    return template % words
