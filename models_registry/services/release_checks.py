"""Whether a release may go live: the last word before files leave for a node, and on the node."""

from __future__ import annotations

from dataclasses import dataclass

from console.errors import Conflict, CovenantError, Invalid
from console.rules.canonical import digest
from console.rules.dsse import RELEASE_PAYLOAD_TYPE
from models_registry.exporting.protocol import ExportFacts
from models_registry.models import (
    Artifact,
    Environment,
    ModelVersion,
    Release,
    ReleaseApproval,
    ReleaseState,
    ServiceContract,
)
from models_registry.rules import release_payload, releases
from models_registry.rules.contract_types import ContractDocument
from models_registry.rules.load_tests import Gate
from models_registry.rules.release_payload import Digests, ReleasePayload
from models_registry.selectors.load_tests import gate_of
from models_registry.services.artifacts import verify_content
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
    were revoked after they signed.
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


def verify_release(
    release: Release, *, read_files: bool = True, restoring: bool = False
) -> VerifiedRelease:
    """Check the release, its approvals, its contract and (`read_files`) the bytes on disk again.

    `restoring` is for putting back what ran already (its Triton was restarted): digests and
    signatures have to hold as ever, but a policy, a contract or a load test that changed since is
    not a reason to take down what serves.

    Raises Conflict: `release_not_approved`, `approval_missing`, `contract_missing`,
    `contract_not_in_force`, `contract_does_not_fit`, `load_test_missing`, `digest_mismatch`,
    `artifact_missing`, `signature_invalid`.
    """
    release = Release.objects.select_related(
        "environment", "contract__model", "version__model", "version__source", "version__onnx",
        "version__onnx_data",
        "version__config", "version__report_artifact", "version__sample",
    ).get(pk=release.pk)  # fmt: skip
    if release.state != ReleaseState.APPROVED:
        raise Conflict(
            f"The release of {release} is {release.get_state_display()}, not approved.",
            code="release_not_approved",
            hint="It goes live only once the environment's policy is met.",
        )
    try:
        return _verified(release, read_files=read_files, restoring=restoring)
    except Invalid as error:
        # Nothing is wrong with the request; what is stored does not hold.
        raise Conflict(
            f"The release of {release} does not hold: {error.message}",
            code=error.code,
            hint=error.hint,
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


def policy_of(environment: Environment, contract: ServiceContract | None) -> releases.Policy:
    """The environment's policy, with what the contract promises for it."""
    return releases.policy_for(
        environment=environment.name,
        requires_contract=environment.requires_contract,
        approver_roles=environment.approver_roles,
        author_may_approve=environment.author_may_approve,
        contract=verify_bytes(contract) if contract else None,
    )


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


def _verified(release: Release, *, read_files: bool, restoring: bool) -> VerifiedRelease:
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
    if read_files:
        for artifact in (version.source, onnx, version.onnx_data, config, report):
            if artifact is not None:
                verify_content(artifact)
    if not restoring:
        check_load_test(release)
    notes = [
        *_verify_contract(release, restoring=restoring),
        *_verify_approvals(release, restoring=restoring),
    ]
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


def _verify_contract(release: Release, *, restoring: bool) -> tuple[str, ...]:
    contract = release.contract
    if contract is None:
        if release.environment.requires_contract and not restoring:
            raise Conflict(
                f"{release.environment.name} asks for a contract in force, and the release of "
                f"{release} has none.",
                code="contract_missing",
                hint="Have a contract signed, then ask for a new release.",
            )
        return ()
    notes = verify_in_force(contract)
    if restoring:
        return notes
    current = contract_in_force(release.version.model)
    if current is None:
        raise Conflict(
            f"{release.version.model.name} has no contract in force any more.",
            code="contract_missing",
            hint="Have a contract signed, then ask for a new release.",
        )
    if current.pk != contract.pk:
        # Superseded since: an older version may come back as long as it keeps today's promise.
        notes += verify_in_force(current)
    check_fit(current, release.version)
    return notes


def _verify_approvals(release: Release, *, restoring: bool) -> tuple[str, ...]:
    approvals = list(
        release.approvals.filter(approved=True).select_related("key", "person").order_by("pk")
    )
    notes = [_verify_approval(release, approval) for approval in approvals]
    required = dict.fromkeys(release.required_roles)
    if not restoring:
        required |= dict.fromkeys(policy_of(release.environment, release.contract).roles)
    given = {approval.role for approval in approvals}
    if missing := [role for role in required if role not in given]:
        raise Conflict(
            f"The release of {release} lacks the approval of {releases.ROLE_WORDS[missing[0]]}.",
            code="approval_missing",
            hint="The policy was made stricter since, or an approval was removed. "
            "Ask for a new release.",
        )
    people = [approval.person_id for approval in approvals]
    author_may = release.environment.author_may_approve or restoring
    if release.requested_by_id in people and not author_may:
        raise Conflict(
            f"The release of {release} was approved by the person who asked for it.",
            code="signature_invalid",
            hint="Ask for a new release and have somebody else approve it.",
        )
    return tuple(note for note in notes if note)


def _verify_approval(release: Release, approval: ReleaseApproval) -> str:
    if approval.key is None or approval.envelope is None:
        raise Conflict(
            f"An approval of the release of {release} carries no signature.",
            code="signature_invalid",
        )
    return verify_stored(
        approval.envelope,
        key=approval.key,
        signer_id=approval.person_id,
        signed_at=approval.at,
        payload_type=RELEASE_PAYLOAD_TYPE,
        payload=bytes(release.payload),
    )


def _other_digest(release: Release, name: str) -> CovenantError:
    return Conflict(
        f"The {name} of the release of {release} is not what was approved: its digest differs.",
        code="digest_mismatch",
        hint="Ask for a new release of the version, and find out who changed it.",
    )
