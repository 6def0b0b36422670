"""Asking for a release: what it binds together, and whether anybody has to approve it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

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
from models_registry.rules import approval_documents, release_payload, releases
from models_registry.rules import break_glass as glass
from models_registry.rules.approval_rules import ApprovalRule
from models_registry.selectors.release_policies import rules_for, verdict_of
from models_registry.services.catalog import require_part_in
from models_registry.services.contract_checks import (
    contract_in_force,
    require_clauses,
    require_in_force,
    verify_bytes,
    verify_in_force,
)
from models_registry.services.release_checks import (
    check_fit,
    check_load_test,
    complete_files,
    promised_in,
)
from models_registry.services.release_records import decide, publish, record, url_of

MAX_NOTE = 2000
OPERATORS = frozenset({Role.SRE, Role.PLATFORM_ADMIN})


def request_release(
    *,
    model: RegisteredModel,
    number: int,
    environment: Environment,
    note: str = "",
    break_glass: bool = False,
    actor: Actor,
) -> Release:
    """Ask to release a validated version; without approvals to wait for it is approved at once.

    With `break_glass` it may be asked although the contract that the environment asks for is
    missing: then only breaking the glass can approve it. The same question by the same person,
    while it is open, gives the release that is there.

    Raises NotFound, Conflict: `version_not_validated`, `contract_missing`,
    `contract_does_not_fit`, `release_exists`, and `load_test_missing` where it would be approved
    at once; NotAllowed `break_glass_impossible`.
    """
    require(actor, "release.request", team_id=model.team_id)
    if not actor.user.roles_in(model.team_id) & OPERATORS:
        require_part_in(model, actor)
    if break_glass:
        glass.check_possible(environment.name, environment.break_glass_roles)
    with transaction.atomic():
        # The policy as it is now, not as the caller read it.
        environment = Environment.objects.get(pk=environment.pk)
        version = _lock_version(model, number)
        if version.state != VersionState.VALIDATED:
            raise Conflict(
                f"{version} is {version.get_state_display()}; only a validated one is released.",
                code="version_not_validated",
                hint="Wait for its validation, or release another version.",
            )
        contract = _binding_contract(version, environment, may_miss=break_glass)
        earlier = Release.objects.filter(
            version=version,
            environment=environment,
            state__in=(ReleaseState.PROPOSED, ReleaseState.APPROVED),
        ).first()
        if earlier is not None:
            return _same_question(earlier, contract, actor)
        rules = rules_for(environment, promised_in(contract, environment.name))
        release = _write(version, environment, contract, note, rules, actor)
        if not rules and not break_glass:
            gate = check_load_test(release)
            explanation = verdict_of(release, timezone.now()).explanation
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


def _binding_contract(
    version: ModelVersion, environment: Environment, *, may_miss: bool
) -> ServiceContract | None:
    """The contract that the release is bound to: the one in force, where the version keeps it."""
    contract = contract_in_force(version.model)
    if contract is None:
        if environment.requires_contract and not may_miss:
            require_in_force(version.model, asked_by=environment.name)
        return None
    verify_in_force(contract)
    if environment.requires_contract:
        if not may_miss:
            # The risk class may have been raised since it was signed.
            require_clauses(contract)
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
    rules: Sequence[ApprovalRule],
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
        required_rules=approval_documents.write_rules(rules),
        required_roles=approval_documents.approver_roles(rules),
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
            "required_rules": release.required_rules,
        },
        reason=release.note,
    )
    return release
