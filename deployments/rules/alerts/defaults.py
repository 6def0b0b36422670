"""The rules that the product comes with: what this field watches, each with why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from deployments.rules.alerts.documents import parse_rule, rule_json
from models_registry.rules.contract_terms import gettext_noop as _


@dataclass(frozen=True, slots=True)
class DefaultRule:
    """A built-in rule: its title is a phrase that is translated where it is shown."""

    name: str
    title: str
    severity: str
    document: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The document with every field said."""
        return rule_json(parse_rule(self.document))


def _one(signal: str, op: str, threshold: float, **more: Any) -> dict[str, Any]:
    return {"signal": signal, "op": op, "threshold": threshold, **more}


REQUESTS: Final = (
    DefaultRule(
        "success-rate",
        _("Too few requests succeed"),
        "P1",
        {
            "conditions": [_one("success_rate_percent", "<", 99.9)],
            "window_s": 300,
            "for_s": 60,
            "keep_firing_s": 180,
            # One failure of a few requests is no outage; the burn rates watch quiet endpoints.
            "min_requests": 100,
            "min_faults": 5,
            "runbook": "alert_success_rate",
        },
    ),
    DefaultRule(
        "requests-stopped",
        _("Requests have all but stopped"),
        "P2",
        {
            "conditions": [_one("requests_of_usual_percent", "<", 5)],
            "window_s": 300,
            "for_s": 120,
            "min_requests": 600,
            "runbook": "alert_requests_stopped",
        },
    ),
    DefaultRule(
        "no-data",
        _("Nothing is measured of the endpoint"),
        "P2",
        {
            "conditions": [_one("no_data_seconds", ">", 60)],
            "for_s": 30,
            "keep_firing_s": 30,
            "runbook": "alert_no_data",
        },
    ),
)

TRITON: Final = (
    DefaultRule(
        "queue-p95",
        _("Requests wait too long in the model’s queue"),
        "P2",
        {
            "conditions": [_one("queue_p95_ms", ">", 100, aggregate="max")],
            "window_s": 60,
            "for_s": 120,
            "runbook": "alert_queue_p95",
        },
    ),
    DefaultRule(
        "execution-p95",
        _("The model takes too long to compute"),
        "P2",
        {
            "conditions": [_one("compute_p95_ms", ">", 50, aggregate="max")],
            "window_s": 60,
            "for_s": 120,
            "runbook": "alert_execution_p95",
        },
    ),
)

MODEL: Final = (
    DefaultRule(
        "output-entropy",
        _("The model is unsure of its answers"),
        "P2",
        {
            "conditions": [_one("model_output_entropy", ">", 0.5, own_limit=True)],
            "window_s": 120,
            "for_s": 300,
            "keep_firing_s": 300,
            "runbook": "alert_output_entropy",
        },
    ),
    DefaultRule(
        "feature-drift",
        _("Requests are no longer like the training data"),
        "P2",
        {
            "conditions": [
                _one("feature_drift_score", ">", 0.3, own_limit=True, label="", aggregate="newest")
            ],
            "window_s": 900,
            "for_s": 300,
            "keep_firing_s": 600,
            "runbook": "alert_feature_drift",
        },
    ),
)

MACHINES: Final = (
    DefaultRule(
        "nvlink-and-heat",
        _("NVLink is busy and the GPU is hot"),
        "P2",
        {
            "conditions": [
                _one("gpu_nvlink_utilization_percent", ">", 80),
                _one("gpu_temperature_celsius", ">", 70),
            ],
            "window_s": 60,
            "for_s": 120,
            "runbook": "alert_nvlink_and_heat",
        },
    ),
    DefaultRule(
        "gpu-memory-grows",
        _("GPU memory only grows"),
        "P2",
        {
            "conditions": [_one("gpu_memory_growth_bytes_per_hour", ">", 0)],
            "keep_firing_s": 900,
            "runbook": "alert_gpu_memory_grows",
        },
    ),
    DefaultRule(
        "node-lost",
        _("The node does not answer"),
        "P2",
        {
            "conditions": [_one("node_lost", ">", 0)],
            "for_s": 15,
            "keep_firing_s": 30,
            "runbook": "alert_node_lost",
        },
    ),
)

BURNS: Final = (
    DefaultRule(
        "fast-burn",
        _("The error budget burns fast"),
        "P1",
        {
            "conditions": [_one("fast_burn", ">=", 14.4, own_limit=True)],
            "runbook": "alert_burn_rate",
        },
    ),
    DefaultRule(
        "slow-burn",
        _("The error budget burns steadily"),
        "P2",
        {
            "conditions": [_one("slow_burn", ">=", 6, own_limit=True)],
            "keep_firing_s": 300,
            "runbook": "alert_burn_rate",
        },
    ),
    DefaultRule(
        "budget-ends",
        _("The error budget will not last"),
        "P3",
        {
            "conditions": [_one("steady_burn", ">=", 1, own_limit=True)],
            "keep_firing_s": 1800,
            "runbook": "alert_burn_rate",
        },
    ),
)

TRUST: Final = (
    DefaultRule(
        "unverified-artifact",
        _("What is live is not what was signed"),
        "P1",
        {
            "conditions": [_one("artifact_faults", ">", 0)],
            "keep_firing_s": 0,
            "runbook": "alert_unverified_artifact",
        },
    ),
    DefaultRule(
        "split-unacknowledged",
        _("A gateway does not act on the newest split"),
        "P2",
        {
            "conditions": [_one("split_unacknowledged_seconds", ">", 30)],
            "keep_firing_s": 0,
            "runbook": "alert_split_unacknowledged",
        },
    ),
    DefaultRule(
        "gateway-away",
        _("The gateway is not connected"),
        "P2",
        {
            "conditions": [_one("gateway_away", ">", 0)],
            "for_s": 60,
            "keep_firing_s": 0,
            "runbook": "alert_gateway_away",
        },
    ),
    DefaultRule(
        "certificate-ends",
        _("A certificate is about to end"),
        "P2",
        {
            "conditions": [_one("certificate_days_left", "<", 7)],
            "keep_firing_s": 0,
            "runbook": "alert_certificate_ends",
        },
    ),
    DefaultRule(
        "collector-silent",
        _("Nothing is counted any more"),
        "P1",
        {
            "conditions": [_one("collector_silent_seconds", ">", 60)],
            "for_s": 30,
            "keep_firing_s": 30,
            "runbook": "alert_collector_silent",
        },
    ),
)

DEFAULT_RULES: Final = (*REQUESTS, *TRITON, *MODEL, *MACHINES, *BURNS, *TRUST)
BY_NAME: Final = {one.name: one for one in DEFAULT_RULES}
