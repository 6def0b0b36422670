"""Load tests as lists, pages and gates need them."""

from __future__ import annotations

import uuid

from django.db.models import F, Prefetch, QuerySet

from console.errors import NotFound
from console.models import User
from models_registry.models import LoadTest, Release
from models_registry.rules import load_tests as rules
from models_registry.rules.load_tests import Gate, GateRun, Limits

_RELATED = ("version__model", "environment", "job", "requested_by", "report_html")


def load_test_list(model_name: str, number: int, *, user: User) -> QuerySet[LoadTest]:
    """The load tests of a version, newest first, without their reports' series; in 1 query."""
    return (
        LoadTest.objects.visible_to(user)
        .filter(version__model__name=model_name, version__number=number)
        .select_related(*_RELATED)
        .defer("report")
        .annotate(
            p95_ms=F("report__latency_ms__p95"),
            success=F("report__success"),
            sent=F("report__requests__sent"),
        )
    )


def find_load_test(load_test_id: uuid.UUID, *, user: User) -> LoadTest:
    """One load test, in 1 query. Raises NotFound."""
    tests = LoadTest.objects.visible_to(user).select_related(*_RELATED)
    found = tests.filter(pk=load_test_id).first()
    if found is None:
        raise NotFound(
            "There is no such load test.", hint="See the version's page for its load tests."
        )
    return found


def ended_runs() -> Prefetch[str, QuerySet[LoadTest], str]:
    """What `gate_of` reads of a release's version, for a prefetch: tests with a verdict."""
    return Prefetch("version__load_tests", _with_figures(), to_attr="ended_load_tests")


def gate_of(release: Release) -> Gate:
    """Whether the release has the load test that its environment asks for.

    Uses what `ended_runs` has fetched; otherwise 1 query where one is asked for at all.
    """
    environment, version = release.environment, release.version
    fetched: list[LoadTest] | None = getattr(version, "ended_load_tests", None)
    if environment.requires_load_test and fetched is None:
        fetched = list(_with_figures().filter(version=version))
    return rules.gate(
        version=str(version),
        environment=environment.name,
        required=environment.requires_load_test,
        limits=Limits(environment.load_test_p95_ms, environment.load_test_success),
        onnx=release.digests.get("onnx", ""),
        config=release.digests.get("config", ""),
        runs=[_run(one) for one in fetched or ()],
    )


def _with_figures() -> QuerySet[LoadTest]:
    return (
        LoadTest.objects.filter(passed__isnull=False, ended_at__isnull=False)
        .select_related("environment")
        .defer("report")
        .annotate(
            p95_ms=F("report__latency_ms__p95"),
            success=F("report__success"),
            sent=F("report__requests__sent"),
            onnx=F("report__digests__onnx"),
            config=F("report__digests__config"),
        )
    )


def _run(load_test: LoadTest) -> GateRun:
    figures = load_test.__dict__
    return GateRun(
        id=str(load_test.pk),
        environment=load_test.environment.name,
        production=load_test.environment.production,
        rate=load_test.rate,
        requests=figures["sent"] or 0,
        p95_ms=figures["p95_ms"],
        success=figures["success"] or 0.0,
        onnx=figures["onnx"] or "",
        config=figures["config"] or "",
        ended_at=figures["ended_at"],
    )
