"""Releases: the environment's policy, what is bound together, and the last word before a node."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound
from console.models import AuditEntry, User
from models_registry.models import (
    Artifact,
    ContractState,
    Environment,
    ModelVersion,
    Release,
    ReleaseState,
    ServiceContract,
    VersionState,
)
from models_registry.rules import bundles
from models_registry.selectors.release_policies import verdict_of, with_standing
from models_registry.services import releases
from models_registry.services.contracts import sign_contract
from tests import factories
from tests.factories import People, actor
from tests.models_registry import signing

pytestmark = pytest.mark.django_db
OPEN_RULES = [{"count": 1, "roles": ["sre"], "seats": ["sre"], "not": []}]
STRICTER = factories.approval_rules("sre", "business_owner")


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def production() -> Environment:
    return factories.make_environment("production")


@pytest.fixture
def staging() -> Environment:
    return factories.make_environment("staging")


def ask(version: ModelVersion, environment: Environment, user: User) -> Release:
    return releases.request_release(
        model=version.model, number=version.number, environment=environment, actor=actor(user)
    )


def approve(release: Release, user: User) -> Release:
    signing.enrol(user)
    envelope = signing.release_envelope(user, release.payload)
    return releases.approve_release(release=release, envelope=envelope, actor=actor(user))


def test_staging_without_approvals_is_approved_by_policy(people: People, staging) -> None:
    release = ask(factories.make_version(), staging, people.dana)
    assert release.state == ReleaseState.APPROVED
    assert release.contract is None
    entry = AuditEntry.objects.get(action="release.approved")
    assert "approved by policy" in entry.reason
    verified = releases.verify_release(release)
    assert verified.number == 1
    assert verified.onnx.sha256 == verified.digests.onnx


def test_production_takes_a_contract_and_the_sre(people: People, production) -> None:
    version = factories.make_version()
    with pytest.raises(Conflict) as refused:
        ask(version, production, people.dana)
    assert refused.value.code == "contract_missing"
    contract = factories.make_contract(version.model)
    release = ask(version, production, people.dana)
    assert (release.state, release.contract) == (ReleaseState.PROPOSED, contract)
    assert release.required_roles == ["sre"]
    with pytest.raises(Conflict) as waiting:
        releases.verify_release(release)
    assert waiting.value.code == "release_not_approved"
    approve(release, people.sam)
    release.refresh_from_db()
    assert release.state == ReleaseState.APPROVED
    verified = releases.verify_release(release)
    assert verified.contract is not None
    assert verified.contract_revision == 1
    assert bundles.verify_bundle(
        releases.release_bundle(release),
        files={"onnx": verified.onnx.sha256, "config": verified.config.sha256},
        required_approvals=["sre"],
    ).ok


def test_the_contract_may_ask_for_more_than_the_environment(people: People, production) -> None:
    version = factories.make_version()
    factories.make_contract(
        version.model, approvals={"production": ["sre", "business_owner"], "staging": []}
    )
    release = ask(version, production, people.dana)
    assert release.required_roles == ["sre", "business_owner"]
    approve(release, people.sam)
    release.refresh_from_db()
    assert release.state == ReleaseState.PROPOSED
    approve(release, people.bea)
    release.refresh_from_db()
    assert release.state == ReleaseState.APPROVED


def test_nobody_approves_their_own_question(people: People, production) -> None:
    version = factories.make_version()
    factories.make_contract(version.model)
    release = ask(version, production, people.sam)
    with pytest.raises(NotAllowed) as refused:
        approve(release, people.sam)
    assert refused.value.code == "author_may_not_approve"
    Environment.objects.filter(pk=production.pk).update(approval_rules=OPEN_RULES)
    # What was asked for under a stricter policy stays under it; what is asked anew does not.
    releases.withdraw_release(release=release, actor=actor(people.sam))
    anew = ask(version, production, people.sam)
    approve(anew, people.sam)
    anew.refresh_from_db()
    assert anew.state == ReleaseState.APPROVED


def test_approval_refusals(people: People, production) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    signing.enrol(people.sam)
    signing.enrol(people.bea)
    payload = bytes(release.payload)
    good = signing.release_envelope(people.sam, payload)
    cases = {
        "role_missing": (people.bea, signing.release_envelope(people.bea, payload)),
        "author_may_not_approve": (people.dana, good),
        "key_unknown": (
            people.sam,
            signing.release_envelope(people.sam, payload, device="other"),
        ),
        "key_not_yours": (people.sam, signing.release_envelope(people.bea, payload)),
        "payload_mismatch": (people.sam, signing.release_envelope(people.sam, b"{}")),
        "payload_type_mismatch": (people.sam, signing.contract_envelope(people.sam, payload)),
    }
    for code, (user, envelope) in cases.items():
        with pytest.raises(CovenantError) as refused:
            releases.approve_release(release=release, envelope=envelope, actor=actor(user))
        assert refused.value.code == code
    assert not release.approvals.exists()
    again = [
        releases.approve_release(release=release, envelope=good, actor=actor(people.sam))
        for _ in range(2)
    ]
    assert [one.state for one in again] == [ReleaseState.APPROVED] * 2
    assert release.approvals.count() == 1


@pytest.mark.parametrize("change", [{"roles": ["viewer"]}, {"is_active": False}])
def test_who_lost_the_role_since_the_request_began_decides_nothing(
    people: People, change: dict[str, object]
) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    signing.enrol(people.sam)
    envelope = signing.release_envelope(people.sam, release.payload)
    as_the_request_found_him = actor(people.sam)
    User.objects.filter(pk=people.sam.pk).update(**change)
    with pytest.raises(NotAllowed):
        releases.approve_release(release=release, envelope=envelope, actor=as_the_request_found_him)
    with pytest.raises(NotAllowed):
        releases.refuse_release(release=release, reason="no", actor=as_the_request_found_him)
    assert not release.approvals.exists()


def test_a_refusal_needs_a_reason_and_ends_the_release(people: People) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    with pytest.raises(Invalid) as refused:
        releases.refuse_release(release=release, reason=" ", actor=actor(people.sam))
    assert refused.value.code == "reason_missing"
    with pytest.raises(NotAllowed):
        releases.refuse_release(release=release, reason="no", actor=actor(people.bea))
    releases.refuse_release(release=release, reason="P99 is too high", actor=actor(people.sam))
    release.refresh_from_db()
    assert release.state == ReleaseState.REFUSED
    with pytest.raises(Conflict) as decided:
        approve(release, factories.make_user("eve", "sre"))
    assert decided.value.code == "release_decided"


def test_withdrawing_frees_the_version_for_another_question(people: People, production) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    releases.withdraw_release(release=release, actor=actor(people.dana))
    second = ask(release.version, production, people.dana)
    assert second.pk != release.pk
    approve(second, people.sam)
    with pytest.raises(Conflict) as refused:
        releases.withdraw_release(release=second, actor=actor(people.dana))
    assert refused.value.code == "illegal_move"


def test_the_same_question_twice_is_one_release(people: People, production) -> None:
    version = factories.make_version()
    factories.make_contract(version.model)
    first = ask(version, production, people.dana)
    assert ask(version, production, people.dana) == first
    with pytest.raises(Conflict) as refused:
        ask(version, production, people.sam)
    assert refused.value.code == "release_exists"
    assert Release.objects.count() == 1


@pytest.mark.parametrize(
    "state",
    [VersionState.UPLOADED, VersionState.EXPORTING, VersionState.REJECTED, VersionState.ARCHIVED],
)
def test_only_a_validated_version_is_released(people: People, staging, state: str) -> None:
    version = factories.make_version(state=state)
    with pytest.raises(Conflict) as refused:
        ask(version, staging, people.dana)
    assert refused.value.code == "version_not_validated"


def test_an_unknown_version_is_not_found(people: People, staging) -> None:
    with pytest.raises(NotFound):
        releases.request_release(
            model=factories.make_model(), number=7, environment=staging, actor=actor(people.dana)
        )


def test_a_contract_that_the_version_does_not_keep_stops_production_but_not_staging(
    people: People, production, staging
) -> None:
    version = factories.make_version()
    body = factories.contract_body()["interface"]
    body["inputs"][0]["dims"] = ["batch", 12]
    factories.make_contract(version.model, interface=body)
    with pytest.raises(Conflict) as refused:
        ask(version, production, people.dana)
    assert refused.value.code == "contract_does_not_fit"
    assert "[batch, 10]" in refused.value.message
    assert ask(version, staging, people.dana).contract is None


def test_a_contract_superseded_while_the_release_waits_stops_its_approval(people: People) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    factories.make_contract(release.version.model, load={"qps": 5})
    with pytest.raises(Conflict) as refused:
        approve(release, people.sam)
    assert refused.value.code == "contract_superseded"


def test_an_approved_release_outlives_its_contract_only_while_it_keeps_the_new_one() -> None:
    release = factories.make_release()
    factories.make_contract(release.version.model, load={"qps": 5})
    assert releases.verify_release(release).contract_revision == 1
    body = factories.contract_body()["interface"]
    body["outputs"][0]["name"] = "score"
    factories.make_contract(
        release.version.model,
        interface=body,
        fallback={"response": {"score": 0.3}, "rules": []},
    )
    with pytest.raises(Conflict) as refused:
        releases.verify_release(release)
    assert refused.value.code == "contract_does_not_fit"


def test_a_contract_that_asks_for_more_people_is_asked_of_what_was_approved_under_an_earlier() -> (
    None
):
    release = factories.make_release()
    factories.make_contract(
        release.version.model,
        approvals={"staging": [], "production": ["sre", "business_owner"]},
    )
    with pytest.raises(Conflict) as refused:
        releases.verify_release(release)
    assert refused.value.code == "approval_missing"
    assert "business owner" in refused.value.message
    shown = with_standing(Release.objects.filter(pk=release.pk)).get()
    assert not verdict_of(shown, timezone.now()).may_deploy
    plain = Release.objects.get(pk=release.pk)
    assert not verdict_of(plain, timezone.now()).may_deploy
    assert releases.verify_release(release, restoring=True).contract_revision == 1


def test_bytes_changed_on_disk_stop_the_release() -> None:
    release = factories.make_release()
    path = Path(default_storage.path(release.version.onnx.storage_key))
    content = path.read_bytes()
    try:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(Conflict) as refused:
            releases.verify_release(release)
        assert refused.value.code == "digest_mismatch"
        path.unlink()
        with pytest.raises(Conflict) as missing:
            releases.verify_release(release)
        assert missing.value.code == "artifact_missing"
    finally:
        path.write_bytes(content)


def test_another_file_put_in_the_version_stops_the_release() -> None:
    release = factories.make_release()
    other = factories.make_artifact(factories.tiny_onnx(9.0))
    ModelVersion.objects.filter(pk=release.version_id).update(onnx=other)
    with pytest.raises(Conflict) as refused:
        releases.verify_release(release)
    assert refused.value.code == "digest_mismatch"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda r: Release.objects.filter(pk=r.pk).update(payload=b"{}"), "invalid_release"),
        (lambda r: Release.objects.filter(pk=r.pk).update(digest="0" * 64), "digest_mismatch"),
        (lambda r: Release.objects.filter(pk=r.pk).update(contract=None), "digest_mismatch"),
        (lambda r: r.approvals.all().delete(), "approval_missing"),
        (
            lambda r: (
                Release.objects.filter(pk=r.pk).update(required_roles=[]),
                r.approvals.all().delete(),
            ),
            "approval_missing",
        ),
        (lambda r: r.approvals.update(person=r.requested_by), "signature_invalid"),
        (
            lambda r: ServiceContract.objects.filter(pk=r.contract_id).update(
                state=ContractState.WITHDRAWN
            ),
            "contract_not_in_force",
        ),
        (
            lambda r: ServiceContract.objects.filter(pk=r.contract_id).update(payload=b"{}"),
            "digest_mismatch",
        ),
    ],
)
def test_rows_changed_behind_the_services_stop_the_release(change, code: str) -> None:
    release = factories.make_release()
    change(release)
    with pytest.raises(Conflict) as refused:
        releases.verify_release(release)
    assert refused.value.code == code


def test_a_revoked_approvers_key(people: People) -> None:
    release = factories.make_release()
    approval = release.approvals.get()
    approval.key.revoked_at = approval.at + timedelta(seconds=1)
    approval.key.save()
    assert any("revoked after" in note for note in releases.verify_release(release).notes)
    approval.key.revoked_at = approval.at - timedelta(seconds=1)
    approval.key.save()
    with pytest.raises(Conflict) as refused:
        releases.verify_release(release)
    assert refused.value.code == "key_revoked"


def test_a_stricter_policy_is_asked_of_what_was_approved_before(production) -> None:
    release = factories.make_release()
    Environment.objects.filter(pk=production.pk).update(approval_rules=STRICTER)
    with pytest.raises(Conflict) as refused:
        releases.verify_release(release)
    assert refused.value.code == "approval_missing"


def test_what_ran_already_is_put_back_under_a_policy_or_contract_that_changed_since(
    production,
) -> None:
    release = factories.make_release()
    Environment.objects.filter(pk=production.pk).update(approval_rules=STRICTER)
    body = factories.contract_body()["interface"]
    body["outputs"][0]["name"] = "score"
    factories.make_contract(
        release.version.model,
        interface=body,
        fallback={"response": {"score": 0.3}, "rules": []},
    )
    assert releases.verify_release(release, restoring=True).contract_revision == 1
    release.approvals.all().delete()
    with pytest.raises(Conflict) as refused:
        releases.verify_release(release, restoring=True)
    assert refused.value.code == "approval_missing"


def test_signing_a_contract_after_all_lets_the_release_through(people: People, production) -> None:
    version = factories.make_version()
    contract = factories.make_contract(
        version.model, state=ContractState.PROPOSED, signed_by=("data_scientist", "sre")
    )
    with pytest.raises(Conflict):
        ask(version, production, people.dana)
    signing.enrol(people.bea)
    sign_contract(
        contract=contract,
        envelope=json.dumps(signing.contract_envelope(people.bea, contract.payload)),
        actor=actor(people.bea),
    )
    assert ask(version, production, people.dana).contract == contract


def test_verification_can_leave_the_files_unread() -> None:
    release = factories.make_release()
    Artifact.objects.filter(pk=release.version.onnx_id).update(storage_key="sha256/gone")
    assert releases.verify_release(release, read_files=False).number == release.version.number
