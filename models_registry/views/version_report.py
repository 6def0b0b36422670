"""A version's validation report as a person reads it: the verdict, what to mend, what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, gettext_lazy, ngettext

from console.errors import CovenantError
from console.templatetags.console_formats import percentage
from models_registry.models import ModelVersion, VersionState
from models_registry.views.graph_svg import drawing
from models_registry.views.version_words import check_line, flop_text, small, verdict_of

# Checks of what a contract promises: where the promise is wrong, another contract mends them.
_PROMISES = ("interface_", "output_range", "output_sums", "latency.", "equivalence.", "contract_")
_ORIGINS = {
    "ranges": gettext_lazy("drawn from the ranges"),
    "recorded": gettext_lazy("recorded"),
    "varied": gettext_lazy("near a recorded one"),
}
_REPLAY = """\
import json, numpy, onnxruntime

replay = json.load(open("{replay}"))
session = onnxruntime.InferenceSession("{onnx}")
special = {{"NaN": numpy.nan, "Infinity": numpy.inf, "-Infinity": -numpy.inf}}
types = {{"FP16": "f2", "FP32": "f4", "FP64": "f8", "BOOL": "?", "BYTES": "O"}}

def tensor(one):
    kind = types.get(one["datatype"], one["datatype"].lower())
    data = [special.get(v, v) if kind[0] == "f" else v for v in one["data"]]
    return numpy.array(data, kind).reshape(one["shape"])

for case in replay["cases"]:
    inputs = {{one["name"]: tensor(one) for one in case["request"]["inputs"]}}
    used = {{one.name: inputs[one.name] for one in session.get_inputs()}}
    answers = session.run([one["name"] for one in case["request"]["outputs"]], used)
    for expected, answer in zip(case["expected"]["outputs"], answers):
        print(case["sample"], expected["name"], "source:", tensor(expected), "ONNX:", answer)
"""
_CURL = (
    "jq -c '.cases[0].request' {replay} | curl -s -H 'Content-Type: application/json' -d @- "
    "http://NODE:8000/v2/models/MODEL/infer"
)


def report_context(version: ModelVersion, stopped: CovenantError | None) -> dict[str, Any]:
    """What the version's page shows of its report; `stopped` is why its last job ended."""
    report = version.report or {}
    lines = [check_line(one) for one in report.get("checks", ())]
    by_verdict = {
        verdict: [line for line in lines if line["verdict"] == verdict]
        for verdict in ("failed", "warning")
    }
    return {
        "verdict": verdict_of(version),
        "sentence": _sentence(report),
        "failed": by_verdict["failed"],
        "warned": by_verdict["warning"],
        "folded": _folded(lines),
        "outputs": _outputs(report),
        "latency": _latency(report, version),
        "work": _work(report),
        "picture": drawing(report.get("graph")),
        "replay": _replay(version),
        **_lead(version, by_verdict["failed"], stopped),
    }


def _lead(
    version: ModelVersion, failed: list[dict[str, Any]], stopped: CovenantError | None
) -> dict[str, Any]:
    """What a rejected version's page begins with."""
    if version.state != VersionState.REJECTED:
        return {"lead": None}
    if failed:
        title = ngettext(
            "It cannot serve yet: one check failed",
            "It cannot serve yet: %(n)s checks failed",
            len(failed),
        ) % {"n": len(failed)}
        where = gettext("Validation ran the exported model beside its source.")
    elif version.onnx is None:
        title = gettext("It could not be exported to ONNX")
        where = gettext("The export stopped in the sandbox; nothing of it was kept.")
    else:
        title = gettext("It could not be validated")
        where = gettext("The validation stopped in the sandbox.")
    message = stopped.message if stopped is not None else ""
    return {
        "lead": {
            "title": title,
            "where": where,
            # Without a report the job's refusal is all there is to say.
            "message": "" if failed else message or version.rejection,
            "hint": "" if failed or stopped is None else stopped.hint,
            "code": "" if failed or stopped is None else stopped.code,
            "job": version.validate_job or version.export_job,
            "is_promise": any(line["id"].startswith(_PROMISES) for line in failed),
        }
    }


def _sentence(report: Mapping[str, Any]) -> str:
    """The report in one sentence: how near, on how many inputs, how fast."""
    outputs = report.get("equivalence", {}).get("outputs", ())
    if not outputs:
        return ""
    count = max(len(one.get("errors", ())) for one in outputs)
    single = next((row for row in report.get("latency", ()) if row.get("batch") in (1, None)), None)
    values = {
        "count": count,
        "error": small(max((one.get("max_abs") or 0 for one in outputs), key=_number)),
        "p95": small(single["p95_ms"]) if single else "—",
    }
    return (
        gettext(
            "On %(count)s inputs its answers are at most %(error)s away from the source’s; 95 %% "
            "of single requests take at most %(p95)s ms."
        )
        % values
    )


def _number(value: object) -> float:
    """NaN and infinities are words in a report, and beyond every number."""
    return float(value) if isinstance(value, int | float) else float("inf")


def _folded(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What passed or was only told, by group."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if line["verdict"] in ("passed", "skipped"):
            groups.setdefault(line["group"], []).append(line)
    return [
        {
            "title": group,
            "lines": found,
            "passed": sum(line["verdict"] == "passed" for line in found),
            "told": sum(line["verdict"] != "passed" for line in found),
        }
        for group, found in groups.items()
    ]


def _outputs(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    equivalence = report.get("equivalence", {})
    return [
        {
            "name": one["name"],
            "index": index,
            "samples": len(one.get("errors", ())) or equivalence.get("samples"),
            "against": equivalence.get("compared_with", ""),
            **{
                name: small(one.get(name))
                for name in ("max_abs", "mean_abs", "p50_abs", "p95_abs", "p99_abs", "max_rel")
            },
            "atol": small(one.get("atol", equivalence.get("atol"))),
            "rtol": small(one.get("rtol", equivalence.get("rtol"))),
            "tolerance": equivalence.get("tolerance", ""),
            "verdict": one.get("verdict", ""),
            "worst": _worst(one.get("worst", {})),
        }
        for index, one in enumerate(equivalence.get("outputs", ()))
    ]


def _worst(worst: Mapping[str, Any]) -> dict[str, Any]:
    index = worst.get("index")
    return {
        **worst,
        "origin_words": _ORIGINS.get(worst.get("origin", ""), ""),
        "place": "[" + ", ".join(map(str, index)) + "]" if index else "",
        "expected_text": small(worst.get("expected")),
        "answered_text": small(worst.get("answered")),
    }


def _latency(report: Mapping[str, Any], version: ModelVersion) -> dict[str, Any] | None:
    """The rows with the largest batch of the configuration marked, and why it is that one."""
    rows = report.get("latency", ())
    if not rows:
        return None
    setting = version.config_origins.get("max_batch_size", {})
    delay = version.config_origins.get("queue_delay_us", {})
    most = max((row.get("rows_per_second") or 0 for row in rows), default=0)
    return {
        "rows": [
            {
                **row,
                "chosen": row.get("batch") == setting.get("value"),
                "share": round(100 * (row.get("rows_per_second") or 0) / most) if most else 0,
            }
            for row in rows
        ],
        "has_memory": any("peak_bytes" in row for row in rows),
        "limit": next(
            (one.get("limit") for one in report.get("checks", ()) if one["id"] == "latency.1"), None
        ),
        "batch_reason": setting.get("reason", ""),
        "delay_reason": delay.get("reason", ""),
        "batch": setting.get("value"),
    }


def _work(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arithmetic of one inference, by operator, and what was not counted."""
    model = report.get("model", {})
    if "flops" not in model:
        return None
    total = model["flops"]
    # Postgres keeps no order of its own in JSON.
    kinds = sorted(model.get("flops_by_operator", {}).items(), key=lambda item: -item[1])[:6]
    return {
        "total": flop_text(total),
        "by_operator": [
            {"name": name, "share": percentage(100 * count / total, 1)}
            for name, count in kinds
            if total
        ],
        "left_out": ", ".join(
            f"{name} ×{count}" if count > 1 else name
            for name, count in model.get("flops_left_out", {}).items()
        ),
    }


def _replay(version: ModelVersion) -> dict[str, Any] | None:
    if version.replay is None:
        return None
    stem = f"{version.model.name}-v{version.number}"
    names = {"replay": f"{stem}-replay.json", "onnx": f"{stem}-model.onnx"}
    return {
        "python": _REPLAY.format(**names),
        "curl": _CURL.format(**names),
        "size": version.replay.size,
    }
