"""A load test's report for people: one HTML file that needs nothing else, to keep and to send."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import override

from console.env import ROOT
from deployments.rules.trials.load_charts import drawing

TEMPLATE = "deployments/load_tests/report.html"
# Beside the template: it goes into the file and is never served.
STYLE = ROOT / "templates" / "deployments" / "load_tests" / "report.css"


def html_report(report: dict[str, Any]) -> str:
    """The report as a document in English, as everything that is stored; its style is inside."""
    context = {
        "report": report,
        "style": _style(),
        "rate": drawing(report, "rate"),
        "latency": drawing(report, "latency"),
        "percentiles": [
            (name, report["latency_ms"][key])
            for name, key in (
                ("p50", "p50"),
                ("p95", "p95"),
                ("p99", "p99"),
                ("p99.9", "p99_9"),
                ("maximum", "max"),
            )
        ],
    }
    with override("en"):
        return render_to_string(TEMPLATE, context)


@cache
def _style() -> str:
    """The style sheet as a data: address."""
    encoded = base64.b64encode(STYLE.read_bytes()).decode("ascii")
    return f"data:text/css;base64,{encoded}"
