"""Load tests at the doors: API, pages, command line."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections, transaction
from pytest_django.live_server_helper import LiveServer

from console.models import Job, JobState
from console.services.jobs import finish
from deployments.models import Endpoint
from deployments.services.traffic.splits import offer_first_traffic
from models_registry.models import LoadTest, ModelVersion, ReleaseState
from tests import factories
from tests.deployments.conftest import Fleet, ready_version
from tests.deployments.test_cli import Run, run, signed_in  # noqa: F401
from tests.deployments.waiting import eventually
from tests.models_registry.api import Caller
from tests.models_registry.browsing import Visitor

PATH = "/models/fraud_detector/versions/1/load-tests/"
PANEL = "/panels/load-tests/fraud_detector/1/"
BODY = {"environment": "staging", "pattern": "step", "rate": 40, "seconds": 10}


@pytest.fixture
def staged(fleet_rows: Fleet) -> ModelVersion:
    """A version that is ready in staging and takes its traffic, as rows alone."""
    version = factories.make_version()
    ready_version(fleet_rows, version, fleet_rows.staging)
    offer_first_traffic(endpoint=Endpoint.objects.get(), number=1, actor=fleet_rows.sam)
    return version


@pytest.mark.django_db
def test_the_api_starts_one_lists_it_and_gives_its_report(staged: ModelVersion) -> None:
    people = factories.people()
    dana = Caller(people.dana)
    assert Caller(people.vic).post(PATH, BODY).status_code == 403
    made = dana.post(PATH, BODY)
    assert made.status_code == 201, made.content
    body = made.json()
    assert (body["passed"], body["job_state"], body["limits"]["p95_ms"]) == (None, "queued", 50.0)
    assert dana.post(PATH, BODY).json()["id"] == body["id"]
    other = dana.post(PATH, {**BODY, "rate": 41})
    assert (other.status_code, other.json()["code"]) == (409, "load_test_running")
    wrong = dana.post(PATH, {**BODY, "rate": 9000, "seconds": 1})
    assert wrong.status_code == 422
    assert {one["pointer"] for one in wrong.json()["errors"]} == {"/rate", "/seconds"}
    nowhere = dana.post(PATH, {**BODY, "environment": "nowhere"})
    assert nowhere.status_code == 404
    assert dana.get(f"/load-tests/{body['id']}/").json()["report"] is None
    missing = dana.get(f"/load-tests/{body['id']}.html")
    assert (missing.status_code, missing.json()["code"]) == (404, "no_report")
    ended = factories.make_load_test(staged)
    listed = dana.get(PATH).json()["results"]
    assert {one["id"] for one in listed} == {body["id"], str(ended.pk)}
    assert "report" not in listed[0]
    report = dana.get(f"/load-tests/{ended.pk}/").json()["report"]
    assert report["knee"]["rate"] == 40
    page = dana.get(f"/load-tests/{ended.pk}.html")
    assert page["Content-Disposition"].startswith("attachment")
    assert page.getvalue().startswith(b"<!doctype")


@pytest.mark.django_db
def test_a_version_that_is_not_there_is_told_what_to_do(fleet_rows: Fleet) -> None:
    factories.make_version()
    answer = Caller(factories.people().dana).post(PATH, BODY)
    assert (answer.status_code, answer.json()["code"]) == (409, "version_not_ready")
    assert "deploy it there first" in answer.json()["hint"]
    assert not LoadTest.objects.exists()
    assert not Job.objects.filter(kind="load_test").exists()


@pytest.mark.django_db
def test_production_is_refused_by_the_api_without_the_permission(
    staged: ModelVersion, fleet_rows: Fleet
) -> None:
    fleet_rows.staging.production = True
    fleet_rows.staging.save()
    people = factories.people()
    answer = Caller(people.dana).post(PATH, BODY)
    assert answer.status_code == 403
    assert "may not load-test a production environment" in answer.json()["detail"]
    assert Caller(people.sam).post(PATH, BODY).status_code == 201


@pytest.mark.django_db
def test_the_release_says_what_is_missing_and_then_which_test_it_was(
    staged: ModelVersion, fleet_rows: Fleet
) -> None:
    production = fleet_rows.production
    production.production = production.requires_load_test = True
    production.save()
    release = factories.make_release(staged, production, state=ReleaseState.PROPOSED)
    people = factories.people()
    path = f"/models/fraud_detector/releases/{release.pk}/"
    body = Caller(people.dana).get(path).json()
    assert body["load_test"]["open"] is False
    assert "There is none yet" in body["explanation"]
    shown = Visitor(people.dana).get(f"/releases/{release.pk}/")
    assert "production asks for a load test of exactly this version" in shown
    assert "There is none yet." in shown
    assert "/models/fraud_detector/versions/1/#load-tests" in shown.links
    good = factories.make_load_test(staged)
    body = Caller(people.dana).get(path).json()
    assert (body["load_test"]["open"], body["load_test"]["load_test"]) == (True, str(good.pk))
    shown = Visitor(people.dana).get(f"/releases/{release.pk}/")
    assert "240 requests at up to 40/s in staging" in shown
    assert f"/load-tests/{good.pk}/" in shown.links


@pytest.mark.django_db
def test_the_panel_offers_what_the_person_may_and_shows_what_was(
    staged: ModelVersion, fleet_rows: Fleet
) -> None:
    people = factories.people()
    dana, vic = Visitor(people.dana), Visitor(people.vic)
    empty = dana.get(PANEL, part=True)
    assert "Not load-tested yet" in empty
    assert f"{PANEL}start/" in empty.forms
    assert f"{PANEL}start/" not in vic.get(PANEL, part=True).forms
    assert vic.post(f"{PANEL}start/", BODY, part=True).status == 403
    bad = dana.post(f"{PANEL}start/", {**BODY, "seconds": 2}, part=True)
    assert bad.status == 422
    assert "greater than or equal to 5" in bad
    started = dana.post(f"{PANEL}start/", BODY, part=True)
    assert started.status == 200
    assert "It waits for a free worker" in started
    refused = dana.post(f"{PANEL}start/", {**BODY, "rate": 30}, part=True)
    assert refused.status == 409
    assert "two at once would measure each other" in refused
    # Without a script the same form leads to the page of the test, which follows its job.
    test = LoadTest.objects.get()
    assert dana.post(f"{PANEL}start/", BODY).address == f"/load-tests/{test.pk}/"
    assert "It waits for a free worker" in dana.get(f"/load-tests/{test.pk}/")
    assert test.job is not None
    finish(test.job, JobState.ERRORED, message="The worker was lost.", code="worker_lost")
    assert "The worker was lost." in dana.get(f"/load-tests/{test.pk}/")
    assert "No verdict" in dana.get(PANEL, part=True)
    assert "Load tests" not in dana.get("/models/fraud_detector/versions/1/").text.split("Loading")


@pytest.mark.django_db
def test_the_page_of_a_test_says_what_it_means(staged: ModelVersion) -> None:
    dana = Visitor(factories.people().dana)
    good, bad = factories.make_load_test(staged), factories.make_load_test(staged, failures=3)
    shown = dana.get(f"/load-tests/{good.pk}/")
    for words in (
        "The version kept the limits",
        "95 % of 240 requests were answered within 3 ms; the limit is 50 ms.",
        "No knee was reached: 40/s, the most that was sent, still held.",
        "No request failed.",
    ):
        assert words in shown, shown.text
    shown = dana.get(f"/load-tests/{bad.pk}/")
    for words in ("did not keep the limits", "98.75 % succeeded", "Status 503", "the provider’s"):
        assert words in shown, words
    rates = dana.client.get(f"/load-tests/{good.pk}/charts/rate/").json()
    assert [line["name"] for line in rates["series"]] == ["planned", "answered"]
    assert rates["series"][0]["y"] == [8, 8, 16, 16, 24, 24, 32, 32, 40, 40]
    speed = dana.client.get(f"/load-tests/{good.pk}/charts/latency/").json()
    assert speed["limit"]["value"] == 50.0
    assert dana.client.get(f"/load-tests/{good.pk}/charts/other/").status_code == 404


@pytest.mark.django_db
def test_a_policy_of_load_tests_is_set_by_the_page_and_the_api() -> None:
    people = factories.people()
    factories.make_environment("production")
    ada = Visitor(people.ada)
    policy = {"requires_load_test": "on", "production": "on", "load_test_p95_ms": "20"}
    policy |= {"rule-TOTAL_FORMS": "0", "rule-INITIAL_FORMS": "0"}
    answer = ada.post("/environments/production/change/", {**policy, "load_test_success": "99.9"})
    assert answer.status == 302
    shown = ada.get("/environments/panel/", part=True)
    assert "p95 ≤ 20 ms, 99.9 % success" in shown, shown.text
    caller = Caller(people.ada)
    bad = caller.patch("/environments/production/", {"load_test_success": 101})
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "/load_test_success")
    good = caller.patch("/environments/production/", {"load_test_p95_ms": 30})
    assert (good.json()["load_test_p95_ms"], good.json()["requires_load_test"]) == (30.0, True)


@pytest.mark.django_db(transaction=True)
def test_the_command_line_ends_with_four_when_the_gate_failed(
    fleet_rows: Fleet,
    live_server: LiveServer,
    signed_in: Run,
) -> None:
    version = factories.make_version()
    ready_version(fleet_rows, version, fleet_rows.staging)
    with transaction.atomic():
        offer_first_traffic(endpoint=Endpoint.objects.get(), number=1, actor=fleet_rows.sam)
    started = signed_in("load-test", "fraud_detector", "1", "--rate", "40", "--json")
    assert started.code == 0, started.err
    assert LoadTest.objects.get().pattern == "step"
    for failures, code in ((0, 0), (2, 4)):
        LoadTest.objects.all().delete()
        Job.objects.filter(kind="load_test").delete()
        example = factories.make_load_test(version, failures=failures)

        def end(example: LoadTest = example) -> None:
            """As a worker would."""
            try:
                job = eventually(lambda: Job.objects.filter(kind="load_test").first())
                values: dict[str, Any] = {"report": example.report, "passed": example.passed}
                LoadTest.objects.filter(job=job).update(**values)
                with transaction.atomic():
                    finish(job, JobState.SUCCEEDED, result={})
            finally:
                connections.close_all()

        worker = threading.Thread(target=end)
        worker.start()
        outcome = signed_in("load-test", "fraud_detector", "1", "--rate", "40", "--wait")
        worker.join(10)
        assert outcome.code == code, outcome.err
        assert ("Passed: 95 %" in outcome.out) is (code == 0)
    assert "did not pass its load test in staging" in outcome.err
    assert signed_in("load-test", "fraud_detector", "1", "--rate", "0").code == 1
