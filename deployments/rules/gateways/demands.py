"""What a split, a mode or an access policy asks of the gateways that would carry it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.errors import Conflict
from deployments.rules.access.policies import asked_of_gateways
from deployments.rules.gateways.capabilities import Capability, Support
from deployments.rules.gateways.state import EndpointState, Mode


def demands_of_split(
    *,
    mode: str,
    weights: Mapping[int, int],
    header_rules: Sequence[object] = (),
    mirror: object = None,
    testers: Sequence[object] = (),
) -> tuple[Capability, ...]:
    """What gateways must be able to do for this split to be what callers get."""
    asked = {
        Capability.WEIGHTS: sum(points > 0 for points in weights.values()) > 1,
        Capability.HEADER_RULES: bool(header_rules),
        Capability.TESTERS: bool(testers),
        Capability.MIRROR: mirror is not None,
        Capability.FALLBACK_FIXED: mode == Mode.FALLBACK,
        Capability.OPEN_CIRCUIT: mode == Mode.OPEN,
    }
    return tuple(capability for capability, is_asked in asked.items() if is_asked)


def check_met(endpoint: EndpointState, supports: Sequence[Support]) -> None:
    """Refuse an endpoint that asks what this gateway cannot do and must not leave out.

    A mirror that is not sent harms nobody. Callers who should not be let in, or a share that would
    go to the wrong version, do: such an endpoint is not served there at all.

    Raises Conflict `not_by_gateway`.
    """
    asked = set(asked_of_gateways(endpoint.access))
    weights = endpoint.weights if endpoint.mode is Mode.NORMAL else {}
    split = demands_of_split(mode=endpoint.mode, weights=weights)
    asked |= {Capability.FALLBACK_FIXED, Capability.WEIGHTS} & set(split)
    if missing := [one for one in supports if one.capability in asked and not one.usable]:
        raise Conflict(
            f"{endpoint.environment}/{endpoint.model} asks for what this gateway cannot do: "
            + " ".join(one.words for one in missing),
            code="not_by_gateway",
        )
