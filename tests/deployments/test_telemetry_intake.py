"""The intake of metrics: OTLP in protobuf and JSON, what is taken of it, and what is refused."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from console.errors import Invalid, NotAllowed, TooLarge
from console.services.tokens import create_token
from deployments.adapters import otlp
from deployments.models import Endpoint, MeasuredSeries, SeriesMinute, TelemetryCounter
from deployments.rules.telemetry import sent
from deployments.rules.telemetry.sent import SentPoint, Shape, Stand, grown
from deployments.services.telemetry.intake import forget_counters, take_points
from tests import factories
from tests.deployments.reference_rows import record_rows
from tests.deployments.telemetry_sent import NANO, gauge, histogram, request, sums

NOW = datetime(2026, 12, 1, 12, 0, 30, tzinfo=UTC)


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    model = factories.make_model("fraud_detector")
    factories.make_version(model)
    return Endpoint.objects.create(model=model, environment=factories.make_environment())


def read(document: dict[str, Any]) -> list[SentPoint]:
    return otlp.read(otlp.request_bytes(document), content_type=otlp.PROTOBUF)


def actor(name: str = "dana") -> Any:
    return factories.actor(factories.make_user(name, "data_scientist"))


def test_protobuf_and_json_say_the_same() -> None:
    document = request(gauge("conversion.rate", 0.25, at=NOW, feature="amount"))
    by_bytes = read(document)
    by_text = otlp.read(
        gzip.compress(json.dumps(document).encode()), content_type=otlp.JSON, encoding="gzip"
    )
    assert by_bytes == by_text
    (point,) = by_bytes
    assert sent.series_name(point) == "conversion_rate"
    assert sent.label_of(point) == "amount"
    assert sent.address_of(point) == sent.Address("production", "fraud_detector", 1)


def test_ids_of_exemplars_in_json_are_no_fault() -> None:
    metric = histogram("latency", count=1, total=2.0, at=NOW)
    metric["histogram"]["dataPoints"][0]["exemplars"] = [{"traceId": "5b8efff798038103", "x": 1}]
    (point,) = otlp.read(json.dumps(request(metric)).encode(), content_type=otlp.JSON)
    assert (point.count, point.value) == (1, 2.0)


@pytest.mark.parametrize(
    ("body", "content_type", "encoding", "code"),
    [
        (b"\xff\xff", otlp.PROTOBUF, "", "bad_otlp"),
        (b"[1]", otlp.JSON, "", "bad_otlp"),
        (b"{", otlp.JSON, "", "bad_otlp"),
        (b"{}", "text/plain", "", "bad_content_type"),
        (b"{}", otlp.JSON, "br", "bad_encoding"),
        (b"{}", otlp.JSON, "gzip", "bad_encoding"),
        # The time is in its head: one moment, or each run would name the test anew.
        (gzip.compress(b"{}", mtime=0)[:-4], otlp.JSON, "gzip", "bad_encoding"),
    ],
)
def test_what_cannot_be_read_is_refused(
    body: bytes, content_type: str, encoding: str, code: str
) -> None:
    with pytest.raises(Invalid) as raised:
        otlp.read(body, content_type=content_type, encoding=encoding)
    assert raised.value.code == code


def test_a_small_body_that_unpacks_to_much_is_refused() -> None:
    bomb = gzip.compress(b" " * (otlp.MOST_INFLATED + 1))
    with pytest.raises(TooLarge):
        otlp.read(bomb, content_type=otlp.JSON, encoding="gzip")
    many = request(*[gauge(f"m{number}", 1, at=NOW) for number in range(otlp.MOST_POINTS + 1)])
    with pytest.raises(TooLarge):
        read(many)
    nothing = gzip.compress(b"\x0a\x00" * 500_000)
    with pytest.raises(TooLarge):
        otlp.read(nothing, content_type=otlp.PROTOBUF, encoding="gzip")


def test_texts_with_a_null_character_are_kept_without_it(endpoint: Endpoint) -> None:
    metric = gauge("basket_value", 1, at=NOW, **{"shop\0": "a\0b"})
    metric["unit"] = "EU\0R"
    assert take_points(points=read(request(metric)), actor=actor(), now=NOW).accepted == 1
    series = MeasuredSeries.objects.get()
    assert (series.label, series.unit) == ("shop=ab", "EUR")


def test_gauges_become_minutes_of_a_series(endpoint: Endpoint) -> None:
    points = read(
        request(
            gauge("model_output_entropy", 0.2, at=NOW),
            gauge("model_output_entropy", 0.6, at=NOW + timedelta(seconds=5)),
        )
    )
    taken = take_points(points=points, actor=actor(), now=NOW)
    assert (taken.accepted, taken.rejected, taken.message) == (2, 0, "")
    series = MeasuredSeries.objects.get()
    assert (series.endpoint_id, series.version, series.name) == (
        endpoint.pk, 1, "model_output_entropy",
    )  # fmt: skip
    minute = SeriesMinute.objects.get()
    assert minute.minute == NOW.replace(second=0)
    assert (minute.count, minute.total, minute.newest) == (2, 0.8, 0.6)


def test_a_counter_counts_what_it_grew_by_once(endpoint: Endpoint) -> None:
    dana = actor()
    start = NOW - timedelta(minutes=1)
    for value, seconds in ((5, 0), (9, 10), (9, 10), (2, 20)):
        at = NOW + timedelta(seconds=seconds)
        began = start if seconds < 20 else NOW + timedelta(seconds=15)
        document = request(sums("orders", value, at=at, start=began, monotonic=True))
        take_points(points=read(document), actor=dana, now=at)
    series = MeasuredSeries.objects.get()
    assert series.name == "orders_total"
    # 5 since it began, 4 more, nothing for what came twice, and 2 since it began anew.
    assert sum(row.total for row in SeriesMinute.objects.all()) == 11
    assert TelemetryCounter.objects.count() == 1


def test_deltas_add_up_and_a_second_sending_adds_nothing(endpoint: Endpoint) -> None:
    dana = actor()
    document = request(sums("orders", 3, at=NOW, start=NOW, monotonic=True, cumulative=False))
    again = request(
        sums("orders", 4, at=NOW + timedelta(seconds=9), start=NOW, monotonic=True,
             cumulative=False)
    )  # fmt: skip
    for one in (document, document, again, document):
        take_points(points=read(one), actor=dana, now=NOW)
    assert sum(row.total for row in SeriesMinute.objects.all()) == 7


def test_a_distribution_gives_count_sum_and_mean(endpoint: Endpoint) -> None:
    metric = histogram("basket_value", count=4, total=100.0, at=NOW, least=10, most=50)
    take_points(points=read(request(metric)), actor=actor(), now=NOW)
    minute = SeriesMinute.objects.get()
    assert (minute.count, minute.total, minute.minimum, minute.maximum) == (4, 100, 10, 50)
    assert minute.newest == 25


def test_counters_of_two_senders_are_apart(endpoint: Endpoint) -> None:
    dana = actor()
    start = NOW - timedelta(minutes=1)
    for host in ("a", "b"):
        document = request(
            sums("orders", 5, at=NOW, start=start, monotonic=True),
            resource={"service.instance.id": host},
        )
        take_points(points=read(document), actor=dana, now=NOW)
    assert sum(row.total for row in SeriesMinute.objects.all()) == 10
    assert MeasuredSeries.objects.count() == 1


def test_what_is_not_taken_is_said(endpoint: Endpoint) -> None:
    points = read(request(gauge("a", 1, at=NOW), gauge("b", float("nan"), at=NOW)))
    points += read(request(gauge("a", 1, at=NOW), model="unknown"))
    points += read(request(gauge("a", 1, at=NOW), version="7"))
    points += read(request(gauge("a", 1, at=NOW), version="x"))
    points += read(request(gauge("a", 1, at=NOW - timedelta(days=2))))
    points += read(request(gauge("a", 1, at=NOW + timedelta(hours=1))))
    points += read(request(gauge("***", 1, at=NOW)))
    points += read({"resourceMetrics": [{"scopeMetrics": [{"metrics": [gauge("a", 1, at=NOW)]}]}]})
    taken = take_points(points=points, actor=actor(), now=NOW)
    assert (taken.accepted, taken.rejected) == (1, 8)
    reasons = " ".join(taken.refused)
    for words in (
        "no endpoint production/unknown", "no version 7", "is no number", "older than a day",
        "of the future", "is no name", "names no endpoint", "no finite number",
    ):  # fmt: skip
        assert words in reasons
    assert taken.message.endswith("and others")


def test_values_whose_sum_would_be_no_number_are_not_taken(endpoint: Endpoint) -> None:
    beyond = histogram("waiting", count=2**62, total=1.0, at=NOW)
    endless = histogram("asking", count=1, total=1.0, at=NOW)
    endless["histogram"]["dataPoints"][0]["max"] = "Infinity"
    metrics = [gauge("huge", 1e308, at=NOW), gauge("deep", -1e101, at=NOW), beyond, endless]
    taken = take_points(points=read(request(*metrics)), actor=actor(), now=NOW)
    assert (taken.accepted, taken.rejected) == (0, 4)
    assert "3 × its value is too great" in taken.message


def test_who_may_not_send_sends_nothing(endpoint: Endpoint) -> None:
    points = read(request(gauge("a", 1, at=NOW)))
    with pytest.raises(NotAllowed):
        take_points(points=points, actor=factories.actor(factories.make_user("vic")), now=NOW)


def test_an_endpoint_has_a_limit_of_series(endpoint: Endpoint) -> None:
    dana = actor()
    many = [gauge("a", 1, at=NOW, who=f"u{number}") for number in range(sent.MOST_SERIES + 5)]
    taken = take_points(points=read(request(*many)), actor=dana, now=NOW)
    assert (taken.accepted, taken.rejected) == (sent.MOST_SERIES, 5)
    known = take_points(points=read(request(many[0])), actor=dana, now=NOW)
    assert known.accepted == 1
    assert MeasuredSeries.objects.count() == sent.MOST_SERIES


def test_what_covenant_measures_is_not_mixed_with_others(endpoint: Endpoint) -> None:
    factories.make_contract(endpoint.model)
    version = endpoint.model.versions.get()
    record_rows(version)
    points = read(request(gauge("feature_drift_score", 0.1, at=NOW), gauge("mine", 1, at=NOW)))
    taken = take_points(points=points, actor=actor("dan"), now=NOW)
    assert taken.accepted == 1
    assert "measured by Covenant itself" in taken.message


def test_where_counters_stood_is_forgotten_after_a_week(endpoint: Endpoint) -> None:
    document = request(sums("orders", 3, at=NOW, start=NOW, monotonic=True))
    take_points(points=read(document), actor=actor(), now=NOW)
    assert forget_counters(now=timezone.now() + timedelta(days=6)) == 0
    assert forget_counters(now=timezone.now() + timedelta(days=8)) == 1


def test_what_grew_before_it_was_seen_is_not_counted_in_one_minute() -> None:
    point = SentPoint(
        "x", "", Shape.SUM, {}, {}, "", 10 * NANO, 100_000 * NANO, 500.0, cumulative=True,
        monotonic=True,
    )  # fmt: skip
    growth, stand = grown(point, None)
    assert growth is None
    assert stand == Stand(10 * NANO, 100_000 * NANO, 500.0)


def test_the_door_takes_a_token_and_answers_in_the_senders_form(
    endpoint: Endpoint, client: Client
) -> None:
    dana = factories.make_user("dana", "data_scientist")
    _, clear = create_token(name="metrics", scopes=["write"], actor=factories.actor(dana))
    now = timezone.now()
    body = otlp.request_bytes(request(gauge("a", 1, at=now), gauge("b", float("inf"), at=now)))
    headers = {"Authorization": f"Token {clear}"}
    url = "/otlp/v1/metrics"
    answer = client.post(url, body, content_type=otlp.PROTOBUF, headers=headers)
    assert (answer.status_code, answer["Content-Type"]) == (200, otlp.PROTOBUF)
    assert b"no finite number" in answer.content
    text = json.dumps(request(gauge("a", 2, at=now)))
    answer = client.post(url, text, content_type=otlp.JSON, headers=headers)
    assert (answer.status_code, json.loads(answer.content)) == (200, {})
    answer = client.post(url, b"\xff", content_type=otlp.PROTOBUF, headers=headers)
    assert answer.status_code == 400
    assert client.post(url, body, content_type=otlp.PROTOBUF).status_code == 401
