"""Experiments and comparisons at the doors: API and pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from deployments.models import ComparisonMinute, Experiment, ExperimentCount
from deployments.rules.experiments.comparison_figures import Figures, to_json
from deployments.rules.experiments.comparisons import Answered, OutputRule, Tolerance, compare
from deployments.rules.experiments.v2_answers import parse_answer
from deployments.services.experiments.comparisons import Slot, book_comparisons
from deployments.services.statistics.bookings import Entry
from deployments.services.traffic.splits import set_split
from tests import factories
from tests.deployments.conftest import Fleet, ready_version
from tests.deployments.edge_pair import answer
from tests.models_registry.api import Caller
from tests.models_registry.browsing import Visitor

API = "/endpoints/production/fraud_detector"
PAGE = "/endpoints/production/fraud_detector/experiments/"
BODY: dict[str, Any] = {
    "name": "Checkout", "outcome": "purchase", "baseline": 1, "candidate": 2, "window": "1m",
}  # fmt: skip
RULE = OutputRule("risk_score", "FP32", ("batch", 1), 0.0, 1.0)


@pytest.fixture
def two(fleet_rows: Fleet) -> Fleet:
    model = factories.make_model()
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version(model))
    set_split(
        environment="production", model=model.name, weights={1: 70, 2: 30},
        expected_revision=None, reason="try it", actor=fleet_rows.sam,
    )  # fmt: skip
    return fleet_rows


def count(experiment: Experiment) -> None:
    since = timezone.now().replace(second=0, microsecond=0) - timedelta(hours=1)
    ExperimentCount.objects.bulk_create(
        ExperimentCount(
            experiment=experiment,
            version=version,
            minute=since + timedelta(minutes=index),
            answered=1000,
            converted=converted,
        )
        for index in range(20)
        for version, converted in ((1, 100), (2, 50))
    )


def figures(*scores: object) -> Figures:
    """What one sampled request says where the baseline answers 0.5."""
    sides = [Answered(parse_answer(body)) for body in (answer(0.5), answer(*scores))]
    return compare(*sides, (RULE,), Tolerance())


@pytest.mark.django_db
def test_the_api_starts_shows_and_stops(two: Fleet) -> None:
    people = factories.people()
    dana = Caller(people.dana)
    assert Caller(people.vic).post(f"{API}/experiments/", BODY).status_code == 403
    made = dana.post(f"{API}/experiments/", BODY)
    assert made.status_code == 201, made.content
    body = made.json()
    assert (body["state"], body["verdict"], body["difference"]) == ("running", "too_few", None)
    assert (body["margin"], body["confidence"], body["window_seconds"]) == (1.0, 95.0, 60)
    wrong = dana.post(f"{API}/experiments/", {**BODY, "margin": 0, "window": "3d"})
    assert {one["pointer"] for one in wrong.json()["errors"]} == {"/margin", "/window"}
    count(Experiment.objects.get())
    found = dana.get(f"{API}/experiments/{body['id']}/").json()
    assert found["verdict"] == "worse"
    assert found["difference"]["value"] == pytest.approx(-5.0)
    assert found["difference"]["high"] < -1
    assert [one["answered"] for one in found["versions"]] == [20000, 20000]
    chart = dana.get(f"{API}/experiments/{body['id']}/chart/").json()
    assert {len(line["y"]) for line in chart["series"]} == {20}
    assert chart["limit"]["value"] == -1
    stopped = dana.post(f"{API}/experiments/{body['id']}/stop/", {"reason": "Enough."}).json()
    assert (stopped["state"], stopped["message"]) == ("stopped", "Enough.")
    (listed,) = dana.get(f"{API}/experiments/").json()["results"]
    assert listed["id"] == body["id"]
    missing = dana.get(f"{API}/experiments/00000000-0000-0000-0000-000000000000/")
    assert missing.status_code == 404


@pytest.mark.django_db
def test_the_pages_start_show_and_stop(two: Fleet) -> None:
    people = factories.people()
    dana = Visitor(people.dana)
    assert "No experiment yet" in dana.get(PAGE).text
    form = {**BODY, "margin": "1", "confidence": "95", "take_off": "on"}
    refused = dana.post(PAGE, {**form, "candidate": "1"})
    assert refused.status == 422
    assert "Another version than the baseline" in refused.text
    made = dana.post(PAGE, form)
    assert made.status == 302, made.text
    experiment = Experiment.objects.get()
    assert "Too few answers or outcomes" in dana.get(made.address).text
    count(experiment)
    page = dana.get(made.address).text
    assert "The candidate converts less, by more than the margin of 1 percentage point." in page
    assert "-5.00 points" in page
    assert "One is under way" in dana.get(PAGE).text
    assert "Start an experiment" not in Visitor(people.vic).get(PAGE).text
    stop = f"{PAGE}{experiment.pk}/stop/"
    assert Visitor(people.vic).post(stop, {}).status == 403
    assert dana.post(stop, {"reason": "Enough."}).status == 302
    assert "Enough." in dana.get(made.address).text


@pytest.mark.django_db
def test_a_comparison_is_booked_once_and_given_with_its_histograms(two: Fleet) -> None:
    dana = Caller(factories.people().dana)
    assert dana.get(f"{API}/comparison/").status_code == 404
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
    slot = Slot("production", "fraud_detector", 1, 2, minute)
    entry = Entry("edge:one", "comparisons", "a run", 1, minute)
    for _ in range(2):
        book_comparisons(entry, {slot: figures(0.5) + figures(0.75)})
    gone = Slot("production", "nobody", 1, 2, minute)
    book_comparisons(
        Entry("edge:one", "comparisons", "a run", 2, minute), {slot: figures(None), gone: Figures()}
    )
    row = ComparisonMinute.objects.get()
    assert (row.sampled, row.differing, row.candidate_faults) == (3, 2, 1)
    found = dana.get(f"{API}/comparison/").json()
    assert (found["baseline"], found["candidate"], found["sampled"]) == (1, 2, 3)
    assert found["max_difference"] == 0.25
    (output,) = found["outputs"]
    assert (output["rows"], output["candidate_faults"]) == (3, {"nan": 1})
    assert sum(output["differences"]["counts"]) == 2
    assert sum(output["candidate_values"]["counts"]) == 2
    assert found["series"]["sampled"] == [3]
    same = dana.get(f"{API}/comparison/?baseline=1&candidate=2").json()
    assert same["sampled"] == 3
    assert dana.get(f"{API}/comparison/?baseline=x").status_code == 422
    long = dana.get(f"{API}/comparison/?from=2020-01-01T00:00:00Z")
    assert (long.status_code, long.json()["code"]) == (422, "invalid_span")
    assert to_json(figures(0.5).outputs).keys() == {"risk_score"}
