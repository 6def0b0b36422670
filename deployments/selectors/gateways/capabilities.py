"""What the gateways of an environment can do: for pages, and for services that would ask for it."""

from __future__ import annotations

from console.errors import Conflict
from deployments.models import Gateway
from deployments.rules.gateways.capabilities import Capability, Lack, lack_words, lacks

Known = tuple[tuple[str, str, dict[str, object]], ...]
"""Name, product and options of each gateway that listens for one environment."""


def gateways_of(environment: str) -> Known:
    """The gateways that listen for an environment; one query."""
    rows = Gateway.objects.filter(listeners__environment__name=environment).order_by("name")
    return tuple(rows.values_list("name", "adapter", "options"))


def check_capability(environment: str, *capabilities: Capability) -> None:
    """Refuse what a gateway of the environment cannot do, before anything is written; one query.

    Raises Conflict `not_by_gateway` that names the gateway and what is missing.
    """
    known = gateways_of(environment) if capabilities else ()
    for capability in capabilities:
        refuse_lacks(lacks(known, capability))


def refuse_lacks(found: tuple[Lack, ...]) -> None:
    """Raise Conflict `not_by_gateway` unless nothing is lacking."""
    if found:
        raise Conflict(
            " ".join(lack_words(lack) for lack in found),
            code="not_by_gateway",
            hint="See what each gateway can do on its page, under Gateways.",
        )
