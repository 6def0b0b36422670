"""Rollouts' pages: the list, one rollout under way and ended, Home, and what is offered to whom."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.models import User
from deployments.models import (
    AnalysisRun,
    Endpoint,
    Measurement,
    Rollout,
    RolloutEvent,
)
from deployments.rules.rollouts.analysis import begin_run
from deployments.rules.rollouts.plan import default_plan, plan_json
from deployments.rules.rollouts.progress import Progress, progress_json
from deployments.services.traffic.splits import set_split
from models_registry.models import Visibility
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    return endpoint_of(fleet_rows, "fraud_detector")


@pytest.fixture
def sam(fleet_rows: Fleet) -> Visitor:
    return Visitor(fleet_rows.sam.user)


def endpoint_of(fleet: Fleet, name: str) -> Endpoint:
    model = factories.make_model(name)
    for bias in (0.0, 1.0):
        ready_version(fleet, factories.make_version(model, bias=bias))
    split = set_split(
        environment="production",
        model=name,
        weights={1: 85, 2: 15},
        expected_revision=None,
        reason="a step",
        actor=fleet.sam,
    )
    applied(split)
    return Endpoint.objects.select_related("model", "current").get(model=model)


def make_rollout(
    endpoint: Endpoint,
    person: User,
    *,
    state: str = "running",
    step: int = 5,
    cause: str = "",
    message: str = "",
    minutes: int = 35,
    ended_at: datetime | None = None,
) -> Rollout:
    """A rollout by the usual plan, at its third share, with one measurement of each metric."""
    plan, now = default_plan(), timezone.now()
    start = (ended_at or now) - timedelta(minutes=minutes)
    progress = Progress(step, now - timedelta(minutes=5), weight=1500, weight_since=start)
    progress = replace(progress, background=begin_run(plan.background, start))
    rollout = Rollout.objects.create(
        endpoint=endpoint,
        version=2,
        baseline=1,
        plan=plan_json(plan),
        progress=progress_json(progress),
        state=state,
        cause=cause,
        message=message,
        reason="Retrained.",
        started_by=person,
        created_at=start,
        next_look_at=now,
        ended_at=ended_at,
    )
    RolloutEvent.objects.create(rollout=rollout, at=start, kind="started", actor=person)
    RolloutEvent.objects.create(
        rollout=rollout, at=start, kind="weight", step=0, split=endpoint.current
    )
    run = AnalysisRun.objects.create(rollout=rollout, started_at=start)
    failed = cause == "analysis_failed"
    for metric, value in (("error_rate", 0.25), ("p99_ms", 96.4 if failed else 51.2)):
        bad = failed and metric == "p99_ms"
        Measurement.objects.create(
            analysis=run,
            metric=metric,
            at=start + timedelta(minutes=20),
            value=value,
            baseline_value=48.0,
            requests=1204,
            limit="success <= 80",
            phase="failed" if bad else "successful",
        )
    return rollout


def words(page: object) -> str:
    return str(getattr(page, "text", page)).replace("\xa0", " ")


def test_an_empty_list_says_what_a_rollout_is_and_where_to_start_one(sam: Visitor) -> None:
    page = sam.get("/rollouts/")
    assert page.status == 200
    assert "A rollout gives a new version its traffic step by step" in page
    assert "/endpoints/" in page.links
    assert "No rollout matches" in sam.get("/rollouts/?state=active")


def test_the_list_tells_each_rollout_at_a_glance(
    endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor
) -> None:
    make_rollout(endpoint, fleet_rows.sam.user)
    other = endpoint_of(fleet_rows, "churn_ranker")
    make_rollout(other, fleet_rows.sam.user, state="promoted", ended_at=timezone.now())
    page = sam.get("/rollouts/")

    assert "fraud_detector" in page
    assert "6 of 39 · 15 %" in words(page)
    assert "Promoted" in page
    assert "overdue" not in page
    Rollout.objects.update(next_look_at=timezone.now() - timedelta(minutes=2))
    # Nothing moves it along: whoever looks should know.
    assert "overdue 2 min ago" in words(sam.get("/rollouts/"))
    active = sam.get("/rollouts/?state=active")
    assert "fraud_detector" in active
    assert "churn_ranker" not in active
    assert "churn_ranker" not in sam.get("/rollouts/?q=fraud", part=True)
    assert "fraud_detector" not in sam.get("/rollouts/?environment=staging")


def test_the_list_takes_the_same_queries_for_one_and_for_many(
    endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor
) -> None:
    person = fleet_rows.sam.user
    make_rollout(endpoint, person)
    sam.get("/rollouts/")
    with CaptureQueriesContext(connection) as few:
        sam.get("/rollouts/")
    for _ in range(8):
        make_rollout(endpoint, person, state="aborted", ended_at=timezone.now())
    with CaptureQueriesContext(connection) as many:
        sam.get("/rollouts/")
    assert len(many) == len(few)


def test_a_long_list_is_paged(endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor) -> None:
    start = timezone.now()
    rows = [
        Rollout(
            endpoint=endpoint,
            version=2,
            baseline=1,
            plan=plan_json(default_plan()),
            progress=progress_json(Progress(0, start)),
            state="promoted",
            started_by=fleet_rows.sam.user,
            created_at=start - timedelta(minutes=number),
            next_look_at=start,
            ended_at=start,
        )
        for number in range(55)
    ]
    Rollout.objects.bulk_create(rows)
    page = sam.get("/rollouts/")
    after = next(link for link in page.links if "cursor=" in link)
    assert "50 shown" in page
    assert "5 shown" in sam.get(f"/rollouts/{after}")


def test_a_rollout_under_way_says_what_it_waits_for_and_what_was_measured(
    endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor
) -> None:
    rollout = make_rollout(endpoint, fleet_rows.sam.user)
    page = sam.get(f"/rollouts/{rollout.pk}/")

    assert page.status == 200
    text = words(page)
    assert "v2 keeps 15 % for the time of this step" in text
    assert "v1 85 % v2 15 %" in text
    # Every metric with value, limit, the baseline's value, requests and its verdict.
    assert "Latency P99 every 1 min, over 15 min Successful" in text
    assert "51.2 ms ≤ 80 ms 48 ms 1,204 100 needed" in text
    assert "split revision 1" in text
    assert "more than 1 % of its requests fail" in text
    assert f"/rollouts/{rollout.pk}/pause/" in page.forms
    assert f"/rollouts/{rollout.pk}/resume/" not in page.forms


def test_a_refresh_brings_the_same_part_with_its_heading_and_acts(
    endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor
) -> None:
    rollout = make_rollout(endpoint, fleet_rows.sam.user)
    part = sam.get(f"/rollouts/{rollout.pk}/", part=True)
    body = part.response.content.decode()
    assert body.count('id="rollout"') == 1
    assert body.count('hx-swap-oob="true"') == 3
    assert "<html" not in body


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        ("approval", "waits for a person’s approval"),
        ("inconclusive", "could not tell whether v2 is good"),
        ("traffic_moved", "Somebody moved the traffic by hand"),
        ("by_hand", "paused by hand"),
    ],
)
def test_a_paused_rollout_says_why_and_is_offered_resume(
    endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor, cause: str, sentence: str
) -> None:
    rollout = make_rollout(endpoint, fleet_rows.sam.user, state="paused", cause=cause)
    page = sam.get(f"/rollouts/{rollout.pk}/")
    assert sentence in page
    assert f"/rollouts/{rollout.pk}/resume/" in page.forms
    assert f"/rollouts/{rollout.pk}/pause/" not in page.forms


def test_an_ended_rollout_reads_as_a_report(
    endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor
) -> None:
    rollout = make_rollout(
        endpoint,
        fleet_rows.sam.user,
        state="rolled_back",
        cause="analysis_failed",
        message="p99_ms is 96.4 ms, and success is <= 80.",
        ended_at=timezone.now() - timedelta(hours=2),
    )
    page = sam.get(f"/rollouts/{rollout.pk}/")
    text = words(page)
    assert "Rolled back by its analysis" in text
    assert "v1 has the traffic again" in text
    assert "Latency P99 was 96.4 ms over 1,204 requests; success is ≤ 80 ms." in text
    assert "at the step of 15 %" in text
    assert "not reached" in text
    assert page.forms == [] or not any("/rollouts/" in form for form in page.forms)


def test_a_viewer_sees_the_rollout_and_is_offered_nothing(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    rollout = make_rollout(endpoint, fleet_rows.sam.user)
    page = Visitor(factories.people().vic).get(f"/rollouts/{rollout.pk}/")
    assert page.status == 200
    assert not any("/rollouts/" in form for form in page.forms)


def test_a_rollout_page_takes_as_many_queries_however_much_was_measured(
    endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor
) -> None:
    rollout = make_rollout(endpoint, fleet_rows.sam.user)
    address = f"/rollouts/{rollout.pk}/"
    sam.get(address)
    with CaptureQueriesContext(connection) as few:
        sam.get(address, part=True)
    run, at = AnalysisRun.objects.get(), timezone.now()
    Measurement.objects.bulk_create(
        Measurement(analysis=run, metric="p99_ms", at=at, value=50.0 + n, phase="successful")
        for n in range(100)
    )
    RolloutEvent.objects.bulk_create(
        RolloutEvent(rollout=rollout, at=at, kind="paused", actor=fleet_rows.sam.user)
        for _ in range(20)
    )
    with CaptureQueriesContext(connection) as many:
        page = sam.get(address, part=True)
    assert len(many) == len(few)
    # The session, the person, and four for the rollout.
    assert len(many) <= 7
    assert "Latency P99: 50 measurements" in page


def test_home_shows_rollouts_under_way(endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor) -> None:
    assert "Rollouts under way" not in sam.get("/")
    rollout = make_rollout(endpoint, fleet_rows.sam.user)
    page = sam.get("/")
    assert "Rollouts under way" in page
    assert f"/rollouts/{rollout.pk}/" in page.links
    assert "step 6 of 39, 15 % of the traffic" in words(page)


def test_a_hidden_models_rollouts_are_not_there(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    rollout = make_rollout(endpoint, fleet_rows.sam.user)
    endpoint.model.visibility = Visibility.TEAM
    endpoint.model.save()
    outsider = Visitor(factories.make_user("outsider"))
    assert outsider.get(f"/rollouts/{rollout.pk}/").status == 404
    assert "fraud_detector" not in outsider.get("/rollouts/")
    assert "fraud_detector" not in outsider.get("/")
