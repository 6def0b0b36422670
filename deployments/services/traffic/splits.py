"""Moving traffic: every change of what an endpoint's callers get is a new, numbered split."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotAcknowledged, NotFound, Stale
from console.services import audit
from deployments.models import Endpoint, EndpointMode, SplitCause, SplitState, TrafficSplit
from deployments.rules.gateways.demands import demands_of_split
from deployments.rules.traffic import slices, splits
from deployments.rules.traffic.routing_rules import (
    parse_header,
    parse_header_rules,
    parse_mirror,
    parse_testers,
)
from deployments.selectors.fleet.readiness import ready_versions
from deployments.selectors.gateways.capabilities import check_capability
from deployments.selectors.traffic.acknowledgements import GatewayWord, gateway_words
from deployments.services.gateways.desired import split_event, wake_gateways
from deployments.services.incidents.records import mode_changed
from models_registry.models import RegisteredModel
from models_registry.services.contract_checks import contract_that_holds, verify_in_force

FIRST_LOOK_S = 0.004
LONGEST_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Wanted:
    """Everything of a split that a person decides; weights in basis points.

    `probe` is decided by the return from a level alone; whatever a person asks for takes it away.
    """

    mode: str
    weights: dict[int, int]
    sticky_header: str
    header_rules: list[dict[str, Any]]
    mirror: dict[str, Any] | None
    probe: int = 0
    testers: list[dict[str, Any]] = field(default_factory=list)


def set_split(
    *,
    environment: str,
    model: str,
    weights: Mapping[str, object] | Mapping[int, object],
    expected_revision: int | None,
    reason: str,
    actor: Actor,
    sticky_header: str | None = None,
    header_rules: Sequence[Mapping[str, Any]] | None = None,
    mirror: Mapping[str, Any] | None = None,
    testers: Sequence[Mapping[str, Any]] | None = None,
) -> TrafficSplit:
    """Divide an endpoint's traffic among its versions, in percent; what is None stays as it is.

    Header rules are `{header, value, version}`, a mirror is `{version, percent}` (percent 0 ends
    it), testers are `{caller, version}`: callers, by the value of the sticky header, who always get
    one version. What is there already is given back as it stands, without a new revision.

    Raises Invalid (weights, no reason), Stale when `expected_revision` is not the present one,
    Conflict when a version is not ready, NotFound, NotAllowed.
    """
    require(actor, "split.change")
    points = splits.parse_weights(weights)
    need_reason(reason)
    with transaction.atomic():
        endpoint = locked_endpoint(environment, model, actor, "split.change")
        now = wanted_of(endpoint.current)
        wanted = replace(now, weights=points, probe=0)
        if sticky_header is not None:
            wanted = replace(wanted, sticky_header=parse_header(sticky_header))
        if header_rules is not None:
            wanted = replace(wanted, header_rules=parse_header_rules(header_rules))
        if mirror is not None:
            wanted = replace(wanted, mirror=parse_mirror(mirror))
        if testers is not None:
            wanted = replace(wanted, testers=parse_testers(testers))
        if endpoint.current is not None and wanted == now:
            # It is there already, whoever sent it: a retry whose first answer was lost is one.
            return endpoint.current
        check_revision(endpoint, expected_revision)
        ready = ready_versions(endpoint)
        splits.check_ready(points, ready)
        _check_others_ready(wanted, ready)
        _check_gateways(endpoint, wanted)
        return write_split(
            endpoint,
            wanted,
            cause=SplitCause.MANUAL,
            reason=reason,
            actor=actor,
            action="split.change",
        )


def set_mode(
    *,
    environment: str,
    model: str,
    mode: str,
    reason: str,
    actor: Actor,
    expected_revision: int | None = None,
) -> TrafficSplit:
    """Let versions answer (normal), the contract's fallback, or nobody (open: 503); weights stay.

    Raises Conflict `no_fallback` without a contract in force; otherwise as `set_split`.
    """
    require(actor, "endpoint.mode")
    if mode not in EndpointMode.values:
        raise Invalid(
            f"{mode!r} is no mode of an endpoint.",
            code="invalid_mode",
            hint="Use normal, fallback or open.",
            errors=(FieldError("/mode", "Use normal, fallback or open."),),
        )
    need_reason(reason)
    with transaction.atomic():
        endpoint = locked_endpoint(environment, model, actor, "endpoint.mode")
        now = wanted_of(endpoint.current)
        if endpoint.current is not None and now.mode == mode and not now.probe:
            return endpoint.current
        check_revision(endpoint, expected_revision)
        if mode == EndpointMode.FALLBACK:
            _need_fallback(endpoint.model)
        if mode == EndpointMode.NORMAL:
            _need_traffic(endpoint, now)
        _check_gateways(endpoint, replace(now, mode=mode, weights={}))
        split = write_split(
            endpoint,
            replace(now, mode=mode, probe=0),
            cause=SplitCause.MODE,
            reason=reason,
            actor=actor,
            action="endpoint.mode",
        )
        mode_changed(endpoint=endpoint, split=split, actor=actor)
        return split


def offer_first_traffic(endpoint: Endpoint, number: int, actor: Actor) -> TrafficSplit | None:
    """Give all traffic to the first version that is ready at an endpoint where none has any.

    Belongs inside a transaction; None when some version has weight already.
    """
    endpoint = _lock(Endpoint.objects.filter(pk=endpoint.pk)) or endpoint
    now = wanted_of(endpoint.current)
    if any(now.weights.values()):
        return None
    return write_split(
        endpoint,
        replace(now, weights={number: splits.WHOLE}),
        cause=SplitCause.INITIAL,
        actor=actor,
        action="split.initial",
        reason=f"Version {number} is the first that is ready here.",
    )


def wait_acknowledged(split: TrafficSplit, timeout_s: float = 5.0) -> list[GatewayWord]:
    """Wait until every gateway that is connected acts on the split; gives what each said.

    Raises Conflict when a gateway refused it, Stale when a newer split replaced it before,
    NotAcknowledged (504, naming the gateways) when the time is over. Outside of transactions only.
    """
    deadline = time.monotonic() + timeout_s
    pause = FIRST_LOOK_S
    while True:
        state = TrafficSplit.objects.values_list("state", flat=True).get(pk=split.pk)
        if state != SplitState.PENDING or time.monotonic() >= deadline:
            break
        time.sleep(pause)
        pause = min(pause * 1.3, LONGEST_PAUSE_S)
    split.refresh_from_db(fields=["state", "applied_at"])
    words = gateway_words(split)
    if split.applied_at is not None:
        return words
    if split.state == SplitState.REFUSED:
        reasons = "; ".join(f"{w.gateway}: {w.reason}" for w in words if w.outcome == "refused")
        raise Conflict(
            f"Revision {split.revision} was refused by the gateway and is not in effect. {reasons}",
            code="refused_by_gateway",
            hint="The last applied split serves on. Change the split and try again.",
        )
    if split.state == SplitState.SUPERSEDED:
        raise Stale(
            f"Revision {split.revision} was replaced before every gateway had applied it.",
            hint="Look at the present split.",
        )
    missing = [w.gateway for w in words if w.outcome != "applied"]
    raise NotAcknowledged(
        f"Revision {split.revision} is stored, but not acknowledged within {timeout_s:g} s by: "
        f"{', '.join(missing) or 'any gateway, as none is registered for this environment'}.",
        hint="It is applied as soon as the gateway control reaches them. Until then the earlier "
        "split serves.",
    )


def locked_endpoint(environment: str, model: str, actor: Actor, action: str) -> Endpoint:
    """The endpoint's row, locked until the transaction ends, for an act that the actor may do here.

    Raises NotFound, also for a model that they may not see, and NotAllowed.
    """
    seen = Endpoint.objects.visible_to(actor.user)
    endpoint = _lock(seen.filter(environment__name=environment, model__name=model))
    if endpoint is None:
        raise NotFound(
            f"There is no endpoint {environment}/{model}.",
            hint="An endpoint appears when a release is deployed to its environment.",
        )
    require(actor, action, endpoint.model.team_id)
    return endpoint


def check_revision(endpoint: Endpoint, expected: int | None) -> None:
    """Refuse a change that was made looking at another split. Raises Stale with the present one."""
    current = endpoint.current
    revision = current.revision if current else 0
    if expected is None or expected == revision:
        return
    who = f" by {current.author.username}" if current else ""
    weights = current.weights if current else {}
    shown = ", ".join(f"v{number} {points / 100:g} %" for number, points in weights.items())
    raise Stale(
        f"The split of {endpoint} has changed{who} since revision {expected}: "
        f"it is now revision {revision} ({shown or 'no traffic'}).",
        hint="Look at the present split, then apply your change to it.",
    )


def wanted_of(split: TrafficSplit | None) -> Wanted:
    """What a stored split asks for; without one, normal mode and nobody with weight."""
    if split is None:
        return Wanted(EndpointMode.NORMAL, {}, "x-user-id", [], None)
    return Wanted(
        mode=split.mode,
        weights={int(number): points for number, points in split.weights.items()},
        sticky_header=split.sticky_header,
        header_rules=split.header_rules,
        mirror=split.mirror,
        probe=split.probe,
        testers=split.testers,
    )


def write_split(
    endpoint: Endpoint, wanted: Wanted, *, cause: SplitCause, reason: str, actor: Actor, action: str
) -> TrafficSplit:
    """Append the endpoint's next revision, wake the gateways and tell everybody.

    The caller holds the endpoint's lock and has checked what it wants.
    """
    before = endpoint.current
    held = slices.of_split(before.slices, wanted_of(before).weights) if before else ()
    layout = slices.moved_to(held, wanted.weights)
    split = TrafficSplit.objects.create(
        endpoint=endpoint,
        revision=endpoint.last_revision + 1,
        mode=wanted.mode,
        weights={str(number): points for number, points in sorted(wanted.weights.items())},
        slices=[list(piece) for piece in layout],
        moved=slices.share_moved(held, layout),
        sticky_header=wanted.sticky_header,
        header_rules=wanted.header_rules,
        testers=wanted.testers,
        mirror=wanted.mirror,
        probe=wanted.probe,
        cause=cause,
        author=actor.user,
        reason=reason.strip(),
        created_at=timezone.now(),
    )
    endpoint.last_revision, endpoint.current = split.revision, split
    endpoint.save(update_fields=["last_revision", "current"])
    wake_gateways()
    live.publish(f"endpoint:{endpoint}", "split.changed", split_event(split))
    audit.record(
        actor=actor,
        action=action,
        subject=str(endpoint),
        reason=split.reason,
        subject_url=f"/endpoints/{endpoint}/",
        before=split_event(before) if before else None,
        after=split_event(split),
    )
    return split


def need_reason(reason: str) -> None:
    """Refuse an empty reason, or one longer than 2000 characters. Raises Invalid."""
    if not reason.strip():
        raise Invalid(
            "A reason is needed.",
            code="reason_missing",
            hint="Say why in a few words; it stands in the audit trail.",
            errors=(FieldError("/reason", "This is needed."),),
        )
    if len(reason) > 2000:
        raise Invalid(
            "The reason is longer than 2000 characters.",
            code="reason_too_long",
            errors=(FieldError("/reason", "At most 2000 characters."),),
        )


def _lock(wanted: QuerySet[Endpoint]) -> Endpoint | None:
    """The one endpoint that is wanted, locked, with its split as it stands once the lock is held.

    Two statements, since one that joins the split reads it as it was when it began to wait: a
    split written meanwhile would be missing, and with it every weight.
    """
    locked = wanted.select_for_update(of=("self",)).only("pk").first()
    if locked is None:
        return None
    return Endpoint.objects.select_related("model", "environment", "current__author").get(
        pk=locked.pk
    )


def _need_traffic(endpoint: Endpoint, wanted: Wanted) -> None:
    if not any(wanted.weights.values()):
        raise Conflict(
            f"No version of {endpoint} has any traffic, so nobody would answer.",
            code="not_ready",
            hint="Deploy a version and give it traffic first.",
        )
    splits.check_ready(wanted.weights, ready_versions(endpoint))


def _need_fallback(model: RegisteredModel) -> None:
    contract = contract_that_holds(model)
    if contract is None:
        raise Conflict(
            f"{model.name} has no contract in force, so it has no fallback to answer with.",
            code="no_fallback",
            hint="Have a contract with a fallback signed, or open the circuit instead.",
        )
    verify_in_force(contract)


def _check_gateways(endpoint: Endpoint, wanted: Wanted) -> None:
    """Refuse what a gateway of the environment cannot do. Raises Conflict `not_by_gateway`."""
    asked = demands_of_split(
        mode=wanted.mode,
        weights=wanted.weights,
        header_rules=wanted.header_rules,
        mirror=wanted.mirror,
        testers=wanted.testers,
    )
    check_capability(endpoint.environment.name, *asked)


def _check_others_ready(wanted: Wanted, ready: Mapping[int, object]) -> None:
    named = {int(rule["version"]) for rule in (*wanted.header_rules, *wanted.testers)}
    if wanted.mirror:
        named.add(int(wanted.mirror["version"]))
    if missing := sorted(named - set(ready)):
        raise Conflict(
            f"No node has v{missing[0]} ready, so no rule, tester or mirror can name it.",
            code="not_ready",
            hint="Deploy it first, or take the rule away.",
        )
