"""Two validation reports side by side: check by check and figure by figure.

Effects are seen from the one who serves the model: *better*, *worse*, *neutral* (another value that
is neither, or a difference that two runs of one model have as well) or *same*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Effect = Literal["better", "worse", "neutral", "same"]
Report = Mapping[str, Any]

_RANK: Final = {"failed": 2, "warning": 1, "passed": 0, "skipped": 0}


def gettext_noop(message: str) -> str:
    """Marks `message` for the translators' catalogue (its name is what makemessages looks for)."""
    return message


@dataclass(frozen=True, slots=True)
class CheckChange:
    """One check of either report; a verdict is None where the report has no such check."""

    id: str
    title: str
    group: str
    before: str | None
    after: str | None
    before_measured: float | str | None
    after_measured: float | str | None
    unit: str
    detail: str
    fix: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class FigureChange:
    """One number of either report; `template` with `name` says what it is, `unit` in what."""

    figure: str
    template: str
    name: str
    unit: str
    before: float | str | None
    after: float | str | None
    effect: Effect

    @property
    def title(self) -> str:
        """What the figure is, in English."""
        return self.template % {"name": self.name} if self.name else self.template


@dataclass(frozen=True, slots=True)
class ReportDiff:
    """All checks and figures of both reports, those of the later one first."""

    before: str | None
    after: str | None
    effect: Effect
    checks: tuple[CheckChange, ...]
    figures: tuple[FigureChange, ...]

    def to_json(self) -> dict[str, Any]:
        """The form of the API."""
        return {
            "verdict": {"before": self.before, "after": self.after, "effect": self.effect},
            "checks": [asdict(check) for check in self.checks],
            "figures": [
                {
                    "figure": figure.figure,
                    "title": figure.title,
                    "unit": figure.unit,
                    "before": figure.before,
                    "after": figure.after,
                    "effect": figure.effect,
                }
                for figure in self.figures
            ],
        }


def diff(before: Report, after: Report) -> ReportDiff:
    """What changed from one report to the other; a missing report is {}."""
    old, new = before.get("verdict"), after.get("verdict")
    return ReportDiff(
        old, new, _by_verdict(old, new), tuple(_checks(before, after)), tuple(_all(before, after))
    )


def _checks(before: Report, after: Report) -> Iterator[CheckChange]:
    old = {check["id"]: check for check in before.get("checks", ())}
    new = {check["id"]: check for check in after.get("checks", ())}
    for name in (*new, *(one for one in old if one not in new)):
        was, now = old.get(name), new.get(name)
        shown = now or was or {}
        yield CheckChange(
            name,
            shown.get("title", name),
            shown.get("group", ""),
            was["verdict"] if was else None,
            now["verdict"] if now else None,
            was.get("measured") if was else None,
            now.get("measured") if now else None,
            shown.get("unit", ""),
            shown.get("detail", ""),
            shown.get("fix", ""),
            _by_verdict(was["verdict"] if was else None, now["verdict"] if now else None),
        )


def _by_verdict(before: str | None, after: str | None) -> Effect:
    if before == after:
        return "same"
    if before is None or after is None:
        return "neutral"
    worse = _RANK.get(after, 0) - _RANK.get(before, 0)
    return "worse" if worse > 0 else "better" if worse < 0 else "neutral"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A sort of figure: what a rise means, and by which factor two runs of one model differ."""

    template: str
    unit: str = ""
    rise: Effect = "worse"
    noise: float = 1.0


_ERRORS: Final = {
    "max_abs": _Kind(gettext_noop("Largest error of “%(name)s”"), noise=2.0),
    "p99_abs": _Kind(gettext_noop("99th percentile of the errors of “%(name)s”"), noise=2.0),
    "p95_abs": _Kind(gettext_noop("95th percentile of the errors of “%(name)s”"), noise=2.0),
    "p50_abs": _Kind(gettext_noop("Median error of “%(name)s”"), noise=2.0),
    "mean_abs": _Kind(gettext_noop("Mean error of “%(name)s”"), noise=2.0),
    "max_rel": _Kind(gettext_noop("Largest relative error of “%(name)s”"), noise=2.0),
    "different": _Kind(gettext_noop("Elements of “%(name)s” that differ"), noise=1.0),
    "atol": _Kind(gettext_noop("Absolute tolerance of “%(name)s”"), rise="neutral"),
}
# Two runs on a busy machine differ by a quarter without meaning anything.
_LATENCY: Final = {
    "p50_ms": _Kind(gettext_noop("P50 at batch %(name)s"), "ms", noise=1.25),
    "p95_ms": _Kind(gettext_noop("P95 at batch %(name)s"), "ms", noise=1.25),
    "rows_per_second": _Kind(
        gettext_noop("Throughput at batch %(name)s"), "rows/s", "better", noise=1.25
    ),
    "peak_bytes": _Kind(gettext_noop("Memory at batch %(name)s"), "bytes", noise=1.25),
}
_MODEL: Final = {
    "size_bytes": _Kind(gettext_noop("Size of the ONNX file"), "bytes"),
    "data_size": _Kind(gettext_noop("Size of its weights beside it"), "bytes"),
    "parameters": _Kind(gettext_noop("Parameters"), rise="neutral"),
    "operators": _Kind(gettext_noop("Operators"), rise="neutral"),
    "flops": _Kind(gettext_noop("Arithmetic of one inference"), "FLOP"),
    "opset": _Kind(gettext_noop("Opset"), rise="neutral"),
}
_OTHERS: Final = {
    "samples": _Kind(gettext_noop("Inputs drawn from the ranges"), rise="better"),
    "recorded": _Kind(gettext_noop("Recorded inputs"), rise="better"),
    "varied": _Kind(gettext_noop("Variations of recorded inputs"), rise="better"),
}


def _all(before: Report, after: Report) -> Iterator[FigureChange]:
    old, new = before.get("equivalence", {}), after.get("equivalence", {})
    yield from _group(
        _ERRORS, "equivalence", _named(old, "outputs", "name"), _named(new, "outputs", "name")
    )
    yield from _group(
        _LATENCY, "latency", _named(before, "latency", "batch"), _named(after, "latency", "batch")
    )
    yield from _group(
        {
            "peak_bytes": _Kind(
                gettext_noop("Greatest memory of the validation"), "bytes", noise=1.25
            )
        },
        "memory",
        {"": before.get("memory", {})},
        {"": after.get("memory", {})},
    )
    yield from _group(_MODEL, "model", {"": before.get("model", {})}, {"": after.get("model", {})})
    yield from _group(_OTHERS, "equivalence", {"": old}, {"": new})


def _named(report: Report, section: str, key: str) -> dict[str, Mapping[str, Any]]:
    return {str(row.get(key)): row for row in report.get(section, ())}


def _group(
    kinds: Mapping[str, _Kind],
    section: str,
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
) -> Iterator[FigureChange]:
    for name in (*after, *(one for one in before if one not in after)):
        for field, kind in kinds.items():
            old = before.get(name, {}).get(field)
            new = after.get(name, {}).get(field)
            if old is None and new is None:
                continue
            path = ".".join(part for part in (section, name, field) if part)
            yield FigureChange(path, kind.template, name, kind.unit, old, new, _by(kind, old, new))


def _by(kind: _Kind, before: object, after: object) -> Effect:
    if before == after:
        return "same"
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return "neutral"
    low, high = sorted((abs(float(before)), abs(float(after))))
    near = math.isfinite(high) and high <= low * kind.noise
    if near or kind.rise == "neutral":
        return "neutral"
    rose = after > before
    return kind.rise if rose else ("better" if kind.rise == "worse" else "worse")
