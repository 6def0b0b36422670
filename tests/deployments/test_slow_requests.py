"""Slow requests: read out of large logs, split by stage, shown at every door."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from deployments.adapters import access_log
from deployments.documents.slow_words import sentence
from deployments.models import MinuteRollup
from deployments.rules.diagnosis import slow_requests as rules
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

START = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


def line(at: datetime, number: int = 0, **values: Any) -> dict[str, Any]:
    """A line as the gateway writes it: 1 ms on the way, 9 ms at the node."""
    return {
        "time": at.isoformat().replace("+00:00", "Z"),
        "environment": "production",
        "x_request_id": f"request-{number}",
        "model": "fraud_detector",
        "caller": "-",
        "model_version": "1",
        "upstream": "127.0.0.1:8720",
        "status": 200,
        "flags": "-",
        "duration_ms": 10,
        "attempts": 1,
        "refused": "-",
        "bytes_received": 200,
        "bytes_sent": 100,
        "receive_us": 300,
        "until_upstream_us": 500,
        "send_us": 200,
        "model_us": 9000,
        "answer_us": 300,
        **values,
    }


def written(path: Path, lines: list[dict[str, Any]], noise: str = "") -> Path:
    path.write_text("".join(noise + json.dumps(one) + "\n" for one in lines))
    return path


def request(**values: Any) -> rules.LoggedRequest:
    found = rules.parse(line(START, **values))
    assert found is not None
    return found


def test_the_stages_of_a_request_add_up_to_what_it_took() -> None:
    one = request()
    for times in (None, rules.ModelTime(1.0, 4.0), rules.ModelTime(50.0, 90.0)):
        stages = rules.stages_of(one, times)
        assert sum(stages.values()) == pytest.approx(one.total_ms)
    split = rules.stages_of(one, rules.ModelTime(1.0, 4.0))
    assert (split["queue"], split["compute"], split["model"]) == (1.0, 4.0, 4.0)
    assert one.total_ms == 10.0
    assert request(duration_ms=30).rest_ms == 20.0, "what no stage explains is told apart"


def test_a_percentile_is_a_request_that_was_and_says_where_its_time_went() -> None:
    quick = [request(x_request_id=f"q{n}") for n in range(999)]
    slow = request(x_request_id="slow", duration_ms=810, until_upstream_us=800_500, attempts=2)
    found = rules.report([*quick, slow], {})
    at = {one.percent: one for one in found.percentiles}
    assert at[50.0].value_ms == at[99.0].value_ms == 10.0
    assert at[50.0].main == "model"
    assert found.worst[0].request.request_id == "slow"
    assert found.worst[0].main == "wait"
    assert rules.nearest_rank(99.9, 1000) == 998
    assert rules.nearest_rank(99.9, 1) == 0
    more = rules.report([*quick[:998], slow, slow], {})
    assert more.percentiles[-1].value_ms == 810.0
    assert more.percentiles[-1].main == "wait"
    assert rules.report([], {}).percentiles == ()


def test_the_stages_of_a_percentile_add_up_to_the_mean_that_is_told_with_them() -> None:
    took = [10.0] * 97 + [20.0, 21.75, 63.45]
    asked = [request(model_us=(ms - 1) * 1000, duration_ms=int(ms)) for ms in took]
    minute = START.replace(second=0, microsecond=0)
    found = rules.report(asked, {(1, minute): rules.ModelTime(1.0, 4.0)})
    p99 = next(one for one in found.percentiles if one.percent == 99)
    assert (p99.value_ms, p99.slower, round(p99.slower_ms, 2)) == (21.75, 2, 42.6)
    for one in found.percentiles:
        slowest = sorted(took)[-one.slower :]
        assert sum(one.stages.values()) == pytest.approx(one.slower_ms)
        assert one.slower_ms == pytest.approx(sum(slowest) / len(slowest))
        assert one.value_ms == slowest[0]
    assert (p99.main, round(p99.share, 2)) == ("model", 0.86)
    assert sentence(p99) == (
        "2 requests at or above P99 took 42.60 ms on average: 86 % of it "
        "“At the node, beyond the mean”"
    )
    odd = request(duration_ms=3)
    assert odd.total_ms == sum(rules.stages_of(odd, None).values()) == 10.0


@pytest.mark.parametrize(
    "broken",
    [
        {"model": "-"},
        {"time": "yesterday"},
        {"time": None},
    ],
)
def test_what_is_no_request_to_a_model_is_left_out(broken: dict[str, Any]) -> None:
    assert rules.parse(line(START, **broken)) is None


def test_an_older_line_without_stages_still_counts() -> None:
    old = line(START)
    for name in ("receive_us", "until_upstream_us", "send_us", "model_us", "answer_us"):
        del old[name]
    one = rules.parse(old)
    assert one is not None
    assert (one.total_ms, one.rest_ms) == (10.0, 10.0)
    odd = request(model_us="-", status="NaN", attempts=True, bytes_received=1e400)
    assert request(model_us=10**400).model_ms == 0.0
    assert request(status=[1], caller={"a": 1}).status == 0
    assert (odd.model_ms, odd.status, odd.attempts, odd.bytes_received) == (0.0, 0, 0, 0)


def test_a_span_is_found_in_a_large_log_without_reading_it_whole(tmp_path: Path) -> None:
    lines = [line(START + timedelta(seconds=n), n) for n in range(40_000)]
    path = written(tmp_path / "envoy.log", lines, noise="[info] a line of Envoy’s own\n")
    written(tmp_path / "envoy.log.1", [line(START - timedelta(seconds=n), -n) for n in (3, 2, 1)])
    size = path.stat().st_size
    reading = access_log.Reading()
    began = time.monotonic()
    start, end = START + timedelta(seconds=30_000), START + timedelta(seconds=30_060)
    found = list(access_log.between(path, start, end, reading))
    took = time.monotonic() - began
    assert [one["x_request_id"] for one in found] == [f"request-{n}" for n in range(30_000, 30_061)]
    assert reading.bytes < size / 10
    assert took < 1
    reading = access_log.Reading()
    first = list(access_log.between(path, START - timedelta(seconds=2), START, reading))
    assert [one["x_request_id"] for one in first] == ["request--2", "request--1", "request-0"]
    gone = access_log.Reading()
    assert list(access_log.between(tmp_path / "none.log", start, end, gone)) == []
    assert gone.missing


def test_the_bounds_of_reading_are_kept_and_said(tmp_path: Path) -> None:
    path = written(tmp_path / "envoy.log", [line(START, n) for n in range(50)])
    with path.open("a") as log:
        log.write('{"time": "cut off')
    reading = access_log.Reading(most_lines=10)
    found = list(access_log.between(path, START, START + timedelta(hours=1), reading))
    assert len(found) == 10
    assert reading.truncated


def test_a_hole_of_gigabytes_in_the_log_and_lines_of_others_hold_up_nothing(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "envoy.log", [line(START, n) for n in range(3)])
    with path.open("r+b") as log:
        log.truncate(5 * 1024**3)
        log.seek(0, 2)
        odd = ['{"time": "2026-11-30T10:00:00"}', '{"time": ' + "[" * 100_000, '{"time": 1}']
        log.write(("\n" + "\n".join([*odd, json.dumps(line(START, 9))]) + "\n").encode())
    reading = access_log.Reading()
    began = time.monotonic()
    found = list(access_log.between(path, START, START + timedelta(seconds=1), reading))
    assert [one["x_request_id"] for one in found][:3] == [f"request-{n}" for n in range(3)]
    assert reading.truncated
    assert reading.bytes < access_log.MOST_BYTES + 1024**2
    assert time.monotonic() - began < 2
    short = tmp_path / "other.log"
    short.write_text("\n".join([*odd, json.dumps(line(START, 9))]) + "\n")
    (last,) = access_log.between(short, START, START, access_log.Reading())
    assert last["x_request_id"] == "request-9"


@pytest.fixture
def logged(fleet_rows: Fleet, tmp_path: Path) -> Callable[..., Path]:
    """An endpoint whose gateway's log can be written; rows of Triton's work stand beside it."""
    placement = ready_version(fleet_rows, factories.make_version())
    path = tmp_path / "access.log"
    fleet_rows.gateway.options = {"access_log": str(path)}
    fleet_rows.gateway.save()
    now = timezone.now()
    from deployments.models import Endpoint

    endpoint = Endpoint.objects.get(model=placement.deployment.release.version.model)
    MinuteRollup.objects.create(
        endpoint=endpoint,
        version=1,
        minute=(now - timedelta(minutes=5)).replace(second=0, microsecond=0),
        requests=10,
        inference_count=10,
        execution_count=5,
        queue_ns=20_000_000,
        compute_ns=40_000_000,
    )

    def write(**worst: Any) -> Path:
        at = (now - timedelta(minutes=5)).replace(second=30, microsecond=0)
        lines = [line(at, n) for n in range(200)]
        lines.append(line(at, 999, **worst))
        lines.append(line(at, 1000, model="other", duration_ms=9999))
        return written(path, lines)

    return write


WORST = {"x_request_id": "=cmd|' /C calc'!A0", "duration_ms": 521, "until_upstream_us": 511_500}


def test_the_page_explains_the_worst(client: Client, logged: Callable[..., Path]) -> None:
    logged(**WORST)
    client.force_login(factories.people().vic)
    page = client.get("/endpoints/production/fraud_detector/slow/").content.decode()
    assert "=cmd|&#x27; /C calc&#x27;!A0" in page
    assert "At the gateway, before a node" in page
    assert "In Triton’s queue" in page
    assert "201 requests" in page
    one = client.get("/endpoints/production/fraud_detector/slow/?x_request_id=request-7")
    assert "1 request" in one.content.decode()
    none = client.get("/endpoints/production/fraud_detector/slow/?status=503").content.decode()
    assert "No request matches" in none
    odd = "/endpoints/production/fraud_detector/slow/?status=x&span=9y&version=-1"
    assert "201 requests" in client.get(odd).content.decode()


def test_without_a_log_the_page_says_how_to_have_one(
    client: Client, logged: Callable[..., Path]
) -> None:
    client.force_login(factories.people().vic)
    page = client.get("/endpoints/production/fraud_detector/slow/").content.decode()
    assert "No access log is seen from here" in page


def test_the_api_and_its_csv(client: Client, logged: Callable[..., Path]) -> None:
    logged(**WORST)
    client.force_login(factories.people().vic)
    path = "/api/v1/endpoints/production/fraud_detector/slow-requests"
    found = client.get(f"{path}/").json()
    assert found["requests"] == 201
    last = found["percentiles"][-1]
    assert (last["slower"], last["slower_ms"]) == (1, pytest.approx(521.0))
    assert "1 request at or above P99.9 took 521.00 ms" in last["words"]
    assert found["stage_names"]["model"] == "At the node, beyond the mean"
    assert found["worst"][0]["main"] == "wait"
    assert found["worst"][0]["stages"]["queue"] == pytest.approx(2.0)
    assert found["worst"][0]["stages"]["compute"] == pytest.approx(4.0)
    assert found["logs"][0]["missing"] is False
    answer = client.get(f"{path}.csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert len(rows) == 201
    assert rows[0]["x_request_id"] == "'=cmd|' /C calc'!A0", "no spreadsheet runs it"
    assert rows[0]["main_stage"] == "wait"
    wide = client.get(f"{path}/?from=2026-01-01T00:00:00Z")
    assert (wide.status_code, wide.json()["code"]) == (422, "invalid_span")
    assert client.get(f"{path}/?status=abc").status_code == 422
