"""The load test job: against a version that is ready, through the gateway that its callers use."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.actors import Actor
from console.errors import Conflict
from console.models import Job
from console.services.job_runs import JobRun
from deployments.adapters import load_generator
from deployments.adapters.load_generator import LoadPlan, LoadRun
from deployments.models import Endpoint, EndpointMode, GatewayListener
from deployments.selectors.access.rules import access_rules
from deployments.selectors.fleet.readiness import ready_versions
from deployments.services.trials.load_reports import html_report
from models_registry.models import Environment, LoadTest, ModelVersion
from models_registry.rules import load_measurements
from models_registry.rules.load_measurements import Tally
from models_registry.rules.load_payloads import Payload, payloads
from models_registry.rules.load_tests import Limits, profile
from models_registry.services import artifacts
from models_registry.services.load_tests import (
    begin_load_test,
    record_result,
    request_load_test,
)

# Above every time-out that a gateway keeps for a contract of ours but the longest.
TIMEOUT_S = 10.0
PROBE_S, PROBE_EVERY_S = 5.0, 0.25
NOT_YET = (0, 404, 503)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a version is called: the gateway by name, and the listener's address."""

    gateway: str
    url: str


def ask_for_load_test(
    *,
    version: ModelVersion,
    environment: Environment,
    pattern: str,
    rate: int,
    seconds: int,
    actor: Actor,
) -> tuple[LoadTest, Job]:
    """Ask for a load test of a version that is ready in the environment.

    Raises what `request_load_test` and `find_target` raise; then nothing is written.
    """
    with transaction.atomic():
        load_test, job = request_load_test(
            version=version,
            environment=environment,
            pattern=pattern,
            rate=rate,
            seconds=seconds,
            actor=actor,
        )
        find_target(version, environment)
    return load_test, job


def find_target(version: ModelVersion, environment: Environment) -> Target:
    """The gateway listener of the environment, when the version can be called there by number.

    Raises Conflict: `version_not_ready`, `endpoint_not_normal`, `access_policy`, `no_gateway`.
    """
    endpoint = (
        Endpoint.objects.filter(model_id=version.model_id, environment=environment)
        .select_related("current", "access_policy")
        .first()
    )
    if endpoint is None or version.number not in ready_versions(endpoint):
        raise Conflict(
            f"{version} is ready on no node of {environment.name}.",
            code="version_not_ready",
            hint=f"Ask for its release to {environment.name} and deploy it there first.",
        )
    split = endpoint.current
    if split is None or split.mode != EndpointMode.NORMAL or not any(split.weights.values()):
        mode = "has no traffic split" if split is None else f"is in the mode “{split.mode}”"
        raise Conflict(
            f"The endpoint {endpoint} {mode}, so its versions cannot be called by number.",
            code="endpoint_not_normal",
            hint="Put it back into the mode “normal” with some version in traffic.",
        )
    if not access_rules(endpoint).lets_strangers_in:
        raise Conflict(
            f"The access policy of {endpoint} lets in only callers that it knows.",
            code="access_policy",
            hint="Run the load test in an environment whose policy asks nobody who he is.",
        )
    listener = (
        GatewayListener.objects.filter(environment=environment)
        .select_related("gateway")
        .order_by("-gateway__connected", "gateway__name")
        .first()
    )
    if listener is None:
        raise Conflict(
            f"No gateway listens for {environment.name}.",
            code="no_gateway",
            hint="Register a gateway with a listener for it, then try again.",
        )
    return Target(listener.gateway.name, listener.public_url.rstrip("/"))


def run_load_test(run: JobRun) -> dict[str, Any]:
    """Send the load of `job.arguments["load_test"]`, and keep what was measured with its verdict.

    A verdict of “failed” is a result, not a failure of the job. Raises Conflict when the version
    cannot be called (any more), Unavailable when the load generator does not do its part.
    """
    load_test = begin_load_test(run)
    version, environment = load_test.version, load_test.environment
    target = find_target(version, environment)
    sent = _payloads(load_test)
    plan = _plan(load_test, target, sent)
    run.log(
        f"{sum(plan.rates)} requests to {plan.host}{plan.path}, at most {max(plan.rates)}/s, by "
        f"{plan.callers} callers. They count as calls of {environment.name}/{version.model.name}."
    )
    run.progress(0.01, "Trying one request")
    _probe(run, plan, load_test)
    run.progress(0.02, "Starting the load generator")
    started = timezone.now()
    tally = Tally(plan.rates)
    made = load_generator.generate(
        plan,
        on_answers=tally.add,
        on_fault=tally.add_fault,
        on_time=lambda at: _tell(run, tally, at),
        check=run.check,
    )
    run.progress(0.96, "Writing the report")
    if made.counted != tally.answered:
        run.log(
            f"The tool counted {made.counted} requests, and {tally.answered} were measured.",
            level="warning",
        )
    report = _report(load_test, target, plan, sent, tally, made)
    report["started_at"] = started.isoformat(timespec="seconds")
    report["ended_at"] = timezone.now().isoformat(timespec="seconds")
    html = artifacts.store_bytes(html_report(report).encode(), "text/html")
    record_result(run, report=report, html=html)
    run.log(report["sentence"], level="info" if report["passed"] else "warning")
    return {
        "load_test": str(load_test.pk),
        "passed": report["passed"],
        "sentence": report["sentence"],
        "requests": report["requests"],
        "p95_ms": report["latency_ms"]["p95"],
        "success": report["success"],
    }


def _payloads(load_test: LoadTest) -> tuple[Payload, ...]:
    version = load_test.version
    if version.sample is None:
        raise Conflict(f"{version} has no recorded sample that could be sent.", code="no_sample")
    sample = json.loads(artifacts.read_bytes(version.sample))
    origins: Mapping[str, Any] = version.config_origins.get("max_batch_size") or {}
    most = origins.get("value")
    return payloads(
        sample,
        pattern=load_test.pattern,
        max_batch=most if isinstance(most, int) else 0,
    )


def _plan(load_test: LoadTest, target: Target, sent: tuple[Payload, ...]) -> LoadPlan:
    version = load_test.version
    short = load_test.pk.hex[:12]
    return LoadPlan(
        host=target.url,
        path=f"/v2/models/{version.model.name}/versions/{version.number}/infer",
        headers={
            "Content-Type": "application/json",
            "User-Agent": f"covenant-load-test/1 ({short})",
        },
        bodies=[one.body for one in sent],
        weights=[one.weight for one in sent],
        rates=profile(load_test.pattern, load_test.rate, load_test.seconds),
        version=str(version.number),
        request_id=f"load-test-{short}",
        timeout_s=TIMEOUT_S,
    )


def _probe(run: JobRun, plan: LoadPlan, load_test: LoadTest) -> None:
    """One request before the load; a gateway that has just been told of the version gets 5 s."""
    deadline = time.monotonic() + PROBE_S
    while True:
        answer = load_generator.probe(plan)
        if 200 <= answer.status < 300 and answer.version == plan.version:
            return
        if answer.status not in NOT_YET or time.monotonic() > deadline:
            break
        run.check()
        time.sleep(PROBE_EVERY_S)
    said = f"answered {answer.status}" if answer.status else "did not answer"
    if 200 <= answer.status < 300:
        said = f"was answered by version {answer.version or 'unknown'} instead"
    raise Conflict(
        f"The first request to {load_test.version} in {load_test.environment.name} {said}: "
        f"{answer.words}",
        code="probe_failed",
        hint="See the endpoint's page for what is wrong; a 4xx means that the recorded sample does "
        "not fit the model.",
    )


def _tell(run: JobRun, tally: Tally, at: float) -> None:
    """How the second that has just gone by went."""
    whole = len(tally.rates)
    second = min(int(at), whole) - 1
    if second < 0:
        return
    answers, failed, p95 = tally.recent(second)
    speed = "no answer yet" if p95 is None else f"p95 {p95:.1f} ms"
    step = f"Second {second + 1} of {whole}: {answers} requests/s, {speed}, {failed} failed"
    run.progress(0.02 + 0.94 * min(at / whole, 1.0), step)


def _report(
    load_test: LoadTest,
    target: Target,
    plan: LoadPlan,
    sent: tuple[Payload, ...],
    tally: Tally,
    made: LoadRun,
) -> dict[str, Any]:
    version = load_test.version
    limits = Limits(load_test.limit_p95_ms, load_test.limit_success)
    figures = load_measurements.report(tally, limits, batches=[one.batch for one in sent])
    return {
        "format": "covenant/load-test-v1",
        "load_test": str(load_test.pk),
        "model": version.model.name,
        "version": version.number,
        "environment": load_test.environment.name,
        "pattern": load_test.pattern,
        "rate": load_test.rate,
        "duration_s": load_test.seconds,
        "requested_by": load_test.requested_by.username,
        "digests": {
            "onnx": version.onnx.sha256 if version.onnx else "",
            "config": version.config.sha256 if version.config else "",
        },
        "target": {"gateway": target.gateway, "url": plan.host + plan.path},
        "request_id": plan.request_id,
        "generator": {
            "tool": made.tool,
            "callers": made.callers,
            "counted": made.counted,
            "probes": 1,
            "cpu_s": made.cpu_s,
        },
        **figures,
    }
