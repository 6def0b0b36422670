"""Try it: one sample to a version where it is ready, and its answer at once."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from console.actors import Actor, require
from console.errors import Conflict, CovenantError, Unavailable
from console.models import Role
from console.services import audit
from deployments.adapters import inference
from deployments.rules.trials import requests as trial_requests
from deployments.rules.trials.answers import Comparison, compared, finite
from deployments.rules.trials.requests import Declared
from deployments.selectors.trials.places import TrialPlace, trial_places
from deployments.services.fleet.node_files import recorded_sample
from models_registry.exporting.protocol import TensorSpec
from models_registry.models import Environment, ModelVersion, VersionState
from models_registry.rules import tensors
from models_registry.services.catalog import require_part_in

TIMEOUT_S = 10.0
OPERATORS = frozenset({Role.SRE, Role.PLATFORM_ADMIN})


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it.

    `outputs` are v2 tensors with flat data (NaN and infinities as words); `model_version` is who
    said it answered; `comparison` is there when the recorded sample was sent. `request` is what was
    sent, of `request_bytes` and `request_sha256` as compact JSON.
    """

    environment: str
    who: str
    url: str
    model_version: str
    request_id: str
    duration_ms: float
    outputs: tuple[dict[str, Any], ...]
    comparison: Comparison | None
    request_bytes: int
    request_sha256: str


def try_version(
    *,
    version: ModelVersion,
    environment: Environment,
    actor: Actor,
    request: Mapping[str, Any] | None = None,
) -> Trial:
    """Send a v2 request (by default the recorded sample) to the version in the environment.

    It goes through the environment's gateway by version number, or to a node itself where no
    gateway knows the version, and waits 10 s at most. The audit entry holds the request's digest
    and size, never a value of it.

    Raises NotAllowed, TooLarge (`request_too_large`), Invalid (`request_does_not_fit`,
    `infer_refused`), Conflict (`version_not_ready`, `no_sample`), Unavailable (`infer_failed`,
    `infer_timed_out`, `bad_answer`, `other_version_answered`).
    """
    team_id = version.model.team_id
    require(actor, "version.try", team_id)
    if OPERATORS.isdisjoint(actor.user.roles_in(team_id)):
        require_part_in(version.model, actor)
    place = find_place(version, environment)
    sample = recorded_sample(version)
    if request is None:
        request = _recorded(version, sample)
    body = json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode()
    trial_requests.check_size(len(body))
    tensors = trial_requests.check_request(request, declared_inputs(version))
    request_id = f"try-{uuid.uuid4().hex[:12]}"
    digest = hashlib.sha256(body).hexdigest()
    sent = {"request_sha256": digest, "request_bytes": len(body)}
    try:
        answer = inference.infer(
            place.url, tensors, request_id=request_id, who=_who(place), timeout_s=TIMEOUT_S
        )
        answered = _answered(place, version, answer)
    except CovenantError as error:
        _record(version, place, actor, {**sent, "request_id": request_id, "outcome": error.code})
        raise
    _record(
        version,
        place,
        actor,
        {
            **sent,
            "request_id": request_id,
            "outcome": "answered",
            "duration_ms": round(answer.duration_ms, 1),
        },
    )
    outputs = tuple(finite(output) for output in answer.outputs)
    return Trial(
        environment=environment.name,
        who=place.who,
        url=place.url,
        model_version=answered,
        request_id=request_id,
        duration_ms=answer.duration_ms,
        outputs=outputs,
        comparison=_compared(request, sample, outputs),
        request_bytes=len(body),
        request_sha256=digest,
    )


def find_place(version: ModelVersion, environment: Environment) -> TrialPlace:
    """Where a request for the version goes in the environment.

    Raises Conflict (`version_not_ready`) that says what has to happen first.
    """
    places = trial_places(version)
    for place in places:
        if place.environment.pk == environment.pk:
            return place
    if places:
        names = ", ".join(place.environment.name for place in places)
        hint = f"It is ready in {names}; try it there, or deploy it to {environment.name} first."
    elif version.state != VersionState.VALIDATED:
        hint = f"It is {version.get_state_display()}; only a validated version can be deployed."
    else:
        hint = f"Ask for its release to {environment.name}, and deploy it there once approved."
    raise Conflict(
        f"{version} is ready on no node of {environment.name}, so nobody there could answer.",
        code="version_not_ready",
        hint=hint,
    )


def declared_inputs(version: ModelVersion) -> tuple[Declared, ...]:
    """The version's inputs as the export found them and Triton serves them."""
    batched = version.facts.get("batch_axis") == 0
    found = version.facts.get("inputs") or version.inputs
    specs = (tensors.as_served(TensorSpec.from_json(one), batched=batched) for one in found)
    return trial_requests.declared([spec.to_json() for spec in specs])


def _recorded(version: ModelVersion, sample: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if sample is None:
        raise Conflict(
            f"{version} has no recorded sample.",
            code="no_sample",
            hint="Send a request of your own: {“inputs”: [{“name”, “datatype”, “shape”, “data”}]}.",
        )
    recorded: Mapping[str, Any] = sample["request"]
    return recorded


def _who(place: TrialPlace) -> str:
    return f"The {place.who} in {place.environment.name}"


def _answered(place: TrialPlace, version: ModelVersion, answer: inference.Answer) -> str:
    """Who says that it answered. A gateway may have let another version, or a fallback, answer."""
    said = answer.headers.get("x-model-version", "")
    if not place.by_gateway:
        return said or str(version.number)
    if said != str(version.number):
        who = f"version {said}" if said else "no version, but the contract's fallback"
        raise Unavailable(
            f"{_who(place)} let {who} answer instead of version {version.number}.",
            code="other_version_answered",
            hint="See the endpoint's page: the version may just have been taken out there.",
        )
    return said


def _compared(
    request: Mapping[str, Any],
    sample: Mapping[str, Any] | None,
    outputs: tuple[dict[str, Any], ...],
) -> Comparison | None:
    if sample is None or request.get("inputs") != sample["request"].get("inputs"):
        return None
    return compared(
        [finite(output) for output in sample["expected"]["outputs"]],
        outputs,
        atol=float(sample.get("atol", 1e-5)),
        rtol=float(sample.get("rtol", 1e-4)),
    )


def _record(
    version: ModelVersion, place: TrialPlace, actor: Actor, facts: Mapping[str, Any]
) -> None:
    with transaction.atomic():
        audit.record(
            actor=actor,
            action="version.try",
            subject=str(version),
            subject_url=f"/models/{version.model.name}/versions/{version.number}/",
            after={"environment": place.environment.name, "by": place.who, **facts},
        )
