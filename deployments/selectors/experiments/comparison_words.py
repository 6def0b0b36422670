"""What a comparison of two versions says, in sentences of the reader's language."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from console.templatetags.console_formats import latency, percentage, span, whole_number
from deployments.rules.experiments.version_comparisons import (
    QUANTILES,
    Estimate,
    Figures,
    Verdict,
    needed_for,
)
from deployments.selectors.experiments.version_comparisons import VersionComparison


@dataclass(frozen=True, slots=True)
class Sentence:
    """`subject` is latency, errors, work or outputs; what only tells a figure has no verdict."""

    subject: str
    verdict: str
    text: str


def sentences(comparison: VersionComparison) -> list[Sentence]:
    """Latency, errors, Triton's work, and what was answered; the second version is spoken of."""
    return [
        _latency(comparison),
        _errors(comparison),
        *_work(comparison),
        *_outputs(comparison),
    ]


def _latency(comparison: VersionComparison) -> Sentence:
    found, first, second = comparison.latencies, comparison.first, comparison.second
    if found.verdict is Verdict.UNKNOWN or found.difference_ms is None:
        text = _(
            "Too few requests to compare latencies: v%(b)s has %(b_requests)s and v%(a)s "
            "%(a_requests)s over the same time. P99 needs %(p99)s of each, P50 %(p50)s."
        ) % {
            **_named(first, second),
            "p99": whole_number(needed_for(QUANTILES[2][1])),
            "p50": whole_number(needed_for(QUANTILES[0][1])),
        }
        return Sentence("latency", Verdict.UNKNOWN, text)
    name = found.quantile
    given = {
        **_named(first, second),
        "name": name.upper(),
        "difference": latency(abs(found.difference_ms)),
        "a_value": _with_range(first.quantiles[name]),
        "b_value": _with_range(second.quantiles[name]),
        "time": span(comparison.seconds),
    }
    if found.verdict is Verdict.WORSE:
        text = _(
            "v%(b)s’s %(name)s is %(difference)s slower: %(b_value)s against %(a_value)s, over the "
            "same %(time)s, %(b_requests)s and %(a_requests)s requests."
        )
    elif found.verdict is Verdict.BETTER:
        text = _(
            "v%(b)s’s %(name)s is %(difference)s faster: %(b_value)s against %(a_value)s, over the "
            "same %(time)s, %(b_requests)s and %(a_requests)s requests."
        )
    else:
        text = _(
            "No difference in %(name)s can be told: v%(b)s %(b_value)s, v%(a)s %(a_value)s, over "
            "the same %(time)s, %(b_requests)s and %(a_requests)s requests."
        )
    return Sentence("latency", found.verdict, text % given)


def _errors(comparison: VersionComparison) -> Sentence:
    found, first, second = comparison.faults, comparison.first, comparison.second
    given = _named(first, second)
    if found.verdict is Verdict.UNKNOWN or found.difference.value is None:
        silent = second if not second.requests else first
        text = _("v%(version)s answered no request in this time, so its failures are not known.")
        return Sentence("errors", Verdict.UNKNOWN, text % {"version": silent.version})
    low, high = found.difference.range or (0.0, 0.0)
    ends = sorted((abs(low), abs(high)))
    given |= {
        "a_share": percentage(_percent(first.provider_share), 3),
        "b_share": percentage(_percent(second.provider_share), 3),
        "a_count": whole_number(first.provider_faults),
        "b_count": whole_number(second.provider_faults),
        "points": percentage(abs(found.difference.value) * 100, 3),
        "low": percentage(ends[0] * 100, 3),
        "high": percentage(ends[1] * 100, 3),
    }
    if found.verdict is Verdict.WORSE:
        text = _(
            "v%(b)s fails %(b_share)s of its requests, v%(a)s %(a_share)s: %(points)s of all "
            "requests more (between %(low)s and %(high)s, with 95 %% confidence)."
        )
    elif found.verdict is Verdict.BETTER:
        text = _(
            "v%(b)s fails %(b_share)s of its requests, v%(a)s %(a_share)s: %(points)s of all "
            "requests less (between %(low)s and %(high)s, with 95 %% confidence)."
        )
    else:
        text = _(
            "No difference in failures can be told: v%(b)s failed %(b_count)s of %(b_requests)s, "
            "v%(a)s %(a_count)s of %(a_requests)s."
        )
    return Sentence("errors", found.verdict, text % given)


def _work(comparison: VersionComparison) -> list[Sentence]:
    first, second = comparison.first, comparison.second
    if None in (first.compute_ms, second.compute_ms, first.queue_ms, second.queue_ms):
        return []
    text = _(
        "In Triton a request of v%(b)s takes %(b_compute)s and waits %(b_queue)s for its turn; one "
        "of v%(a)s takes %(a_compute)s and waits %(a_queue)s."
    ) % {
        **_named(first, second),
        "a_compute": latency(first.compute_ms),
        "b_compute": latency(second.compute_ms),
        "a_queue": latency(first.queue_ms),
        "b_queue": latency(second.queue_ms),
    }
    return [Sentence("work", "", text)]


def _outputs(comparison: VersionComparison) -> list[Sentence]:
    answers, given = comparison.answers, _named(comparison.first, comparison.second)
    if answers is None or not answers.sampled:
        text = _(
            "Answers were not compared in this time. A sample of requests is sent to both versions "
            "while a rollout, a mirror or an experiment runs."
        )
        return [Sentence("outputs", Verdict.UNKNOWN, text)]
    given |= {
        "compared": whole_number(answers.compared),
        "differing": whole_number(answers.differing),
        "share": percentage(
            100 * answers.differing / answers.compared if answers.compared else None
        ),
        "most": small(answers.max_difference),
        "a_faults": whole_number(answers.baseline_faults),
        "b_faults": whole_number(answers.candidate_faults),
        "sampled": whole_number(answers.sampled),
    }
    if answers.differing:
        text = _(
            "Both answered %(compared)s sampled requests: %(differing)s answers (%(share)s) "
            "differ, by %(most)s at most."
        )
    elif answers.compared:
        text = _("Both answered %(compared)s sampled requests, and all answers are alike.")
    else:
        text = _("Of %(sampled)s sampled requests none was answered by both.")
    found = [Sentence("outputs", "", text % given)]
    if answers.baseline_faults or answers.candidate_faults:
        worse = answers.candidate_faults > answers.baseline_faults
        text = _(
            "Sampled answers that break the contract (no number, out of its range, or none in "
            "time): %(b_faults)s of v%(b)s, %(a_faults)s of v%(a)s."
        )
        found.append(Sentence("faults", Verdict.WORSE if worse else "", text % given))
    return found


def small(value: float | None) -> str:
    """A difference that may be tiny, to three figures."""
    return "—" if value is None else f"{value:.3g}"


def _named(first: Figures, second: Figures) -> dict[str, str]:
    return {
        "a": str(first.version),
        "b": str(second.version),
        "a_requests": whole_number(first.requests),
        "b_requests": whole_number(second.requests),
    }


def _with_range(estimate: Estimate) -> str:
    """`52 ms (48–60 ms)`."""
    if estimate.range is None:
        return latency(estimate.value)
    low, high = (latency(end) for end in estimate.range)
    return f"{latency(estimate.value)} ({low}–{high})"


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100
