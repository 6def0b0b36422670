"""How long counts are kept: the policy, what goes by it, and every door to it."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from console.actors import Actor
from console.errors import Invalid, NotAllowed, Stale
from console.models import AuditEntry
from deployments.models import (
    CountGap,
    DayRollup,
    Endpoint,
    GapReason,
    HourRollup,
    MinuteRollup,
    MirrorMinute,
    RetentionPolicy,
    RolledSpan,
)
from deployments.rules.statistics.retention import FIELDS, KINDS, check
from deployments.selectors.objectives.sla import sla
from deployments.selectors.statistics.retention import days_of, policy, retention
from deployments.selectors.statistics.rollups import traffic_between
from deployments.services.statistics.hours import rebuild, roll_due
from deployments.services.statistics.partitions import drop_before, make_ahead, partitions
from deployments.services.statistics.retention import apply_retention, set_retention
from tests import factories
from tests.deployments.conftest import Fleet

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
ADMIN = "platform_admin"


@pytest.fixture
def admin() -> Actor:
    return Actor(factories.make_user("ada", ADMIN), source="test")


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    return Endpoint.objects.create(model=factories.make_model(), environment=fleet_rows.production)


def day_of_counts(endpoint: Endpoint, days_ago: int) -> datetime:
    start = (NOW - timedelta(days=days_ago)).replace(hour=0)
    MinuteRollup.objects.bulk_create(
        MinuteRollup(endpoint=endpoint, version=0, minute=start + timedelta(minutes=n), requests=1)
        for n in range(1440)
    )
    return start


def test_only_the_kinds_that_are_named_change_and_it_is_written_down(admin: Actor) -> None:
    row = set_retention(days={"minutes_days": 60}, expected_revision=0, reason="disk", actor=admin)
    assert (row.revision, row.minutes_days, row.hours_days) == (1, 60, 800)
    entry = AuditEntry.objects.get(action="statistics.retention")
    assert entry.before == {**days_of(row), "minutes_days": 100}
    assert entry.after == days_of(row)
    again = set_retention(days={"minutes_days": 60}, expected_revision=1, actor=admin)
    assert (again.revision, AuditEntry.objects.count()) == (1, 1)
    with pytest.raises(Stale):
        set_retention(days={"minutes_days": 61}, expected_revision=0, actor=admin)


def test_others_may_not(fleet_rows: Fleet) -> None:
    with pytest.raises(NotAllowed):
        set_retention(days={"minutes_days": 60}, expected_revision=0, actor=fleet_rows.sam)


@pytest.mark.parametrize(
    "days",
    [
        {"minutes_days": 34},
        {"minutes_days": 900},
        {"hours_days": 99},
        {"days_days": 400},
        {"minutes_days": 0},
        {"outcomes_days": 99_999},
    ],
)
def test_what_a_policy_may_not_say(days: dict[str, int]) -> None:
    defaults = days_of(RetentionPolicy())
    check(defaults)
    check(dict.fromkeys(FIELDS, 0))
    with pytest.raises(Invalid) as refused:
        check({**defaults, **days})
    assert refused.value.errors
    assert len(KINDS) == len(FIELDS)


def test_minutes_go_when_their_hours_stand(endpoint: Endpoint) -> None:
    old, young = day_of_counts(endpoint, 120), day_of_counts(endpoint, 3)
    MirrorMinute.objects.create(endpoint=endpoint, version=1, minute=old)
    CountGap.objects.create(
        source="gateway:g", started_at=old, ended_at=old, why=GapReason.UNREACHABLE
    )
    # Nothing is added up yet, so no minute may go.
    assert apply_retention(now=NOW) == {"mirrors_days": {"rows": 1, "tables": []}}
    while roll_due(NOW)["hours"]:
        pass
    gone = apply_retention(now=NOW)
    assert gone == {"minutes_days": {"rows": 1440, "tables": []}}
    assert set(MinuteRollup.objects.dates("minute", "day")) == {young.date()}
    assert HourRollup.objects.filter(hour__lt=young).count() == 24
    day = timedelta(days=1)
    assert traffic_between([endpoint.pk], old, old + day)[endpoint.pk].requests == 1440
    assert DayRollup.objects.filter(requests=1440).count() == 2
    assert apply_retention(now=NOW) == {}
    entry = AuditEntry.objects.filter(action="statistics.retained").latest("sequence")
    assert entry.after == gone
    row = policy()
    assert (row.last_run_at, row.last_run) == (NOW, {})


def test_whole_months_go_as_whole_tables(endpoint: Endpoint) -> None:
    table = "deployments_mirrorminute"
    far = datetime(2051, 1, 20, tzinfo=UTC)
    MirrorMinute.objects.create(endpoint=endpoint, version=1, minute=far)
    before = {one.name for one in partitions(table)}
    made = make_ahead(far)
    assert f"{table}_y2051m01" in made
    assert make_ahead(far) == []
    # What came before its table was there has moved into it.
    assert MirrorMinute.objects.filter(minute=far).count() == 1
    (there,) = [one for one in partitions(table) if one.name == f"{table}_y2051m01"]
    assert there.end == datetime(2051, 2, 1, tzinfo=UTC)
    gone = drop_before(table, datetime(2051, 2, 1, tzinfo=UTC))
    assert f"{table}_y2051m01" in gone
    assert not MirrorMinute.objects.exists()
    assert {one.name for one in partitions(table)} <= before | set(made)


def test_a_clock_that_ran_ahead_leaves_no_month_without_its_table(endpoint: Endpoint) -> None:
    table = "deployments_mirrorminute"
    make_ahead(datetime(2052, 6, 15, tzinfo=UTC))
    between = datetime(2052, 4, 30, 23, 59, tzinfo=UTC)
    MirrorMinute.objects.create(endpoint=endpoint, version=1, minute=between)
    made = make_ahead(between)
    assert {f"{table}_y2052m04", f"{table}_y2052m05"} <= set(made)
    assert f"{table}_y2052m06" not in made
    assert make_ahead(between) == []
    assert MirrorMinute.objects.filter(minute=between).count() == 1


def test_rebuilding_says_what_was_wrong(endpoint: Endpoint) -> None:
    start = day_of_counts(endpoint, 3)
    span = ["--from", start.isoformat(), "--to", (start + timedelta(days=1)).isoformat()]
    out = io.StringIO()
    call_command("rebuild_rollups", *span, stdout=out, stderr=io.StringIO())
    assert "24 hours" in out.getvalue()
    assert RolledSpan.objects.count() == 24 + 1 + 24
    HourRollup.objects.filter(hour=start).update(requests=7)
    with pytest.raises(CommandError, match="1 counts in 24 hours were wrong"):
        call_command("rebuild_rollups", *span, stdout=out, stderr=io.StringIO())
    assert "had 7 requests, its minutes have 60" in out.getvalue()
    assert HourRollup.objects.get(hour=start).requests == 60


@pytest.mark.parametrize("field", ["provider_faults", "inference_count", "minutes"])
def test_rebuilding_looks_at_each_count_of_hours_and_days(endpoint: Endpoint, field: str) -> None:
    start = day_of_counts(endpoint, 3)
    span = ["--from", start.isoformat(), "--to", (start + timedelta(days=1)).isoformat()]
    out = io.StringIO()
    call_command("rebuild_rollups", *span, stdout=out, stderr=io.StringIO())
    HourRollup.objects.filter(hour=start).update(**{field: 3})
    DayRollup.objects.filter(day=start).update(**{field: 5})
    with pytest.raises(CommandError, match="2 counts in 24 hours were wrong"):
        call_command("rebuild_rollups", *span, stdout=out, stderr=io.StringIO())
    assert f"had 3 {field}, its minutes have" in out.getvalue()
    assert f"day {start:%Y-%m-%d} 00:00Z" in out.getvalue()
    call_command("rebuild_rollups", *span, stdout=out, stderr=io.StringIO())


def test_a_month_whose_hours_went_is_told_by_its_days(endpoint: Endpoint) -> None:
    factories.make_contract(endpoint.model)
    old = day_of_counts(endpoint, 120)
    rebuild(old, old + timedelta(days=1))
    month = f"{old:%Y-%m}"
    before = sla(endpoint, month, NOW)
    assert before.requests == 1440
    RetentionPolicy.objects.update_or_create(pk=1, defaults={"hours_days": 100})
    assert apply_retention(now=NOW)["hours_days"]["rows"] == 24
    after = sla(endpoint, month, NOW)
    assert (after.requests, after.days, after.months) == (1440, before.days, before.months)


def test_the_page_says_what_is_kept_and_takes_a_change(admin: Actor, client: Client) -> None:
    client.force_login(admin.user)
    page = client.get("/settings/retention/")
    assert page.status_code == 200
    assert b"Requests, minute by minute" in page.content
    days = {name: str(value) for name, value in days_of(policy()).items()}
    refused = client.post("/settings/retention/", {**days, "minutes_days": "3", "revision": "0"})
    assert refused.status_code == 422
    assert b"Between 35 and" in refused.content
    done = client.post("/settings/retention/", {**days, "minutes_days": "40", "revision": "0"})
    assert done.status_code == 302
    assert policy().minutes_days == 40
    assert retention().room["minutes_days"].size_bytes > 0


def test_the_api_asks_what_was_looked_at(admin: Actor, client: Client) -> None:
    client.force_login(admin.user)
    found = client.get("/api/v1/retention/")
    assert (found.json()["minutes_days"], found["ETag"]) == (100, '"0"')
    body = {"minutes_days": 50}
    kind = "application/json"
    assert client.put("/api/v1/retention/", body, content_type=kind).status_code == 428
    wrong = client.put(
        "/api/v1/retention/", {"minutes_days": 1}, content_type=kind, headers={"If-Match": '"0"'}
    )
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/minutes_days")
    done = client.put("/api/v1/retention/", body, content_type=kind, headers={"If-Match": '"0"'})
    assert (done.status_code, done.json()["minutes_days"], done["ETag"]) == (200, 50, '"1"')
