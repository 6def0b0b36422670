"""Load tests: asking for one, and keeping what came out."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict
from console.models import Job, JobState, Role
from console.services import audit, jobs
from console.services.job_runs import JobRun
from models_registry.models import (
    Artifact,
    Environment,
    LoadTest,
    ModelVersion,
    VersionState,
)
from models_registry.rules import load_tests as rules
from models_registry.rules.load_tests import Limits
from models_registry.services.catalog import require_part_in

UNDER_WAY = (JobState.QUEUED, JobState.RUNNING)
OPERATORS = frozenset({Role.SRE, Role.PLATFORM_ADMIN})


def request_load_test(
    *,
    version: ModelVersion,
    environment: Environment,
    pattern: str,
    rate: int,
    seconds: int,
    actor: Actor,
) -> tuple[LoadTest, Job]:
    """Ask for a load test of a validated version; `rate` in requests a second at the peak.

    The same question by the same person, while it is under way, gives the test that is there. It
    is measured against the strictest limits of the environments that ask for a load test. Raises
    NotAllowed (`not_allowed`; a production environment takes `allow_load_test` as well), Invalid
    (`bad_load_test`), Conflict (`version_not_validated`, `no_sample`, `load_test_running`).
    """
    _require_permission(version, environment, actor)
    rules.check_request(pattern, rate, seconds, max_rate=settings.CONFIG.load_test_max_rate)
    if version.state != VersionState.VALIDATED:
        raise Conflict(
            f"{version} is {version.get_state_display()}; only a validated one is load-tested.",
            code="version_not_validated",
            hint="Wait for its validation, or test another version.",
        )
    if version.sample is None:
        raise Conflict(
            f"{version} has no recorded sample that could be sent.",
            code="no_sample",
            hint="Create a version with a sample, or let validation record one.",
        )
    with transaction.atomic():
        # One at a time in an environment: two would measure each other.
        environment = Environment.objects.select_for_update().get(pk=environment.pk)
        if earlier := _under_way(environment):
            return _same_question(earlier, version, pattern, rate, seconds, actor)
        limits = _limits(environment)
        load_test = LoadTest(
            version=version,
            environment=environment,
            pattern=pattern,
            rate=rate,
            seconds=seconds,
            limit_p95_ms=limits.p95_ms,
            limit_success=limits.success,
            requested_by=actor.user,
        )
        job = jobs.enqueue(
            kind="load_test",
            subject=f"{version} in {environment.name}",
            subject_url=url_of(load_test),
            arguments={"load_test": str(load_test.pk)},
            actor=actor,
            idempotency_key=f"load_test:{load_test.pk}",
        )
        load_test.job = job
        load_test.save()
        audit.record(
            actor=actor,
            action="load_test.request",
            subject=str(load_test.version),
            subject_url=url_of(load_test),
            after={
                "load_test": str(load_test.pk),
                "environment": environment.name,
                "pattern": pattern,
                "rate": rate,
                "seconds": seconds,
                "limits": {"p95_ms": limits.p95_ms, "success": limits.success},
            },
        )
        _publish(load_test)
    return load_test, job


def begin_load_test(run: JobRun) -> LoadTest:
    """The job's load test, when it may still start: a retried job asks everything again.

    Raises NotAllowed when the person may not any more, Conflict (`load_test_running`) when another
    one began in the environment meanwhile.
    """
    with run.transaction():
        load_test = _find(run.job)
        environment = Environment.objects.select_for_update().get(pk=load_test.environment_id)
        _require_permission(load_test.version, environment, run.actor)
        other = _under_way(environment, but=load_test)
        if other is not None:
            raise _running(other)
        load_test.report, load_test.passed, load_test.report_html = None, None, None
        load_test.ended_at = None
        load_test.save(update_fields=["report", "passed", "report_html", "ended_at"])
        _publish(load_test)
    return load_test


def record_result(run: JobRun, *, report: dict[str, Any], html: Artifact) -> LoadTest:
    """Keep what the test of this job measured, with its verdict."""
    with run.transaction():
        load_test = _find(run.job)
        load_test.report, load_test.report_html = report, html
        load_test.passed, load_test.ended_at = bool(report["passed"]), timezone.now()
        load_test.save(update_fields=["report", "report_html", "passed", "ended_at"])
        audit.record(
            actor=run.actor,
            action="load_test.pass" if load_test.passed else "load_test.fail",
            subject=str(load_test.version),
            subject_url=url_of(load_test),
            after={
                "load_test": str(load_test.pk),
                "environment": load_test.environment.name,
                "p95_ms": report["latency_ms"]["p95"],
                "success": report["success"],
                "requests": report["requests"]["sent"],
                "report": html.sha256,
            },
            reason=report["sentence"],
        )
        _publish(load_test)
    return load_test


def load_test_ended(job: Job) -> None:
    """The job ended without a result; runs in the transaction that ends it."""
    with transaction.atomic():
        LoadTest.objects.filter(pk=job.arguments["load_test"]).update(ended_at=timezone.now())
        _publish(_find(job))


def url_of(load_test: LoadTest) -> str:
    """The load test's page."""
    return f"/load-tests/{load_test.pk}/"


def topic_of(version: ModelVersion) -> str:
    """What viewers of a version's load tests listen to."""
    return f"load-tests:{version.model.name}/{version.number}"


def _require_permission(version: ModelVersion, environment: Environment, actor: Actor) -> None:
    team_id = version.model.team_id
    require(actor, "load_test.run", team_id)
    if environment.production:
        require(actor, "allow_load_test", team_id)
    if OPERATORS.isdisjoint(actor.user.roles_in(team_id)):
        require_part_in(version.model, actor)


def _limits(environment: Environment) -> Limits:
    gates = Environment.objects.filter(requires_load_test=True).exclude(pk=environment.pk)
    return rules.limits_for(
        Limits(environment.load_test_p95_ms, environment.load_test_success),
        [Limits(one.load_test_p95_ms, one.load_test_success) for one in gates],
    )


def _under_way(environment: Environment, but: LoadTest | None = None) -> LoadTest | None:
    found = LoadTest.objects.filter(environment=environment, job__state__in=UNDER_WAY)
    if but is not None:
        # Of two that wait, the one that runs is in the way of the other.
        found = found.exclude(pk=but.pk).filter(job__state=JobState.RUNNING)
    return found.select_related("version__model", "environment", "job", "requested_by").first()


def _same_question(
    earlier: LoadTest, version: ModelVersion, pattern: str, rate: int, seconds: int, actor: Actor
) -> tuple[LoadTest, Job]:
    was = (earlier.version_id, earlier.pattern, earlier.rate, earlier.seconds)
    same = was == (version.pk, pattern, rate, seconds)
    if same and earlier.requested_by_id == actor.user.pk and earlier.job is not None:
        return earlier, earlier.job
    raise _running(earlier)


def _running(other: LoadTest) -> Conflict:
    return Conflict(
        f"A load test of {other.version} runs in {other.environment.name} already, asked for by "
        f"{other.requested_by.username}; two at once would measure each other.",
        code="load_test_running",
        hint=f"Wait until it has ended, or cancel it: {url_of(other)}.",
    )


def _find(job: Job) -> LoadTest:
    return LoadTest.objects.select_related(
        "version__model", "version__onnx", "version__config", "version__sample", "environment",
        "requested_by",
    ).get(pk=job.arguments["load_test"])  # fmt: skip


def _publish(load_test: LoadTest) -> None:
    data = {"id": str(load_test.pk), "passed": load_test.passed}
    live.publish(topic_of(load_test.version), "load_test.changed", data)
