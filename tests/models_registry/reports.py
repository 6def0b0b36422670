"""A version with a full validation report, as the programs write it, for pages."""

from __future__ import annotations

from typing import Any

from models_registry.models import ModelVersion, RegisteredModel
from tests import factories

ERRORS = [0.0] * 40 + [3e-8] * 50 + [2e-7] * 9 + [1.2e-6]


def check(name: str, verdict: str = "passed", **values: Any) -> dict[str, Any]:
    """One line of the report."""
    line = {"id": name, "title": name.replace("_", " "), "group": "Behaviour", "verdict": verdict}
    empty = {"measured": None, "limit": None, "unit": "", "detail": "", "fix": ""}
    return {**line, **empty, **values}


def report_of(verdict: str = "passed", *lines: dict[str, Any]) -> dict[str, Any]:
    """A report with these lines; 100 comparisons of one output."""
    return {
        "verdict": verdict,
        "checks": list(lines) or [check("onnx_checker", group="Format")],
        "equivalence": {
            "compared_with": "PyTorch on the CPU",
            "samples": 100,
            "seed": 0,
            "atol": 1e-5,
            "rtol": 1e-4,
            "batches": [1, 2, 8],
            "outputs": [
                {
                    "name": "risk_score",
                    "dtype": "FP32",
                    "verdict": "passed",
                    "max_abs": 1.2e-6,
                    "max_rel": 4e-6,
                    "mean_abs": 4e-8,
                    "p99_abs": 2e-7,
                    "errors": ERRORS,
                    "worst": {"sample": 99, "seed": [0, 99], "sizes": {"batch": 8}},
                }
            ],
        },
        "latency": [
            {"batch": 1, "mean_ms": 0.5, "p50_ms": 0.4, "p95_ms": 0.8, "p99_ms": 0.9, "runs": 50},
            {"batch": 8, "mean_ms": 2.5, "p50_ms": 2.4, "p95_ms": 3.1, "p99_ms": 4.2, "runs": 50},
        ],
        "environment": {"torch": "2.13.0", "onnx": "1.23.2", "onnxruntime": "1.32.0"},
        "seconds": 12.5,
    }


def reported(
    model: RegisteredModel | None = None, report: dict[str, Any] | None = None
) -> ModelVersion:
    """A validated version with a full report and the origins of its configuration."""
    version = factories.make_version(model)
    version.report = report or report_of()
    version.config_origins = {
        "queue_delay_us": {"value": 300, "origin": "measured", "reason": "0.6 × 0.5 ms."},
        "max_batch_size": {"value": 16, "origin": "set_by_user", "reason": "Set for this version."},
        "max_queue_size": {"value": 0, "origin": "default", "reason": "Off."},
    }
    version.save()
    return version
