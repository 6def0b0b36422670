"""Approvals over time: replaced reports, age, freezes; policies changed; and breaking the glass."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound
from console.models import AuditEntry, Notice, User, UserKind
from deployments.services.fleet.deploys import deploy_release
from models_registry.models import (
    BreakGlass,
    ContractState,
    Environment,
    ModelVersion,
    Release,
    ReleaseApproval,
    ReleaseState,
    ServiceContract,
)
from models_registry.rules import bundles
from models_registry.services import approval_lapses, break_glass, freezes, releases
from models_registry.services.environments import set_environment
from tests import factories
from tests.factories import PASSWORD, People, actor
from tests.models_registry import signing

pytestmark = pytest.mark.django_db
REASON = "Fraud attack since 02:10; v1 lets every tenth case through."
REVIEW = "Justified: losses of 12 k an hour. The load test is made up for."


@pytest.fixture(autouse=True)
def quick_passwords(settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def production() -> Environment:
    return factories.make_environment("production")


def approve(release: Release, user: User) -> Release:
    signing.enrol(user)
    envelope = signing.release_envelope(user, release.payload)
    return releases.approve_release(release=release, envelope=envelope, actor=actor(user))


def break_the_glass(release: Release, user: User, **changes: Any) -> Release:
    signing.enrol(user)
    if not user.has_usable_password():
        user.set_password(PASSWORD)
        user.save(update_fields=["password"])
    given = {
        "envelope": signing.release_envelope(user, release.payload),
        "reason": REASON,
        "password": PASSWORD,
        **changes,
    }
    return break_glass.break_the_glass(release=release, actor=actor(user), **given)


def allow_glass(environment: Environment, *roles: str) -> None:
    Environment.objects.filter(pk=environment.pk).update(break_glass_roles=list(roles))
    environment.refresh_from_db()


def replace_report(version: ModelVersion) -> None:
    """As a second validation run stores it: another report, its file and its row."""
    report = {**version.report, "verdict": "passed", "seconds": 2.5}
    version.report = report
    version.report_artifact = factories.make_artifact(
        json.dumps(report).encode(), "application/json"
    )
    version.save(update_fields=["report", "report_artifact"])


# Reports that were replaced.


def test_a_release_whose_report_was_replaced_is_neither_approved_nor_deployed(
    people: People,
) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    replace_report(release.version)
    with pytest.raises(Conflict) as refused:
        approve(release, people.sam)
    assert refused.value.code == "report_replaced"
    assert not release.approvals.exists()
    approved = factories.make_release(factories.make_version())
    replace_report(approved.version)
    for read_files in (True, False):
        with pytest.raises(Conflict) as at_deploy:
            releases.verify_release(approved, read_files=read_files)
        assert at_deploy.value.code == "report_replaced"
    with pytest.raises(Conflict) as asked:
        deploy_release(release_id=approved.pk, actor=actor(people.sam))
    assert asked.value.code == "report_replaced"


def test_a_report_edited_in_its_row_alone_is_found(people: People) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    version = release.version
    ModelVersion.objects.filter(pk=version.pk).update(report={**version.report, "seconds": 0.1})
    with pytest.raises(Conflict) as refused:
        approve(release, people.sam)
    assert refused.value.code == "report_replaced"
    approved = factories.make_release(factories.make_version())
    ModelVersion.objects.filter(pk=approved.version_id).update(report={"verdict": "passed"})
    with pytest.raises(Conflict) as at_deploy:
        releases.verify_release(approved)
    assert at_deploy.value.code == "report_replaced"


def test_another_config_is_a_digest_mismatch_at_approval(people: People) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    other = factories.make_artifact(b"max_batch_size: 999", "text/plain")
    ModelVersion.objects.filter(pk=release.version_id).update(config=other)
    with pytest.raises(Conflict) as refused:
        approve(release, people.sam)
    assert refused.value.code == "digest_mismatch"


# People.


def test_who_uploaded_the_version_does_not_approve_it(people: People, production) -> None:
    version = factories.make_version()
    ModelVersion.objects.filter(pk=version.pk).update(created_by=people.sam)
    release = factories.make_release(version, state=ReleaseState.PROPOSED)
    with pytest.raises(NotAllowed) as refused:
        approve(release, people.sam)
    assert refused.value.code == "author_may_not_approve"
    assert "uploaded this version" in refused.value.message
    approve(release, factories.make_user("eve", "sre"))
    assert releases.verify_release(release).number == version.number


def test_a_service_account_approves_nothing(people: People) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    robot = factories.make_user("robot", "sre")
    User.objects.filter(pk=robot.pk).update(kind=UserKind.SERVICE)
    robot.refresh_from_db()
    with pytest.raises(NotAllowed) as refused:
        approve(release, robot)
    assert refused.value.code == "person_needed"


def test_two_of_a_role_are_two_people(people: People, production) -> None:
    rules = [{"count": 2, "roles": ["sre"], "not": ["requester", "uploader"]}]
    set_environment(name="production", approval_rules=rules, actor=actor(people.ada))
    version = factories.make_version()
    factories.make_contract(version.model)
    release = releases.request_release(
        model=version.model, number=1, environment=production, actor=actor(people.dana)
    )
    approve(release, people.sam)
    with pytest.raises(Conflict) as again:
        releases.approve_release(
            release=release,
            envelope=signing.release_envelope(people.sam, release.payload, device="phone"),
            actor=actor(people.sam),
        )
    assert again.value.code == "already_decided"
    approve(release, factories.make_user("eve", "sre"))
    release.refresh_from_db()
    assert release.state == ReleaseState.APPROVED


def test_weakening_a_policy_is_seen_in_the_audit_trail(people: People, production) -> None:
    set_environment(
        name="production",
        approval_rules=[],
        requires_contract=False,
        break_glass_roles=["sre"],
        actor=actor(people.ada),
    )
    entry = AuditEntry.objects.get(action="environment.change")
    assert entry.before["approval_rules"] == factories.approval_rules("sre")
    assert len(entry.after["weaker"]) == 3
    assert "SREs may release against the policy." in entry.after["weaker"]
    for given, code in (
        ({"approval_rules": [{"count": 1}]}, "bad_policy"),
        ({"approval_rules": [], "approver_roles": ["sre"]}, "bad_policy"),
        ({"break_glass_roles": ["data_scientist"]}, "bad_policy"),
        ({"approval_valid_days": 0}, "bad_policy"),
    ):
        with pytest.raises(Invalid) as refused:
            set_environment(name="production", **given, actor=actor(people.ada))
        assert refused.value.code == code
        assert refused.value.errors


# The age of approvals.


def test_an_approval_lapses_and_is_given_again_by_the_same_person(
    people: People, production
) -> None:
    Environment.objects.filter(pk=production.pk).update(approval_valid_days=7)
    release = factories.make_release()
    assert approval_lapses.tell_of_lapses(now=timezone.now()) == 0
    with time_machine.travel(timezone.now() + timedelta(days=8), tick=False):
        now = timezone.now()
        with pytest.raises(Conflict) as lapsed:
            releases.verify_release(release)
        assert lapsed.value.code == "approval_missing"
        assert "older than 7 days" in lapsed.value.message
        assert releases.verify_release(release, restoring=True).number == 1
        assert [approval_lapses.tell_of_lapses(now=now) for _ in range(2)] == [1, 0]
        notice = Notice.objects.get(kind="release.approval_lapsed")
        assert (notice.recipient, notice.data["people"]) == (people.dana, ["sam"])
        # Ed25519 signs the same bytes the same way: it is a new approval all the same.
        approve(release, people.sam)
        assert releases.verify_release(release).number == 1
        assert [one.superseded_at for one in ReleaseApproval.objects.order_by("at")] == [now, None]
        notice.refresh_from_db()
        assert notice.ended_at is not None
        with pytest.raises(Conflict) as decided:
            approve(release, factories.make_user("eve", "sre"))
        assert decided.value.code == "release_decided"
    assert AuditEntry.objects.get(action="release.approve").after["renewed"] is True


# Freezes.


def freeze(environment: Environment, user: User, **changes: Any) -> Any:
    now = timezone.now()
    given = {
        "name": "Quarter end",
        "starts_at": now - timedelta(minutes=1),
        "ends_at": now + timedelta(hours=6),
        "reason": "quarter end",
        **changes,
    }
    return freezes.freeze_environment(environment=environment, **given, actor=actor(user))


def test_a_frozen_environment_takes_approvals_and_no_deployment(people: People, production) -> None:
    window = freeze(production, people.sam)
    release = factories.make_release(state=ReleaseState.PROPOSED)
    approve(release, people.sam)
    with pytest.raises(Conflict) as frozen:
        deploy_release(release_id=release.pk, actor=actor(people.sam))
    assert frozen.value.code == "environment_frozen"
    assert "is frozen until" in frozen.value.message
    assert "quarter end" in frozen.value.message
    assert "rolling back is never frozen" in frozen.value.hint
    assert releases.verify_release(release, restoring=True).number == 1
    after = window.ends_at
    assert releases.verify_release(release, now=after).number == 1
    with pytest.raises(Invalid):
        freezes.lift_freeze(
            environment=production, freeze_id=window.pk, reason=" ", actor=actor(people.sam)
        )
    for _ in range(2):
        freezes.lift_freeze(
            environment=production, freeze_id=window.pk, reason="done", actor=actor(people.sam)
        )
    assert releases.verify_release(release).number == 1
    acts = ["environment.freeze", "environment.unfreeze"]
    assert AuditEntry.objects.filter(action__in=acts).count() == 2


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"ends_at": datetime(2020, 1, 1, tzinfo=UTC)}, "/ends_at"),
        ({"starts_at": datetime(2020, 1, 1, tzinfo=UTC), "weekly": True}, "/ends_at"),
        ({"reason": " "}, "/reason"),
        ({"name": ""}, "/name"),
        ({"name": "x" * 81}, "/name"),
        ({"ends_at": datetime(2030, 1, 1, tzinfo=UTC)}, "/ends_at"),
    ],
)
def test_freezes_that_make_no_sense(people: People, production, changes, pointer: str) -> None:
    with pytest.raises(Invalid) as refused:
        freeze(production, people.sam, **changes)
    assert [fault.pointer for fault in refused.value.errors] == [pointer]
    with pytest.raises(NotAllowed):
        freeze(production, people.dana)
    with pytest.raises(NotFound):
        freezes.lift_freeze(
            environment=production, freeze_id=1, reason="x", actor=actor(people.sam)
        )


# Breaking the glass.


def test_breaking_the_glass_is_signed_told_reviewed_and_stays_visible(
    people: People, production
) -> None:
    allow_glass(production, "platform_admin")
    release = factories.make_release(state=ReleaseState.PROPOSED)
    freeze(production, people.sam)
    broken = break_the_glass(release, people.ada)
    assert broken.state == ReleaseState.APPROVED
    assert break_the_glass(release, people.ada).pk == release.pk
    assert BreakGlass.objects.count() == 1
    verified = releases.verify_release(release)
    assert verified.waived == ("approval_missing", "environment_frozen")
    told = Notice.objects.filter(kind="release.break_glass")
    assert {one.recipient.username for one in told} == {"sam", "dana", "bea"}
    assert {one.severity for one in told} == {"critical"}
    entry = AuditEntry.objects.get(action="release.break_glass")
    assert entry.reason == REASON
    assert [one["code"] for one in entry.after["waived"]] == list(verified.waived)
    report = bundles.verify_bundle(releases.release_bundle(Release.objects.get(pk=release.pk)))
    assert report.ok, report.faults
    said = {finding.code: finding.text for finding in report.findings}
    assert "by ada" in said["break_glass"]
    assert "is frozen until" in said["break_glass"]
    assert "break_glass_not_reviewed" in said
    strict = bundles.verify_bundle(releases.release_bundle(release), required_approvals=["sre"])
    assert "approval_missing" in [fault.code for fault in strict.faults]

    with pytest.raises(NotAllowed) as own:
        break_glass.review_break_glass(release=release, review=REVIEW, actor=actor(people.ada))
    assert own.value.code == "own_break_glass"
    with pytest.raises(Invalid):
        break_glass.review_break_glass(release=release, review="fine", actor=actor(people.sam))
    for _ in range(2):
        break_glass.review_break_glass(release=release, review=REVIEW, actor=actor(people.sam))
    assert AuditEntry.objects.filter(action="release.review").count() == 1
    with pytest.raises(Conflict) as twice:
        break_glass.review_break_glass(
            release=release, review=REVIEW, actor=actor(factories.make_user("eve", "sre"))
        )
    assert twice.value.code == "reviewed_already"
    assert not Notice.objects.filter(kind="release.break_glass", ended_at__isnull=True).exists()
    again = bundles.verify_bundle(releases.release_bundle(Release.objects.get(pk=release.pk)))
    assert "break_glass_reviewed" in [finding.code for finding in again.findings]


def test_who_may_not_break_the_glass_and_how(people: People, production) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    with pytest.raises(NotAllowed) as impossible:
        break_the_glass(release, people.ada)
    assert impossible.value.code == "break_glass_impossible"
    allow_glass(production, "platform_admin")
    signing.enrol(people.sam)
    cases: list[tuple[User, dict[str, Any], str]] = [
        (people.sam, {}, "role_missing"),
        (people.dana, {}, "not_allowed"),
        (people.ada, {"reason": "urgent"}, "reason_missing"),
        (people.ada, {"reason": "x" * 2001}, "reason_too_long"),
        (people.ada, {"password": "wrong"}, "wrong_password"),
        (people.ada, {"password": ""}, "confirmation_needed"),
        (
            people.ada,
            {"envelope": signing.release_envelope(people.sam, release.payload)},
            "key_not_yours",
        ),
        (people.ada, {"envelope": signing.release_envelope(people.ada, b"{}")}, "payload_mismatch"),
    ]
    for user, changes, code in cases:
        with pytest.raises(CovenantError) as refused:
            break_the_glass(release, user, **changes)
        assert refused.value.code == code, code
    robot = factories.make_user("robot", "platform_admin")
    User.objects.filter(pk=robot.pk).update(kind=UserKind.SERVICE)
    robot.refresh_from_db()
    with pytest.raises(NotAllowed) as machine:
        break_the_glass(release, robot)
    assert machine.value.code == "person_needed"
    assert not BreakGlass.objects.exists()
    assert not Notice.objects.exists()
    approve(release, people.sam)
    with pytest.raises(Conflict) as nothing:
        break_the_glass(release, people.ada)
    assert nothing.value.code == "nothing_to_waive"


def test_integrity_is_never_waived(people: People, production) -> None:
    allow_glass(production, "platform_admin")
    release = factories.make_release(state=ReleaseState.PROPOSED)
    replace_report(release.version)
    with pytest.raises(Conflict) as replaced:
        break_the_glass(release, people.ada)
    assert replaced.value.code == "report_replaced"
    contract = ServiceContract.objects.get()
    good = factories.make_release(factories.make_version(), state=ReleaseState.PROPOSED)
    break_the_glass(good, people.ada)
    assert releases.verify_release(good).waived == ("approval_missing",)
    changes = (
        lambda: BreakGlass.objects.update(person=people.sam),
        lambda: BreakGlass.objects.update(envelope=signing.release_envelope(people.ada, b"{}")),
        lambda: ServiceContract.objects.filter(pk=contract.pk).update(payload=b"{}"),
        lambda: ModelVersion.objects.filter(pk=good.version_id).update(
            onnx=factories.make_artifact(factories.tiny_onnx(7.0))
        ),
    )
    codes = ("signature_invalid", "signature_invalid", "digest_mismatch", "digest_mismatch")
    for change, code in zip(changes, codes, strict=True):
        kept = BreakGlass.objects.values("person", "envelope").get()
        change()
        with pytest.raises(Conflict) as refused:
            releases.verify_release(good)
        assert refused.value.code == code
        BreakGlass.objects.update(**kept)
    BreakGlass.objects.update(waived=[])
    ServiceContract.objects.filter(pk=contract.pk).update(payload=contract.payload)
    ModelVersion.objects.filter(pk=good.version_id).update(onnx=good.version.onnx)
    with pytest.raises(Conflict) as unwaived:
        releases.verify_release(good)
    assert unwaived.value.code == "approval_missing"


def test_a_missing_contract_and_load_test_may_be_gone_past(people: People, production) -> None:
    version = factories.make_version()
    Environment.objects.filter(pk=production.pk).update(requires_load_test=True)

    def ask(**more: bool) -> Release:
        return releases.request_release(
            model=version.model,
            number=1,
            environment=production,
            actor=actor(people.dana),
            **more,
        )

    with pytest.raises(NotAllowed) as impossible:
        ask(break_glass=True)
    assert impossible.value.code == "break_glass_impossible"
    allow_glass(production, "sre")
    with pytest.raises(Conflict) as missing:
        ask()
    assert missing.value.code == "contract_missing"
    release = ask(break_glass=True)
    with pytest.raises(Conflict) as approved:
        approve(release, people.sam)
    assert approved.value.code == "contract_missing"
    break_the_glass(release, people.sam)
    verified = releases.verify_release(release)
    assert verified.contract is None
    assert verified.waived == ("approval_missing", "contract_missing", "load_test_missing")
    assert releases.verify_release(release, restoring=True).contract is None


def test_an_expired_contract_stops_a_deployment_until_the_glass_is_broken(
    people: People, production
) -> None:
    allow_glass(production, "sre")
    release = factories.make_release()
    ServiceContract.objects.update(
        state=ContractState.EXPIRED, valid_until=timezone.now().date() - timedelta(days=1)
    )
    with pytest.raises(Conflict) as expired:
        releases.verify_release(release)
    assert expired.value.code == "contract_expired"
    assert releases.verify_release(release, restoring=True).contract_revision == 1
    break_the_glass(release, factories.make_user("eve", "sre"))
    assert releases.verify_release(release).waived == ("contract_expired",)


def test_an_overdue_review_is_reminded_of_once_a_day(people: People, production) -> None:
    allow_glass(production, "platform_admin")
    release = factories.make_release(state=ReleaseState.PROPOSED)
    break_the_glass(release, people.ada)
    at = BreakGlass.objects.get().at
    hours = (23, 24, 25, 47, 48, 49)
    told = [break_glass.remind_of_reviews(now=at + timedelta(hours=hour)) for hour in hours]
    assert told == [0, 1, 0, 0, 1, 0]
    late = Notice.objects.filter(kind="release.review_overdue", ended_at__isnull=True)
    assert {one.recipient.username for one in late} == {"sam", "dana", "bea"}
    break_glass.review_break_glass(release=release, review=REVIEW, actor=actor(people.sam))
    assert not late.all().exists()
    assert break_glass.remind_of_reviews(now=at + timedelta(days=9)) == 0
