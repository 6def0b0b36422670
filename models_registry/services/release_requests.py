"""Asking for a release: what it binds together, and whether anybody has to approve it."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, NotFound
from console.models import Role
from console.rules.canonical import digest
from models_registry.exporting.protocol import ExportFacts
from models_registry.models import (
    Environment,
    ModelVersion,
    RegisteredModel,
    Release,
    ReleaseState,
    ServiceContract,
    VersionState,
)
from models_registry.rules import release_payload, releases
from models_registry.services.catalog import require_part_in
from models_registry.services.contract_checks import (
    contract_in_force,
    verify_bytes,
    verify_in_force,
)
from models_registry.services.release_checks import (
    check_fit,
    check_load_test,
    complete_files,
    policy_of,
)
from models_registry.services.release_records import decide, publish, record, url_of

MAX_NOTE = 2000
OPERATORS = (Role.SRE, Role.PLATFORM_ADMIN)


def request_release(
    *,
    model: RegisteredModel,
    number: int,
    environment: Environment,
    note: str = "",
    actor: Actor,
) -> Release:
    """Ask to release a validated version; without approvals to wait for it is approved at once.

    The same question by the same person, while it is open, gives the release that is there.
    Raises NotFound, Conflict: `version_not_validated`, `contract_missing`,
    `contract_does_not_fit`, `release_exists`, and `load_test_missing` where it would be approved
    at once.
    """
    require(actor, "release.request")
    if not actor.user.has_role(*OPERATORS):
        require_part_in(model, actor)
    with transaction.atomic():
        version = _lock_version(model, number)
        if version.state != VersionState.VALIDATED:
            raise Conflict(
                f"{version} is {version.get_state_display()}; only a validated one is released.",
                code="version_not_validated",
                hint="Wait for its validation, or release another version.",
            )
        contract = _binding_contract(version, environment)
        earlier = Release.objects.filter(
            version=version,
            environment=environment,
            state__in=(ReleaseState.PROPOSED, ReleaseState.APPROVED),
        ).first()
        if earlier is not None:
            return _same_question(earlier, contract, actor)
        release = _write(version, environment, contract, note, actor)
        policy = policy_of(environment, contract)
        if not policy.roles:
            gate = check_load_test(release)
            explanation = releases.standing(policy, ()).explanation
            if gate.required:
                explanation += f" {gate.sentence}"
            decide(release, ReleaseState.APPROVED, actor, reason=explanation)
        publish(release)
    return release


def _lock_version(model: RegisteredModel, number: int) -> ModelVersion:
    version = (
        # Only what never changes is joined: a join is not read again after waiting for the lock.
        ModelVersion.objects.select_for_update(of=("self",))
        .select_related("model", "source")
        .filter(model=model, number=number)
        .first()
    )
    if version is None:
        raise NotFound(
            f"{model.name} has no version {number}.",
            hint="Versions are numbered from 1; see the model's page.",
        )
    return version


def _binding_contract(version: ModelVersion, environment: Environment) -> ServiceContract | None:
    """The contract that the release is bound to: the one in force, where the version keeps it."""
    contract = contract_in_force(version.model)
    if contract is None:
        if environment.requires_contract:
            raise Conflict(
                f"{environment.name} asks for a contract in force, and {version.model.name} has "
                "none.",
                code="contract_missing",
                hint="Propose a contract and have the three seats sign it.",
            )
        return None
    verify_in_force(contract)
    if environment.requires_contract:
        check_fit(contract, version)
        return contract
    facts = ExportFacts.from_json(version.facts)
    fits = not releases.misfits(
        verify_bytes(contract), facts.inputs, facts.outputs, batched=facts.batch_axis == 0
    )
    return contract if fits else None


def _same_question(earlier: Release, contract: ServiceContract | None, actor: Actor) -> Release:
    same_contract = earlier.contract_id == (contract.pk if contract else None)
    if same_contract and earlier.requested_by_id == actor.user.pk:
        return earlier
    raise Conflict(
        f"There is a release of {earlier} already; it is {earlier.get_state_display()}.",
        code="release_exists",
        hint=f"See {url_of(earlier)}. A proposed one can be withdrawn, an approved one deployed.",
    )


def _write(
    version: ModelVersion,
    environment: Environment,
    contract: ServiceContract | None,
    note: str,
    actor: Actor,
) -> Release:
    onnx, config, report = complete_files(version)
    release_id, now = uuid.uuid4(), timezone.now()
    digests = release_payload.Digests(
        source=version.source.sha256,
        onnx=onnx.sha256,
        config=config.sha256,
        report=report.sha256,
        contract=contract.digest if contract else None,
        onnx_data=version.onnx_data.sha256 if version.onnx_data else None,
    )
    payload = release_payload.canonical(
        release_payload.ReleasePayload(
            release=str(release_id),
            model=version.model.name,
            version=version.number,
            environment=environment.name,
            digests=digests,
            requested_by=actor.user.username,
            requested_at=now,
        )
    )
    release = Release.objects.create(
        id=release_id,
        version=version,
        environment=environment,
        contract=contract,
        payload=payload,
        digest=digest(payload),
        digests=digests.named(),
        required_roles=list(policy_of(environment, contract).roles),
        requested_by=actor.user,
        requested_at=now,
        note=note.strip()[:MAX_NOTE],
    )
    record(
        release,
        "release.request",
        actor,
        after={
            "version": str(version),
            "environment": environment.name,
            "digest": release.digest,
            "required_roles": release.required_roles,
        },
        reason=release.note,
    )
    return release
