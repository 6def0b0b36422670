"""Whether a rule would have fired in the last 24 hours, from the minutes that were booked."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet, Sum

from console.models import User
from deployments.models import AlertRule, Endpoint, MeasuredSeries, MinuteRollup, Node, SeriesMinute
from deployments.rules.alerts.catalogue import Reading, Readings, Source, Target
from deployments.rules.alerts.documents import RuleDocument
from deployments.rules.alerts.questions import Question, question_of
from deployments.rules.alerts.replay import WouldHaveFired, replay
from deployments.rules.alerts.traffic_memory import TrafficMemory
from deployments.rules.alerts.traffic_signals import readings_of_endpoint
from deployments.rules.statistics.measurements import Summary, minute_of
from deployments.selectors.alerts.known_signals import refuse_unknown
from deployments.selectors.alerts.series_readings import OF_CONTRACTS
from deployments.selectors.statistics.measurements import summary_of
from deployments.selectors.traffic.routing import contracts_that_hold

LOOKED_BACK = timedelta(hours=24)
MOST_ENDPOINTS = 10
MOST_SERIES = 60
MOST_SHOWN = 100
MINUTE = timedelta(minutes=1)
NEEDS_SECONDS = frozenset({"no_data_seconds", "requests_of_usual_percent"})


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rule would have raised; `why_not` says why that cannot be told ("state", "burn" …).

    `looked_at` things of `there_are` were looked at: those with most requests.
    """

    fired: list[WouldHaveFired]
    names: dict[Target, str]
    looked_at: int
    there_are: int
    start: datetime
    end: datetime
    why_not: str = ""


def preview(rule: RuleDocument, scope: AlertRule, *, user: User, now: datetime) -> Preview:
    """Judge the last 24 hours minute by minute; a bounded number of things and of queries.

    `scope` need not be stored. States, burns and leaks leave no minutes behind. Raises Invalid
    for a signal that nothing ever measured.
    """
    refuse_unknown(rule, user=user)
    end = minute_of(now)
    start = end - LOOKED_BACK
    nothing = Preview([], {}, 0, 0, start, end)
    questions = [question_of(rule, one) for one in rule.conditions]
    for question in questions:
        if question.signal.source not in (Source.TRAFFIC, Source.SERIES):
            return replace(nothing, why_not=question.signal.source.value)
        if question.signal.key in NEEDS_SECONDS:
            return replace(nothing, why_not="seconds")
    endpoints = _endpoints(scope, user)
    nodes = _nodes(scope)
    minutes: dict[Question, dict[datetime, Readings]] = {}
    looked = there = 0
    busiest, of_traffic = list(endpoints), len(endpoints)
    if Source.TRAFFIC in rule.sources:
        busiest = _busiest(list(endpoints), start, end)
        looked, there = len(busiest), of_traffic
        asked = [one for one in questions if one.signal.source is Source.TRAFFIC]
        minutes |= _traffic(asked, busiest, start, end)
    if Source.SERIES in rule.sources:
        asked = [one for one in questions if one.signal.source is Source.SERIES]
        found, some, every = _series(asked, endpoints, busiest, nodes, start, end)
        minutes |= found
        if Source.TRAFFIC not in rule.sources:
            looked, there = some, every
    fired = replay(rule, _looks(questions, minutes, start, end))[-MOST_SHOWN:]
    names = {one.target: _name(one.target, endpoints, nodes) for one in fired}
    return Preview(fired, names, looked, there, start, end)


def _looks(
    questions: list[Question],
    minutes: dict[Question, dict[datetime, Readings]],
    start: datetime,
    end: datetime,
) -> Iterator[tuple[datetime, list[Readings]]]:
    at = start
    while at < end:
        yield at + MINUTE, [minutes[one].get(at, {}) for one in questions]
        at += MINUTE


def _endpoints(scope: AlertRule, user: User) -> dict[int, tuple[str, int]]:
    """Key → name and model, of the endpoints in the scope that the person may see."""
    rows = Endpoint.objects.visible_to(user).filter(current__isnull=False)
    if scope.environment is not None:
        rows = rows.filter(environment=scope.environment)
    if scope.model is not None:
        rows = rows.filter(model=scope.model)
    found = rows.values_list("pk", "environment__name", "model__name", "model_id")
    return {pk: (f"{environment}/{model}", of) for pk, environment, model, of in found}


def _nodes(scope: AlertRule) -> dict[int, str]:
    rows: QuerySet[Node] = Node.objects.all()
    if scope.node is not None:
        rows = rows.filter(pk=scope.node.pk)
    if scope.environment is not None:
        rows = rows.filter(environments=scope.environment)
    return dict(rows.order_by("pk").values_list("pk", "name"))


def _busiest(endpoints: list[int], start: datetime, end: datetime) -> list[int]:
    rows = (
        MinuteRollup.objects.filter(endpoint_id__in=endpoints, minute__gte=start, minute__lt=end)
        .order_by()
        .values("endpoint_id")
        .annotate(n=Sum("requests"))
        .order_by("-n", "endpoint_id")
        .values_list("endpoint_id", flat=True)
    )
    return list(rows[:MOST_ENDPOINTS])


def _traffic(
    asked: list[Question], endpoints: list[int], start: datetime, end: datetime
) -> dict[Question, dict[datetime, Readings]]:
    """Each question's readings by minute, from sums that slide over the minutes."""
    memory = TrafficMemory()
    lengths = {one: float(max(one.window_s, 60)) for one in asked}
    memory.keep([str(key) for key in endpoints], lengths.values())
    quantiles = any(one.signal.quantile is not None for one in asked)
    columns = ["endpoint_id", "version", "minute", "requests", "caller_faults", "provider_faults"]
    columns += ["statuses", "bounds_ms", "buckets"] if quantiles else ["statuses"]
    rows = (
        MinuteRollup.objects.filter(endpoint_id__in=endpoints, minute__gte=start, minute__lt=end)
        .order_by("minute", "endpoint_id")
        .values_list(*columns)
    )
    by_minute: dict[datetime, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in rows.iterator(chunk_size=5000):
        by_minute[row[2]][row[0]].append(row)
    found: dict[Question, dict[datetime, Readings]] = {one: {} for one in asked}
    for minute, here in sorted(by_minute.items()):
        at = minute.timestamp() + 60
        for endpoint, versions in here.items():
            bounds = next((tuple(row[7]) for row in versions if quantiles and row[7]), ())
            memory.hear(str(endpoint), [_point(versions, at, quantiles)], bounds)
        for question in asked:
            found[question][minute] = {
                Target(endpoint=endpoint, version=version): reading
                for endpoint in endpoints
                for version, reading in readings_of_endpoint(
                    question.signal,
                    memory.versions(str(endpoint), lengths[question], at),
                    each=question.each,
                    seconds=lengths[question],
                    min_requests=question.min_requests,
                    bounds=memory.bounds,
                ).items()
            }
    return found


def _point(rows: list[Any], at: float, quantiles: bool) -> dict[str, Any]:
    """A minute's rows as one point of the ring."""
    versions = {}
    for row in rows:
        buckets = {i: n for i, n in enumerate(row[8]) if n} if quantiles else {}
        versions[str(row[1])] = [row[3], row[4], row[5], buckets, row[6].get("rescued", 0)]
    return {"t": at, "v": versions}


def _series(
    asked: list[Question],
    endpoints: dict[int, tuple[str, int]],
    busiest: list[int],
    nodes: dict[int, str],
    start: datetime,
    end: datetime,
) -> tuple[dict[Question, dict[datetime, Readings]], int, int]:
    """Each question's readings by minute, and how many series of how many were looked at."""
    of_these = Q(endpoint__in=busiest) | Q(endpoint__isnull=True)
    of_these &= Q(node__in=list(nodes)) | Q(node__isnull=True)
    rows = MeasuredSeries.objects.filter(of_these, name__in={one.signal.key for one in asked})
    every = rows.count()
    series = {row.pk: row for row in rows.order_by("pk")[:MOST_SERIES]}
    values: dict[int, dict[datetime, Summary]] = defaultdict(dict)
    for held in SeriesMinute.objects.filter(
        series_id__in=list(series), minute__gte=start, minute__lt=end
    ).order_by("minute"):
        values[held.series_id][held.minute] = summary_of(held)
    contracts = contracts_that_hold({model for _, model in endpoints.values()})
    found: dict[Question, dict[datetime, Readings]] = {}
    for question in asked:
        by_minute: dict[datetime, dict[Target, Reading]] = defaultdict(dict)
        for pk, row in series.items():
            if row.name != question.signal.key:
                continue
            model = endpoints.get(row.endpoint_id or 0, ("", 0))[1]
            contract = contracts.get(model)
            own = OF_CONTRACTS.get(row.name) if question.own_limit else None
            limit = own(contract) if own and contract else None
            target = Target(row.endpoint_id, row.node_id, row.device, row.version, row.label)
            for minute, value in _sliding(values[pk], question):
                by_minute[minute][target] = Reading(value, limit)
        found[question] = dict(by_minute)
    return found, len(series), every


def _sliding(
    minutes: dict[datetime, Summary], question: Question
) -> Iterator[tuple[datetime, float]]:
    """A series' value over the window that ends with each minute that it has one of."""
    window = timedelta(seconds=max(question.window_s, 60))
    held: deque[tuple[datetime, Summary]] = deque()
    for minute, summary in sorted(minutes.items()):
        held.append((minute, summary))
        while held[0][0] <= minute - window:
            held.popleft()
        total = held[0][1]
        for _, other in list(held)[1:]:
            total = total + other
        picked = {
            "mean": total.mean,
            "max": total.maximum,
            "min": total.minimum,
            "newest": total.newest,
        }
        yield minute, picked[question.aggregate]


def _name(target: Target, endpoints: dict[int, tuple[str, int]], nodes: dict[int, str]) -> str:
    parts = []
    if target.endpoint is not None:
        parts.append(endpoints.get(target.endpoint, ("", 0))[0])
    if target.version:
        parts.append(f"v{target.version}")
    if target.node is not None:
        parts.append(nodes.get(target.node, ""))
    parts += [target.device, target.label]
    return " · ".join(part for part in parts if part)
