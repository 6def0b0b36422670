"""Whether a release may go live: the last word before files leave for a node, and on the node."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from console.errors import Conflict, CovenantError, Invalid
from console.models import SigningKey
from console.rules.canonical import digest
from console.rules.dsse import RELEASE_PAYLOAD_TYPE
from models_registry.exporting.protocol import ExportFacts
from models_registry.models import (
    Artifact,
    ModelVersion,
    Release,
    ReleaseState,
    ServiceContract,
)
from models_registry.rules import approval_policy, release_payload, releases
from models_registry.rules.approval_policy import BoundContract, Policy
from models_registry.rules.contract_types import ContractDocument
from models_registry.rules.load_tests import Gate
from models_registry.rules.release_payload import Digests, ReleasePayload
from models_registry.selectors.load_tests import gate_of
from models_registry.selectors.release_policies import (
    broken_glass,
    facts_of,
    is_doubted,
    policy_of,
    with_standing,
)
from models_registry.services.artifacts import read_bytes, verify_content
from models_registry.services.contract_checks import (
    contract_in_force,
    verify_bytes,
    verify_in_force,
)
from models_registry.services.signatures import verify_stored


@dataclass(frozen=True, slots=True)
class VerifiedRelease:
    """What may be placed on a node: the files with the digests that were signed.

    `contract` is None where the environment asks for none. `notes` are sentences on keys that
    were revoked after they signed. `waived` are the codes of what breaking the glass went past.
    """

    release_id: str
    model: str
    number: int
    environment: str
    digests: Digests
    source: Artifact
    onnx: Artifact
    onnx_data: Artifact | None
    config: Artifact
    report: Artifact
    sample: Artifact | None
    contract_revision: int | None
    contract: ContractDocument | None
    notes: tuple[str, ...]
    waived: tuple[str, ...] = ()


def verify_release(
    release: Release,
    *,
    read_files: bool = True,
    restoring: bool = False,
    now: datetime | None = None,
) -> VerifiedRelease:
    """Check the release, its approvals, its contract and (`read_files`) the bytes on disk again.

    `restoring` is for putting back what ran already (its Triton was restarted): digests and
    signatures have to hold as ever, and the approvals that were asked for have to be there; but a
    policy, a contract, a load test, a freeze or the age of an approval is not a reason to take
    down what serves.

    Raises Conflict: `release_not_approved`; what is not true: `digest_mismatch`,
    `report_replaced`, `artifact_missing`, `signature_invalid` and its like,
    `contract_does_not_fit`; what the policy misses, unless it was waived by breaking the glass:
    `approval_missing`, `contract_missing`, `contract_expired`, `load_test_missing`,
    `environment_frozen`.
    """
    release = with_standing(Release.objects.all()).select_related(
        "contract__model", "version__source", "version__onnx", "version__onnx_data",
        "version__config", "version__report_artifact", "version__sample",
    ).get(pk=release.pk)  # fmt: skip
    if release.state != ReleaseState.APPROVED:
        raise Conflict(
            f"The release of {release} is {release.get_state_display()}, not approved.",
            code="release_not_approved",
            hint="It goes live only once the environment's policy is met.",
        )
    try:
        return _verified(
            release,
            read_files=read_files,
            restoring=restoring,
            now=now or timezone.now(),
        )
    except Invalid as error:
        # Nothing is wrong with the request; what is stored does not hold.
        raise Conflict(
            f"The release of {release} does not hold: {error.message}",
            code=error.code,
            hint=error.hint,
            errors=error.errors,
        ) from error


def stored_bytes(release: Release) -> int:
    """Bytes that `verify_release` reads of the release's files."""
    version = release.version
    files = (
        version.source, version.onnx, version.onnx_data, version.config, version.report_artifact,
    )  # fmt: skip
    return sum(artifact.size for artifact in files if artifact is not None)


def complete_files(version: ModelVersion) -> tuple[Artifact, Artifact, Artifact]:
    """The validated version's ONNX file, config and report. Conflict when one is missing."""
    if version.onnx is None or version.config is None or version.report_artifact is None:
        raise Conflict(
            f"{version} is not complete: it has not been validated.", code="version_not_validated"
        )
    return version.onnx, version.config, version.report_artifact


def promised_now(release: Release, now: datetime) -> tuple[str, ...]:
    """The approvals promised by the contract that the release names, and by the one in force.

    A contract that took its place may ask for more people: what is deployed anew needs them too.
    """
    named, environment = release.contract, release.environment.name
    if named is None:
        return ()
    current = contract_in_force(release.version.model, now=now)
    also = () if current is None else promised_in(current, environment)
    return tuple(dict.fromkeys((*promised_in(named, environment), *also)))


def promised_in(contract: ServiceContract | None, environment: str) -> tuple[str, ...]:
    """The approvals that the contract promises for the environment, from its verified bytes."""
    return tuple(verify_bytes(contract).approvals.get(environment, ())) if contract else ()


def check_digests(release: Release) -> Digests:
    """The digests of the version's files and the contract, which have to be those of the payload.

    Raises Conflict `report_replaced` when the version was validated again since (or somebody put
    another report in its place), `digest_mismatch` for every other part, `version_not_validated`.
    """
    version = release.version
    onnx, config, report = complete_files(version)
    payload = _payload(release)
    found = Digests(
        source=version.source.sha256,
        onnx=onnx.sha256,
        config=config.sha256,
        report=report.sha256,
        contract=release.contract.digest if release.contract else None,
        onnx_data=version.onnx_data.sha256 if version.onnx_data else None,
    )
    for name in (*release_payload.FILES, release_payload.WEIGHTS):
        if getattr(found, name) != getattr(payload.digests, name):
            raise _other_digest(release, name)
    return found


def check_report(release: Release) -> None:
    """Conflict `report_replaced` unless the report that people read is the one that is signed.

    Pages show the report from the version's row; what the payload names is the stored file.
    """
    _, _, report = complete_files(release.version)
    if json.loads(read_bytes(report)) != release.version.report:
        raise _other_digest(release, "report")


def check_fit(contract: ServiceContract, version: ModelVersion) -> None:
    """Raise Conflict `contract_does_not_fit` unless the version keeps the contract's interface."""
    facts = ExportFacts.from_json(version.facts)
    faults = releases.misfits(
        verify_bytes(contract), facts.inputs, facts.outputs, batched=facts.batch_axis == 0
    )
    if faults:
        raise Conflict(
            f"{version} does not keep {contract}: {' '.join(faults)}",
            code="contract_does_not_fit",
            hint="Propose a contract with this interface and have it signed, or release a version "
            "that keeps the one in force.",
        )


def check_load_test(release: Release) -> Gate:
    """The load test that the release's environment asks for; Conflict `load_test_missing`."""
    found = gate_of(release)
    if not found.open:
        raise Conflict(found.sentence, code="load_test_missing", hint=found.hint)
    return found


def _verified(
    release: Release, *, read_files: bool, restoring: bool, now: datetime
) -> VerifiedRelease:
    version = release.version
    found = check_digests(release)
    onnx, config, report = complete_files(version)
    if read_files:
        for artifact in (version.source, onnx, version.onnx_data, config, report):
            if artifact is not None:
                verify_content(artifact)
        check_report(release)
    notes = [
        *_verify_contract(release, restoring=restoring, now=now),
        *_verify_signatures(release, restoring=restoring),
    ]
    policy = policy_of(release, promised=promised_now(release, now))
    facts = facts_of(release, now)
    if restoring:
        policy = Policy(policy.environment, policy.asked)
        approvals = tuple(replace(one, doubted=False) for one in facts.approvals)
        facts = replace(facts, approvals=approvals, contract=BoundContract(None))
    verdict = approval_policy.evaluate(policy, facts, now)
    approval_policy.refuse_unmet(verdict, str(release))
    contract = release.contract
    return VerifiedRelease(
        release_id=str(release.pk),
        model=version.model.name,
        number=version.number,
        environment=release.environment.name,
        digests=found,
        source=version.source,
        onnx=onnx,
        onnx_data=version.onnx_data,
        config=config,
        report=report,
        sample=version.sample,
        contract_revision=contract.revision if contract else None,
        contract=verify_bytes(contract) if contract else None,
        notes=tuple(notes),
        waived=tuple(one.code for one in verdict.conditions if one.waived),
    )


def _payload(release: Release) -> ReleasePayload:
    payload = bytes(release.payload)
    parsed = release_payload.parse(payload)
    version = release.version
    said = (parsed.release, parsed.model, parsed.version, parsed.environment)
    is_so = (str(release.pk), version.model.name, version.number, release.environment.name)
    if digest(payload) != release.digest or said != is_so:
        raise _other_digest(release, "payload")
    return parsed


def _verify_contract(release: Release, *, restoring: bool, now: datetime) -> tuple[str, ...]:
    """Bytes and signatures, and that the version keeps the promise that holds today."""
    contract = release.contract
    if contract is None:
        return ()
    notes = verify_in_force(contract, restoring=restoring)
    current = None if restoring else contract_in_force(release.version.model, now=now)
    if current is None:
        # Whether one has to be in force is the policy's to say.
        return notes
    if current.pk != contract.pk:
        # Superseded since: an older version may come back as long as it keeps today's promise.
        notes += verify_in_force(current)
    check_fit(current, release.version)
    return notes


def _verify_signatures(release: Release, *, restoring: bool) -> tuple[str, ...]:
    signed = [
        (one.key, one.envelope, one.person_id, one.at)
        for one in release.approvals.all()
        if one.approved and one.superseded_at is None and (restoring or not is_doubted(one))
    ]
    broken = broken_glass(release)
    if broken is not None:
        signed.append((broken.key, broken.envelope, broken.person_id, broken.at))
    notes = [
        _verify_signature(release, key, envelope, person_id, at, restoring=restoring)
        for key, envelope, person_id, at in signed
    ]
    return tuple(note for note in notes if note)


def _verify_signature(
    release: Release,
    key: SigningKey | None,
    envelope: dict[str, Any] | None,
    person_id: int,
    at: datetime,
    *,
    restoring: bool,
) -> str:
    if key is None or envelope is None:
        raise Conflict(
            f"An approval of the release of {release} carries no signature.",
            code="signature_invalid",
        )
    return verify_stored(
        envelope,
        key=key,
        signer_id=person_id,
        signed_at=at,
        payload_type=RELEASE_PAYLOAD_TYPE,
        payload=bytes(release.payload),
        restoring=restoring,
    )


def _other_digest(release: Release, name: str) -> CovenantError:
    if name == "report":
        return Conflict(
            f"The validation report of {release.version} is not the one that the release of "
            f"{release} names: it was replaced since.",
            code="report_replaced",
            hint="Read the new report. Withdraw this release and ask for another, which names it.",
        )
    return Conflict(
        f"The {name} of the release of {release} is not what was approved: its digest differs.",
        code="digest_mismatch",
        hint="Ask for a new release of the version, and find out who changed it.",
    )
