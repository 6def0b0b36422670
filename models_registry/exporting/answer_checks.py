"""The report's lines about answers: equal to the source's, finite, alive, in range."""

from __future__ import annotations

from collections.abc import Sequence

from models_registry.exporting.checks import BEHAVIOUR
from models_registry.exporting.comparing import Column
from models_registry.exporting.protocol import Check, TensorSpec
from models_registry.rules.equivalence import OutputDifference, Tolerance, percentile


def equivalence_check(
    index: int,
    found: OutputDifference,
    within: Tolerance,
    compared_with: str,
    *,
    same_file: bool,
) -> Check:
    """One output against the source framework."""
    verdict = found.verdict(same_file=same_file)
    exact = found.dtype not in {"FP16", "FP32", "FP64"}
    if exact:
        detail = (
            f"{found.different} elements differ from {compared_with} "
            f"over {len(found.errors)} samples; {found.tolerated} may."
        )
    else:
        detail = (
            f"Greatest absolute error {found.max_abs:.3g}, relative {found.max_rel:.3g}, "
            f"mean {found.mean_abs:.3g}, p50 {percentile(found.errors, 50):.3g}, p95 "
            f"{percentile(found.errors, 95):.3g}, p99 {percentile(found.errors, 99):.3g} over "
            f"{len(found.errors)} samples, against {compared_with}; allowed {within.atol:g} + "
            f"{within.rtol:g} x |value| ({within.source})."
        )
        if found.different:
            detail = (
                f"{found.different} elements are finite in one only, or shapes differ. {detail}"
            )
    fix = "" if verdict == "passed" else f"Worst is sample {found.worst_sample}. {_FIX_EQUIVALENCE}"
    return Check(
        f"equivalence.{index}",
        f"“{found.name}” equals the source model",
        BEHAVIOUR,
        verdict,
        found.different if exact else found.max_abs,
        found.tolerated if exact else within.atol,
        "elements" if exact else "",
        detail,
        fix,
    )


_FIX_EQUIVALENCE = (
    "Look for dropout or batch statistics left on, for decisions frozen by tracing, or "
    "for an operator that "
    "differs; where the difference is harmless, the contract may state a wider tolerance."
)


def output_checks(columns: Sequence[Column], *, lossy: bool) -> list[Check]:
    """NaN and infinity, answers that never change, the contract's range and sums; one line each.

    `lossy`: the version was optimised to a lower precision, so that sums are looser.
    """
    return [_finite(columns), _varying(columns), _range(columns), _sums(columns, lossy=lossy)]


def _finite(columns: Sequence[Column]) -> Check:
    title = "Answers are numbers"
    nan = [f"“{c.spec.name}” {c.nan} NaN" for c in columns if c.nan]
    infinite = [f"“{c.spec.name}” {c.infinite} infinite" for c in columns if c.infinite]
    count = sum(c.nan + c.infinite for c in columns)
    if nan:
        return Check(
            "finite",
            title,
            BEHAVIOUR,
            "failed",
            count,
            0,
            "elements",
            f"{', '.join(nan + infinite)}."[:500],
            "Look for NaN among the weights (a training run that diverged), or a division "
            "or logarithm of zero.",
        )
    if infinite:
        return Check(
            "finite",
            title,
            BEHAVIOUR,
            "warning",
            count,
            0,
            "elements",
            f"{', '.join(infinite)}."[:500],
            "JSON has no number for infinity: clamp the output if callers read JSON.",
        )
    return Check(
        "finite",
        title,
        BEHAVIOUR,
        "passed",
        0,
        0,
        "elements",
        "No NaN and no infinity in any answer.",
    )


def _varying(columns: Sequence[Column]) -> Check:
    title = "Answers depend on the input"
    still = [c for c in columns if not c.varies and c.errors and len(c.errors) > 1]
    if not still:
        return Check(
            "varies", title, BEHAVIOUR, "passed", detail="Every output changes with its input."
        )
    zero = [c.spec.name for c in still if c.low == c.high == 0]
    names = ", ".join(f"“{c.spec.name}”" for c in still)[:300]
    detail = f"{names} gave the same answer to every sample" + (
        " (all zero)." if len(zero) == len(still) else "."
    )
    return Check(
        "varies",
        title,
        BEHAVIOUR,
        "warning",
        len(still),
        0,
        "outputs",
        detail,
        "Check that the trained weights are in the file, and that the inputs' ranges are "
        "realistic.",
    )


def _range(columns: Sequence[Column]) -> Check:
    title = "Answers within the promised range"
    bound = [c for c in columns if c.spec.minimum is not None or c.spec.maximum is not None]
    if not bound:
        return Check(
            "output_range",
            title,
            BEHAVIOUR,
            "skipped",
            detail="No contract gives a range for the outputs.",
        )
    out = [
        f"“{c.spec.name}” went from {c.low:.6g} to {c.high:.6g} where {_interval(c.spec)} "
        f"is promised ({c.below + c.above} values)"
        for c in bound
        if c.below + c.above
    ]
    if out:
        return Check(
            "output_range",
            title,
            BEHAVIOUR,
            "failed",
            sum(c.below + c.above for c in bound),
            0,
            "values",
            f"{'; '.join(out)}."[:500],
            "Add the missing activation (sigmoid, softmax, clamp) to the model, or "
            "correct the contract's range.",
        )
    return Check(
        "output_range",
        title,
        BEHAVIOUR,
        "passed",
        detail="All answers lie in the contract's ranges.",
    )


SUM_SLACK, SUM_SLACK_LOSSY = 1e-3, 1e-2
"""By which share a sum may miss what is promised; half precision keeps three digits."""


def _sums(columns: Sequence[Column], *, lossy: bool) -> Check:
    title = "Shares add up"
    bound = [c for c in columns if c.spec.sums_to is not None]
    if not bound:
        return Check(
            "output_sums",
            title,
            BEHAVIOUR,
            "skipped",
            detail="No contract says what an output adds up to.",
        )
    worst = 0.0
    faults = []
    for column in bound:
        wanted = column.spec.sums_to or 0.0
        low, high = column.sums or (0.0, 0.0)
        loose = lossy or column.spec.dtype == "FP16"
        slack = (SUM_SLACK_LOSSY if loose else SUM_SLACK) * wanted
        away = max(abs(low - wanted), abs(high - wanted))
        worst = max(worst, away)
        if away > slack:
            faults.append(
                f"“{column.spec.name}” adds up to between {low:.6g} and {high:.6g} where "
                f"{wanted:g} is promised"
            )
    slack = SUM_SLACK_LOSSY if lossy else SUM_SLACK
    limit = slack * max(c.spec.sums_to or 0.0 for c in bound)
    if faults:
        return Check(
            "output_sums",
            title,
            BEHAVIOUR,
            "failed",
            worst,
            limit,
            "",
            f"{'; '.join(faults)}."[:500],
            "End the model with a softmax (or divide by the sum), or take sums_to out of the "
            "contract: propose a new one.",
        )
    return Check(
        "output_sums",
        title,
        BEHAVIOUR,
        "passed",
        worst,
        limit,
        detail="Every row adds up to what the contract says.",
    )


def _interval(spec: TensorSpec) -> str:
    low = "-∞" if spec.minimum is None else f"{spec.minimum:g}"
    high = "∞" if spec.maximum is None else f"{spec.maximum:g}"
    return f"{low} to {high}"
