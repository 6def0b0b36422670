"""Starting and ending experiments, and taking a candidate off that is shown to be worse."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor
from console.errors import Conflict, CovenantError, FieldError, Invalid
from console.models import Severity
from console.services import audit, notices
from deployments.models import Endpoint, Experiment, ExperimentState, SplitCause
from deployments.rules.experiments.design import is_worse, parse_settings
from deployments.rules.gateways.capabilities import Capability
from deployments.rules.traffic import splits
from deployments.selectors.alerts.on_call import operators_of
from deployments.selectors.experiments.pages import ExperimentView, find_experiment, view_of
from deployments.selectors.fleet.readiness import ready_versions
from deployments.selectors.gateways.capabilities import check_capability
from deployments.services.gateways.desired import wake_gateways
from deployments.services.traffic.splits import locked_endpoint, wanted_of, write_split

CONTROL = "traffic control"
NOTICE = "experiment.taken_off"

log = logging.getLogger(__name__)


def start_experiment(
    *,
    environment: str,
    model: str,
    name: str,
    outcome: str,
    baseline: int,
    candidate: int,
    margin: float = 1.0,
    confidence: float = 95.0,
    take_off: bool = True,
    window: str = "10m",
    actor: Actor,
) -> Experiment:
    """Begin to count the outcomes of two versions that are ready here.

    `margin` is in percentage points of conversion, `confidence` in percent; `window` is how long
    after its answer an outcome counts.

    Raises Invalid, NotFound, NotAllowed, Conflict `experiment_running`, `not_ready`, and
    `not_by_gateway` or `no_edge` where nobody could count.
    """
    agreed = parse_settings(
        outcome=outcome.strip(),
        margin=margin,
        confidence=confidence,
        take_off=take_off,
        window=window,
    )
    _check(name, baseline, candidate)
    _need_edge()
    with transaction.atomic():
        endpoint = locked_endpoint(environment, model, actor, "experiment.manage")
        splits.check_ready({baseline: 1, candidate: 1}, ready_versions(endpoint))
        check_capability(environment, Capability.EXPERIMENTS)
        running = Experiment.objects.filter(endpoint=endpoint, state=ExperimentState.RUNNING)
        if (other := running.first()) is not None:
            raise Conflict(
                f"The experiment {other.name} is under way at {endpoint}.",
                code="experiment_running",
                hint="Stop it first: an endpoint has one experiment at a time.",
            )
        experiment = Experiment.objects.create(
            endpoint=endpoint,
            name=name.strip(),
            baseline=baseline,
            candidate=candidate,
            settings=agreed.to_json(),
            started_by=actor.user,
            started_at=timezone.now(),
        )
        _tell(experiment, actor, "experiment.start")
    return experiment


def stop_experiment(
    *, environment: str, model: str, experiment_id: uuid.UUID, reason: str = "", actor: Actor
) -> Experiment:
    """End an experiment; the traffic stays as it is, and what ended already is left alone.

    Raises NotFound, NotAllowed.
    """
    with transaction.atomic():
        locked_endpoint(environment, model, actor, "experiment.manage")
        experiment = find_experiment(environment, model, experiment_id, user=actor.user)
        if experiment.state != ExperimentState.RUNNING:
            return experiment
        _end(experiment, ExperimentState.STOPPED, reason.strip()[:2000])
        _tell(experiment, actor, "experiment.stop", reason=reason.strip()[:2000])
    return experiment


def take_off_worse(now: datetime) -> list[Experiment]:
    """End each experiment whose candidate is shown to be worse, and give its traffic back.

    Gives those that ended. One that cannot be ended holds up no other.
    """
    ended = []
    running = Experiment.objects.filter(state=ExperimentState.RUNNING).select_related(
        "endpoint__model", "endpoint__environment", "started_by"
    )
    for experiment in running.order_by("pk"):
        found = view_of(experiment, now=now)
        if not is_worse(found.evidence, found.settings):
            continue
        try:
            if _take_off(found, Actor.system(CONTROL)):
                ended.append(experiment)
        except CovenantError as error:
            log.warning("%s: the candidate stays: %s", experiment.endpoint, error.message)
    return ended


def _check(name: str, baseline: int, candidate: int) -> None:
    faults = []
    if not 0 < len(name.strip()) <= 80:
        faults.append(FieldError("/name", "1 to 80 characters."))
    if baseline == candidate:
        faults.append(FieldError("/candidate", "Another version than the baseline."))
    if faults:
        raise Invalid(
            "The experiment cannot be started like this.",
            code="invalid_experiment",
            hint=faults[0].detail,
            errors=tuple(faults),
        )


def _need_edge() -> None:
    if settings.CONFIG.edge_address is None:
        raise Conflict(
            "There is no edge process here that could count answers and outcomes.",
            code="no_edge",
            hint="Run `manage.py edge` and say where it is by COVENANT_EDGE.",
        )


@transaction.atomic
def _take_off(found: ExperimentView, actor: Actor) -> bool:
    """False when somebody ended it meanwhile."""
    seen = found.experiment
    environment, model = seen.endpoint.environment.name, seen.endpoint.model.name
    endpoint = locked_endpoint(environment, model, actor, "split.change")
    experiment = Experiment.objects.select_related("endpoint", "started_by").get(pk=seen.pk)
    if experiment.state != ExperimentState.RUNNING:
        return False
    why = _why(found)
    _move(endpoint, experiment, why, actor)
    _end(experiment, ExperimentState.TAKEN_OFF, why)
    _tell(experiment, actor, "experiment.take_off", reason=why)
    notices.notify(
        people=[*operators_of(endpoint.model), experiment.started_by],
        kind=NOTICE,
        key=f"{NOTICE}:{experiment.pk}",
        subject=f"{endpoint} v{experiment.candidate}",
        subject_url=f"/endpoints/{endpoint}/experiments/{experiment.pk}/",
        severity=Severity.WARNING,
        data={"experiment": experiment.name, "why": why},
    )
    return True


def _move(endpoint: Endpoint, experiment: Experiment, why: str, actor: Actor) -> None:
    """Give the candidate's share to the baseline, and take off the rules that lead to it.

    Testers and mirrors stay: who looks into a version on purpose goes on.
    """
    now = wanted_of(endpoint.current)
    weights = dict(now.weights)
    share = weights.pop(experiment.candidate, 0)
    rules = [one for one in now.header_rules if int(one["version"]) != experiment.candidate]
    if not share and rules == now.header_rules:
        return
    weights[experiment.baseline] = weights.get(experiment.baseline, 0) + share
    splits.check_ready({experiment.baseline: 1}, ready_versions(endpoint))
    write_split(
        endpoint,
        replace(now, weights=weights, header_rules=rules),
        cause=SplitCause.EXPERIMENT,
        reason=why,
        actor=actor,
        action="split.experiment",
    )


def _why(found: ExperimentView) -> str:
    difference = found.evidence.difference
    agreed = found.settings
    if difference is None:
        raise RuntimeError("nothing is known of the difference")
    return (
        f"In the experiment {found.experiment.name}, v{found.experiment.candidate} converts worse "
        f"than v{found.experiment.baseline} by {-100 * difference.value:.2f} percentage points "
        f"(with {100 * agreed.confidence:g} % confidence between {-100 * difference.high:.2f} "
        f"and {-100 * difference.low:.2f}); the margin is {100 * agreed.margin:g}."
    )


def _end(experiment: Experiment, state: ExperimentState, message: str) -> None:
    experiment.state, experiment.message, experiment.ended_at = state, message, timezone.now()
    experiment.save(update_fields=["state", "message", "ended_at"])


def _tell(experiment: Experiment, actor: Actor, action: str, reason: str = "") -> None:
    """Audit, viewers, and the gateways: whose answers they log depends on what runs."""
    endpoint = experiment.endpoint
    wake_gateways()
    live.publish(f"endpoint:{endpoint}", "experiment.changed", {"state": experiment.state})
    audit.record(
        actor=actor,
        action=action,
        subject=str(endpoint),
        subject_url=f"/endpoints/{endpoint}/experiments/{experiment.pk}/",
        reason=reason,
        after={
            "experiment": experiment.name,
            "baseline": experiment.baseline,
            "candidate": experiment.candidate,
            "state": experiment.state,
            **experiment.settings,
        },
    )
