"""The generated rules as Prometheus' own tool reads them, and what they do with numbers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from rest_framework.test import APIClient

from deployments.models import Endpoint
from deployments.rules.objectives.prometheus_rules import PromisedEndpoint, rule_file
from deployments.rules.objectives.slo import Objective
from deployments.rules.statistics.exported import families
from deployments.selectors.objectives.exports import prometheus_rules
from models_registry.models import RegisteredModel, Visibility
from tests import factories

AVAILABILITY = Objective("availability", 99.9, 30)
LATENCY = Objective("latency", 99.0, 28, threshold_ms=80.0)
PLACE = {"environment": "production", "model": "fraud_detector"}
PROMISED = PromisedEndpoint("production", "fraud_detector", 3, (AVAILABILITY, LATENCY))
RULES = rule_file([PROMISED], "https://covenant.example.com/")
LABELS = 'environment="production",model="fraud_detector",version="3"'
REQUESTS = "covenant_endpoint_requests_total"
BUCKET = "covenant_endpoint_latency_seconds_bucket"
COUNT = "covenant_endpoint_latency_seconds_count"

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool of the Debian package prometheus"
)


def promtool(*words: str, folder: Path) -> str:
    done = subprocess.run(
        ["promtool", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    return tmp_path


def counted(name: str, each: float, more: str = "", samples: int = 2200) -> dict[str, str]:
    """A counter that grows evenly by `each` sample, as `promtool` writes it."""
    return {"series": f"{name}{{{LABELS}{more}}}", "values": f"0+{each:g}x{samples}"}


def traffic(good: float, provider: float, *, caller: float = 0) -> list[dict[str, str]]:
    return [
        counted(REQUESTS, good, ',meaning="good"'),
        counted(REQUESTS, provider, ',meaning="provider"'),
        counted(REQUESTS, caller, ',meaning="caller"'),
    ]


def run(folder: Path, *tests: dict[str, Any], every: str = "6h") -> None:
    """Three days in samples of two minutes, judged each six hours."""
    for test in tests:
        test.setdefault("interval", "2m")
    body = {"rule_files": ["rules.yaml"], "evaluation_interval": every, "tests": list(tests)}
    (folder / "test.yaml").write_text(yaml.safe_dump(body))
    assert "SUCCESS" in promtool("test", "rules", "test.yaml", folder=folder)


def alert(severity: str, long: str, short: str, objective: str, times: str, share: str) -> Any:
    budget = "0.001" if objective == "availability" else "0.01"
    return {
        "exp_labels": {
            **PLACE,
            "objective": objective,
            "severity": severity,
            "long_window": long,
            "short_window": short,
        },
        "exp_annotations": {
            "summary": f"production/fraud_detector burns its error budget of {objective}",
            "description": (
                f"Over {long} and over {short} it is spent more than {times} times too fast; "
                f"over the longer one {share} of the valid requests were bad, {budget} may be."
            ),
            "dashboard_url": (
                "https://covenant.example.com/endpoints/production/fraud_detector/objectives/"
            ),
        },
    }


def fired(at: str, *alerts: Any, name: str = "CovenantErrorBudgetBurn") -> dict[str, Any]:
    return {"eval_time": at, "alertname": name, "exp_alerts": list(alerts)}


def test_promtool_finds_no_fault_in_the_rules(folder: Path) -> None:
    # Twelve windows' rates, six increases, two targets, six burn alerts and the blind one.
    assert "SUCCESS: 25 rules found" in promtool("check", "rules", "rules.yaml", folder=folder)


def test_every_metric_that_the_rules_ask_for_is_told() -> None:
    told = set(families())
    text = yaml.safe_dump(RULES)
    for name in (
        "covenant_endpoint_requests",
        "covenant_endpoint_latency_seconds",
        "covenant_endpoint_maintenance",
    ):
        assert name in told
        assert name in text


def test_two_percent_bad_pages_at_once_and_then_by_each_pair(folder: Path) -> None:
    all_three = (
        alert("P1", "1h", "5m", "availability", "14.4", "2%"),
        alert("P2", "6h", "30m", "availability", "6", "2%"),
        alert("P3", "3d", "6h", "availability", "1", "2%"),
    )
    run(
        folder,
        {"input_series": traffic(980, 20), "alert_rule_test": [fired("72h", *all_three)]},
    )


def test_half_of_the_allowed_is_quiet_and_callers_own_faults_count_for_nobody(
    folder: Path,
) -> None:
    quiet = [fired("72h")]
    run(
        folder,
        {"input_series": traffic(9995, 5), "alert_rule_test": quiet},
        {"input_series": traffic(1000, 0, caller=5000), "alert_rule_test": quiet},
    )


def test_a_slow_burn_makes_a_ticket_and_pages_nobody(folder: Path) -> None:
    ticket = alert("P3", "3d", "6h", "availability", "1", "0.2%")
    run(
        folder,
        {"input_series": traffic(9980, 20), "alert_rule_test": [fired("72h", ticket)]},
    )


def test_few_bad_requests_say_nothing_yet(folder: Path) -> None:
    # Two an hour, one of them bad: five hundred times too fast, and two requests.
    run(
        folder,
        {
            "interval": "30m",
            "input_series": [
                counted(REQUESTS, 1, ',meaning="good"', 8),
                counted(REQUESTS, 1, ',meaning="provider"', 8),
            ],
            "alert_rule_test": [fired("90m")],
        },
        every="30m",
    )


def test_agreed_maintenance_is_quiet(folder: Path) -> None:
    under = {
        "series": 'covenant_endpoint_maintenance{environment="production",model="fraud_detector"}',
        "values": "1x2200",
    }
    run(
        folder,
        {"input_series": [*traffic(980, 20), under], "alert_rule_test": [fired("72h")]},
    )


def test_latency_burns_by_the_answers_beyond_the_bound(folder: Path) -> None:
    # 28 days: 13.44 and 5.6 times one percent; 20 % late is 20 times too fast.
    series = [counted(BUCKET, 800, ',le="0.08"'), counted(COUNT, 1000)]
    run(
        folder,
        {
            "input_series": series,
            "alert_rule_test": [
                fired(
                    "72h",
                    alert("P1", "1h", "5m", "latency", "13.44", "20%"),
                    alert("P2", "6h", "30m", "latency", "5.6", "20%"),
                    alert("P3", "3d", "6h", "latency", "1", "20%"),
                ),
                fired("72h", name="CovenantObjectiveBlind"),
            ],
        },
    )


def test_without_its_bound_a_latency_objective_says_that_it_is_blind(folder: Path) -> None:
    blind = {
        "exp_labels": {**PLACE, "objective": "latency", "severity": "P3"},
        "exp_annotations": {
            "summary": "Nothing says whether production/fraud_detector keeps its latency",
            "description": "Answers come, but /metrics has no bound of 80 ms.",
        },
    }
    series = [counted(BUCKET, 800, ',le="0.1"', 60), counted(COUNT, 1000, samples=60)]
    run(
        folder,
        {
            "input_series": series,
            "alert_rule_test": [
                fired("50m", blind, name="CovenantObjectiveBlind"),
                fired("50m"),
            ],
        },
        every="10m",
    )


@pytest.mark.django_db
def test_the_file_holds_what_the_reader_may_see(tmp_path: Path) -> None:
    people, environment = factories.people(), factories.make_environment()
    for name in ("fraud_detector", "hidden_model"):
        model = factories.make_model(name)
        factories.make_contract(model)
        Endpoint.objects.create(model=model, environment=environment)
    RegisteredModel.objects.filter(name="hidden_model").update(
        visibility=Visibility.TEAM, owner=people.ada
    )
    stranger = factories.make_user("stranger")
    text = prometheus_rules(user=stranger)
    assert "fraud_detector" in text
    assert "hidden_model" not in text
    (tmp_path / "rules.yaml").write_text(text)
    promtool("check", "rules", "rules.yaml", folder=tmp_path)
    client = APIClient()
    client.force_login(people.ada)
    answer = client.get("/api/v1/exports/prometheus-rules/?environment=production")
    assert answer["Content-Type"] == "application/yaml"
    groups = yaml.safe_load(answer.content)["groups"]
    assert [group["name"] for group in groups] == [
        "covenant-production-fraud_detector-contract-1",
        "covenant-production-hidden_model-contract-1",
    ]
    empty = client.get("/api/v1/exports/prometheus-rules/?environment=nowhere")
    assert yaml.safe_load(empty.content) == {"groups": []}
