from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.errors import Conflict, CovenantError, Invalid, NotAllowed
from console.models import AuditEntry, Job, JobState
from console.services.jobs import cancel_job
from models_registry.models import Artifact, Environment, LoadTest, ModelVersion, ReleaseState
from models_registry.services import artifacts, releases
from models_registry.services.environments import set_environment
from models_registry.services.load_tests import request_load_test
from tests import factories
from tests.factories import People
from tests.models_registry import signing

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def version(people: People) -> ModelVersion:
    return factories.make_version()


@pytest.fixture
def production() -> Environment:
    """It asks for a contract, an SRE and a load test."""
    environment = factories.make_environment("production")
    environment.production = environment.requires_load_test = True
    environment.save()
    return environment


def ask(version: ModelVersion, person: Any, **changes: Any) -> tuple[LoadTest, Job]:
    given = {
        "environment": factories.make_environment("staging"), "pattern": "step", "rate": 40,
        "seconds": 10,
    }  # fmt: skip
    return request_load_test(version=version, actor=factories.actor(person), **{**given, **changes})


def refused(version: ModelVersion, person: Any, **changes: Any) -> CovenantError:
    with pytest.raises(CovenantError) as caught:
        ask(version, person, **changes)
    return caught.value


def test_who_may(people: People, version: ModelVersion, production: Environment) -> None:
    stranger = factories.make_user("otto", "data_scientist")
    for person in (people.vic, people.bea):
        assert "may not run a load test" in refused(version, person).message
    assert refused(version, stranger).code == "not_your_model"
    # Load on what customers rely on takes a permission of its own.
    error = refused(version, people.dana, environment=production)
    assert isinstance(error, NotAllowed)
    assert "may not load-test a production environment" in error.message
    assert not LoadTest.objects.exists()
    made, _ = ask(version, people.sam, environment=production)
    assert made.environment == production
    scoped = factories.actor(people.sam, scopes={"read", "write"})
    cancel_job(job_id=made.job_id, actor=factories.actor(people.sam))
    with pytest.raises(NotAllowed, match="lacks the scope “operate”"):
        request_load_test(
            version=version, environment=production, pattern="step", rate=40, seconds=10,
            actor=scoped,
        )  # fmt: skip


def test_one_at_a_time_and_a_double_click_is_one(people: People, version: ModelVersion) -> None:
    made, job = ask(version, people.dana)
    assert ask(version, people.dana) == (made, job)
    assert (Job.objects.count(), LoadTest.objects.count()) == (1, 1)
    assert AuditEntry.objects.filter(action="load_test.request").count() == 1
    for person, changes in ((people.sam, {}), (people.dana, {"rate": 50})):
        error = refused(version, person, **changes)
        assert (error.code, isinstance(error, Conflict)) == ("load_test_running", True)
        assert f"/load-tests/{made.pk}/" in error.hint
    elsewhere = factories.make_environment("canary")
    assert ask(version, people.dana, environment=elsewhere)[0] != made
    cancel_job(job_id=job.pk, actor=factories.actor(people.dana))
    made.refresh_from_db()
    assert made.ended_at is not None
    assert ask(version, people.dana)[0] != made


def test_what_cannot_be_tested_is_refused(people: People, version: ModelVersion) -> None:
    assert isinstance(refused(version, people.dana, rate=501), Invalid)
    unfinished = factories.make_version(state="uploaded")
    assert refused(unfinished, people.dana).code == "version_not_validated"
    version.sample = None
    version.save()
    assert refused(version, people.dana).code == "no_sample"
    assert not Job.objects.exists()


def test_the_most_that_may_be_sent_is_a_setting(
    people: People, version: ModelVersion, settings: Any
) -> None:
    settings.CONFIG = replace(settings.CONFIG, load_test_max_rate=30)
    assert "not between 1 and 30" in refused(version, people.dana).message


def test_it_is_measured_against_the_strictest_gate(
    people: People, version: ModelVersion, production: Environment
) -> None:
    production.load_test_p95_ms = 20.0
    production.save()
    staging = factories.make_environment("staging")
    staging.load_test_p95_ms = 5.0
    staging.save()
    made, _ = ask(version, people.dana)
    assert (made.limit_p95_ms, made.limit_success) == (20.0, 100.0)


def test_a_release_waits_for_its_load_test(
    people: People, version: ModelVersion, production: Environment
) -> None:
    release = factories.make_release(version, production, state=ReleaseState.PROPOSED)
    signing.enrol(people.sam)
    envelope = signing.release_envelope(people.sam, bytes(release.payload))

    def approve() -> None:
        releases.approve_release(
            release=release, envelope=envelope, actor=factories.actor(people.sam)
        )

    factories.make_load_test(version, production)
    factories.make_load_test(factories.make_version(version.model))
    with pytest.raises(Conflict) as missing:
        approve()
    assert missing.value.code == "load_test_missing"
    assert "production asks for a load test of fraud_detector v1" in missing.value.message
    assert "“Load tests”" in missing.value.hint
    factories.make_load_test(version, wait_ms=70)
    with pytest.raises(Conflict, match=r"p95 was 70\.0 ms"):
        approve()
    factories.make_load_test(version, failures=1)
    with pytest.raises(Conflict, match="success"):
        approve()
    good = factories.make_load_test(version)
    approve()
    release.refresh_from_db()
    assert release.state == ReleaseState.APPROVED
    entry = AuditEntry.objects.get(action="release.approve")
    assert entry.after["load_test"] == str(good.pk)
    assert releases.verify_release(release).number == 1


def test_what_was_tested_has_to_be_what_is_released(
    people: People, version: ModelVersion, production: Environment
) -> None:
    release = factories.make_release(version, production)
    test = factories.make_load_test(version)
    releases.verify_release(release)
    test.report["digests"]["onnx"] = "0" * 64
    test.save()
    with pytest.raises(Conflict, match="other files"):
        releases.verify_release(release)


def test_a_deploy_asks_again_and_a_restart_does_not(
    people: People, version: ModelVersion, production: Environment
) -> None:
    release = factories.make_release(version, production)
    with pytest.raises(Conflict) as missing:
        releases.verify_release(release)
    assert missing.value.code == "load_test_missing"
    assert releases.verify_release(release, restoring=True).number == 1
    production.requires_load_test = False
    production.save()
    assert releases.verify_release(release).number == 1


def test_where_nobody_approves_the_question_itself_waits(
    people: People, version: ModelVersion
) -> None:
    """What is approved at once would otherwise be approved without a load test."""
    edge = factories.make_environment("edge")
    edge.requires_load_test = True
    edge.save()

    def ask_release() -> Any:
        return releases.request_release(
            model=version.model, number=1, environment=edge, actor=factories.actor(people.dana)
        )

    with pytest.raises(Conflict) as missing:
        ask_release()
    assert missing.value.code == "load_test_missing"
    assert not version.releases.exists()
    factories.make_load_test(version)
    assert ask_release().state == ReleaseState.APPROVED
    assert "It is there" in AuditEntry.objects.get(action="release.approved").reason


def test_limits_of_an_environment_are_checked(people: People) -> None:
    actor = factories.actor(people.ada)
    for field, value in (
        ("load_test_p95_ms", 0.0), ("load_test_p95_ms", float("nan")),
        ("load_test_success", 100.5), ("load_test_success", -1.0),
    ):  # fmt: skip
        with pytest.raises(Invalid) as error:
            set_environment(name="eu", actor=actor, **{field: value})  # type: ignore[arg-type]
        assert error.value.errors[0].pointer == f"/{field}"
    made = set_environment(
        name="eu", production=True, requires_load_test=True, load_test_p95_ms=20.0,
        load_test_success=99.5, actor=actor,
    )  # fmt: skip
    made.refresh_from_db()
    assert (made.production, made.requires_load_test) == (True, True)
    assert (made.load_test_p95_ms, made.load_test_success) == (20.0, 99.5)


def test_the_collector_of_garbage_leaves_reports(version: ModelVersion) -> None:
    test = factories.make_load_test(version)
    loose = factories.make_artifact(b"loose")
    Artifact.objects.update(created_at=timezone.now() - timedelta(days=3))
    artifacts.collect_garbage()
    assert artifacts.read_bytes(test.report_html).startswith(b"<!doctype")
    assert not Artifact.objects.filter(pk=loose.pk).exists()
    assert Job.objects.filter(state=JobState.QUEUED).count() == 0
