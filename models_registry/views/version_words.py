"""What a version's page says of its report, its configuration and its difference to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.rules.json_changes import change_lines
from console.templatetags import console_formats as text
from models_registry.models import ModelVersion

VERDICTS = {
    "passed": (_("The exported model is the same model, and good enough"), "ok", "state-good"),
    "warning": (_("Validated, with warnings"), "warn", "state-warn"),
    "failed": (_("The exported model is not accepted"), "bad", "state-bad"),
}
ORIGINS = {
    "default": (_("default"), "neutral"),
    "measured": (_("measured"), "info"),
    "set_by_user": (_("set by hand"), "accent"),
}
SETTINGS = {
    "max_batch_size": _("Largest batch"),
    "preferred_batch_sizes": _("Preferred batch sizes"),
    "queue_delay_us": _("Longest wait for a batch"),
    "default_timeout_us": _("Queue time-out"),
    "max_queue_size": _("Longest queue"),
    "priority_levels": _("Priority levels"),
    "default_priority_level": _("Default priority level"),
    "instance_count": _("Copies on a node"),
    "response_cache": _("Response cache"),
    "warmup": _("Warm-up inputs"),
}
NO_LIMIT_AT_ZERO = frozenset(
    {"default_timeout_us", "max_queue_size", "priority_levels", "default_priority_level"}
)
FORMAT_WORDS = {
    "torchscript": "TorchScript",
    "torch_export": "torch.export",
    "torch_state_dict": _("State dict"),
    "torch_pickled_module": _("Pickled module"),
    "onnx": "ONNX",
    "onnx_archive": _("ONNX archive"),
    "safetensors": "Safetensors",
    "sklearn": "scikit-learn",
    "skops": _("scikit-learn (skops)"),
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "keras": "Keras",
}


def verdict_of(version: ModelVersion) -> dict[str, Any] | None:
    """The report's verdict with the counts of its checks; None while there is no report."""
    report = version.report
    if not report:
        return None
    title, tone, icon = VERDICTS.get(report.get("verdict", ""), ("", "neutral", "info"))
    counts: dict[str, int] = {}
    for check in report.get("checks", []):
        counts[check["verdict"]] = counts.get(check["verdict"], 0) + 1
    return {"title": title, "tone": tone, "icon": icon, "counts": counts, **_circumstances(report)}


def check_line(check: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the report with its figures as text."""
    unit = str(check.get("unit") or "")
    return {
        **check,
        "figure": figure(check.get("measured"), unit),
        "limit_text": figure(check.get("limit"), unit),
    }


def figure(value: object, unit: str = "") -> str:
    """A measured value or limit in few characters: 3.1e-7, 71 ms, 12.4 MiB; text as it is."""
    if value is None or value == "":
        return ""
    number = text.as_float(value)
    if number is None or isinstance(value, str):
        return str(value)
    if unit in ("bytes", "MiB"):
        return text.file_size(number * (1 << 20) if unit == "MiB" else number)
    return f"{small(number)}{text.NBSP}{unit}" if unit else small(number)


def small(value: object) -> str:
    """A number that may be tiny: 3.1e-7, 0.00042 as 4.2e-4, 12.4, 1,240."""
    number = text.as_float(value)
    if number is None:
        return str(value) if value is not None else text.NOTHING
    if number == 0 or 0.01 <= abs(number) < 1e6:
        return text.significant(number)
    mantissa, _, exponent = f"{number:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def compact(value: object) -> str:
    """A large count in three figures: 26.2 M, 8.22 G, 950; "—" where there is none."""
    number = text.as_float(value)
    if number is None:
        return text.NOTHING
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{text.significant(number / size)}{text.NBSP}{unit}"
    return text.significant(number)


def flop_text(value: object) -> str:
    """An amount of arithmetic: 8.22 GFLOP, 950 FLOP."""
    amount = compact(value)
    return f"{amount}FLOP" if text.NBSP in amount else f"{amount}{text.NBSP}FLOP"


def settings_rows(origins: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The configuration's values with their origin in words."""
    rows: list[dict[str, Any]] = []
    # Postgres keeps no order of its own in JSON.
    for name in (*(known for known in SETTINGS if known in origins), *origins):
        if any(row["name"] == name for row in rows):
            continue
        setting = origins[name]
        origin, tone = ORIGINS.get(str(setting.get("origin")), (setting.get("origin"), "neutral"))
        rows.append(
            {
                "name": name,
                "label": SETTINGS.get(name, name),
                "value": _setting(name, setting.get("value")),
                "origin": str(origin),
                "tone": tone,
                "reason": setting.get("reason", ""),
            }
        )
    return rows


def shape_text(spec: Mapping[str, Any]) -> str:
    """[batch, 10] of a tensor as it is stored."""
    shape = spec.get("shape") or []
    names = spec.get("dims") or [""] * len(shape)
    parts = (name or str(size) for size, name in zip(shape, names, strict=False))
    return "[" + ", ".join(parts) + "]"


def range_text(spec: Mapping[str, Any]) -> str:
    """The values a tensor may have; nothing where they are not limited."""
    low, high = spec.get("min"), spec.get("max")
    if low is not None and high is not None:
        return f"{small(low)} … {small(high)}"
    if low is not None:
        return f"≥ {small(low)}"
    return f"≤ {small(high)}" if high is not None else ""


def difference(before: ModelVersion, after: ModelVersion) -> list[dict[str, Any]]:
    """What differs between two versions, in sections of lines for components/diff.html."""
    old, new = _sections(before), _sections(after)
    return [{"title": title, "lines": change_lines(old[title], new[title])} for title in new]


def _sections(version: ModelVersion) -> dict[str, dict[str, Any]]:
    facts = version.facts or {}
    tensors = {
        side: {
            one["name"]: f"{one['dtype']} {shape_text(one)} {range_text(one)}".strip()
            for one in facts.get(side) or getattr(version, side)
        }
        for side in ("inputs", "outputs")
    }
    return {
        gettext("Model"): {
            "format": str(FORMAT_WORDS.get(version.source_format, version.source_format)),
            "kind": version.get_model_class_display(),
            "source": version.source.sha256[:12],
            "onnx": version.onnx.sha256[:12] if version.onnx else None,
            "weights": facts.get("data_sha256", "")[:12] or None,
            "opset": facts.get("opset", version.opset),
            "parameters": facts.get("parameters"),
            "size": text.file_size(facts["size_bytes"] + facts.get("data_size", 0))
            if "size_bytes" in facts
            else None,
            "operators": ", ".join(f"{k} ×{n}" for k, n in sorted(facts["operators"].items()))
            if "operators" in facts
            else None,
        },
        gettext("Interface"): tensors,
        gettext("Configuration"): {
            name: setting.get("value") for name, setting in version.config_origins.items()
        },
    }


def _circumstances(report: Mapping[str, Any]) -> dict[str, Any]:
    environment = report.get("environment", {})
    names = ("torch", "onnx", "onnxruntime")
    tools = [f"{name} {environment[name]}" for name in names if environment.get(name)]
    return {"tools": " · ".join(tools), "seconds": report.get("seconds")}


def _setting(name: str, value: object) -> str:
    if isinstance(value, bool):
        return gettext("on") if value else gettext("off")
    if isinstance(value, list):
        return ", ".join(map(str, value)) or gettext("none")
    if value == 0 and name in NO_LIMIT_AT_ZERO:
        return gettext("none")
    if name.endswith("_us") and isinstance(value, int):
        return f"{value}{text.NBSP}µs" if value < 1000 else text.latency(value / 1000)
    return str(value)
