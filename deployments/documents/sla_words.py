"""A promise over a month in the reader's own words, for its page, its PDF and its mail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from console.templatetags.console_formats import latency, percentage, span, whole_number
from console.templatetags.console_phrases import objective as objective_name
from console.templatetags.console_states import look
from deployments.documents.occurrence_words import Said, said
from deployments.rules.incidents.spells import seconds_of
from deployments.rules.objectives.sla_drawings import (
    BudgetDrawing,
    TrendDrawing,
    budget_drawing,
    trend_drawing,
)
from deployments.rules.objectives.slo import Promise
from deployments.rules.objectives.spans import Span, minutes_of
from deployments.selectors.objectives.sla_types import (
    DayReport,
    ObjectiveReport,
    SlaPage,
)
from models_registry.rules import contract_document, contract_terms

VERDICTS: Final = {
    Promise.KEPT: gettext_lazy("Promise kept"),
    Promise.AT_RISK: gettext_lazy("Promise at risk"),
    Promise.BROKEN: gettext_lazy("Promise broken"),
    Promise.NO_DATA: gettext_lazy("Nothing to judge"),
}
# The month is over, and while it runs.
SENTENCES: Final = {
    Promise.KEPT: (
        gettext_lazy("%(model)s kept what was promised for it."),
        gettext_lazy("So far %(model)s keeps what is promised for it."),
    ),
    Promise.AT_RISK: (
        gettext_lazy("%(model)s kept what was promised for it, by a narrow margin."),
        gettext_lazy("So far %(model)s keeps what is promised for it, by a narrow margin."),
    ),
    Promise.BROKEN: (
        gettext_lazy("%(model)s did not keep what was promised for it."),
        gettext_lazy("%(model)s has not kept what is promised for it this month."),
    ),
    Promise.NO_DATA: (
        gettext_lazy("Nobody called %(model)s, so there is nothing to judge."),
        gettext_lazy("Nobody has called %(model)s this month yet, so there is nothing to judge."),
    ),
}
PAPER_WIDTH, PAPER_HEIGHT = 672.0, 210.0
WIDE, NARROW = (1000.0, 250.0), (420.0, 230.0)


@dataclass(frozen=True, slots=True)
class Judged:
    """One objective in words: what was promised, what was reached, what is left."""

    report: ObjectiveReport
    name: str
    short: str
    target: str
    promise: str
    reached: str
    budget: str
    left_percent: float | None
    bar: str


@dataclass(frozen=True, slots=True)
class Charts:
    """Both charts of a promise in one size."""

    css: str
    budget: BudgetDrawing
    trend: TrendDrawing


def promise_context(page: SlaPage, now: datetime) -> dict[str, Any]:
    """What the templates of a promise show, in the language that is on."""
    changes = [said(one) for one in page.changes]
    return {
        "page": page,
        "verdict": verdict(page.state),
        "sentence": sentence(page.model, page.state, is_over=page.is_over),
        "judged": [judged(one) for one in page.objectives],
        "told": told(page),
        "blanks": range(page.first.weekday()),
        "weekdays": weekdays(),
        "weeks": _weeks(page),
        "changes": changes,
        "charts": [
            charts(page, changes, now, "chart-wide", *WIDE),
            charts(page, changes, now, "chart-narrow", *NARROW),
        ],
        "terms": _terms(page),
        "incidents": [
            {"row": one, "lasted": seconds_of(page.spells[one.pk])} for one in page.incidents
        ],
        "gross": [judged(one) for one in page.with_everything],
        "days_table": [
            {
                "date": day.date,
                "state": day.state,
                "word": state_word(day.state),
                "requests": day.requests,
                "values": [day.attained.get(one.name) for one in page.objectives],
            }
            for day in page.days
            if day.requests
        ],
        "months_table": [
            {
                "first": month.first,
                "state": month.state,
                "word": state_word(month.state),
                "requests": month.requests,
                "left": month.budget_left_share,
                "values": [month.attained.get(one.name) for one in page.objectives],
            }
            for month in page.months
        ],
        "left_out_minutes": minutes_of(page.left_out_spans),
        "days_kept": sum(day.state == Promise.KEPT for day in page.days),
        "days_broken": sum(day.state == Promise.BROKEN for day in page.days),
        "days_known": sum(day.state != Promise.NO_DATA for day in page.days),
        "now": now,
    }


def verdict(state: Promise) -> str:
    """The one word of a month."""
    return str(VERDICTS[state])


def sentence(model: str, state: Promise, *, is_over: bool) -> str:
    """The verdict as a sentence about the model."""
    return str(SENTENCES[state][0 if is_over else 1]) % {"model": model}


def month_words(first: date) -> str:
    """“November 2026”, as the language writes it."""
    return str(formats.date_format(first, "YEAR_MONTH_FORMAT"))


def weekdays() -> list[str]:
    """Monday to Sunday, abbreviated: 2024-01-01 was a Monday."""
    return [str(formats.date_format(date(2024, 1, day), "D")) for day in range(1, 8)]


def judged(one: ObjectiveReport) -> Judged:
    """An objective in words."""
    share = one.budget_left_share
    return Judged(
        report=one,
        name=objective_name(one.name),
        short=_short(one),
        target=percentage(one.target, 4),
        promise=promise_of(one),
        reached=_("no requests") if one.attained is None else exact_percent(one),
        budget=_budget(one),
        left_percent=None if share is None else round(max(share, 0.0) * 100, 1),
        bar=bar(share),
    )


def promise_of(one: ObjectiveReport) -> str:
    """What is promised, as a sentence."""
    target = percentage(one.target, 4)
    if one.threshold_ms is None:
        return _("%(target)s of requests end without a fault of ours.") % {"target": target}
    limit = latency(one.threshold_ms)
    return _("%(target)s of requests are answered within %(limit)s.") % {
        "target": target,
        "limit": limit,
    }


def exact_percent(one: ObjectiveReport) -> str:
    """What was reached, with so many decimals that a miss never reads as the target itself."""
    if one.attained is None:
        return percentage(None)
    for digits in (2, 3, 4):
        shown = round(one.attained, digits)
        if (shown >= one.target) == (one.attained >= one.target) and (shown < 100 or not one.bad):
            return percentage(one.attained, digits)
    return percentage(one.attained, 5)


def explained(page: SlaPage) -> list[str]:
    """The month in a few plain sentences: what was reached, what it cost, what went wrong."""
    if page.contract is None:
        return [_("No contract is in force, so nothing is promised yet.")]
    return [
        *(reached_sentence(one) for one in page.objectives if one.attained is not None),
        *told(page),
    ]


def told(page: SlaPage) -> list[str]:
    """What the figures do not say: how many requests, incidents, what is left out."""
    found = []
    if page.requests:
        found.append(_("%(count)s requests were counted.") % {"count": whole_number(page.requests)})
    if page.incidents:
        found.append(
            ngettext(
                "There was %(count)d incident.",
                "There were %(count)d incidents.",
                len(page.incidents),
            )
            % {"count": len(page.incidents)}
        )
    elif page.requests:
        found.append(_("There was no incident."))
    minutes = minutes_of(page.left_out_spans)
    if minutes:
        found.append(
            _("%(time)s are left out of the count, as all three seats agreed.")
            % {"time": span(minutes * 60)}
        )
    return found


def reached_sentence(one: ObjectiveReport) -> str:
    """What an objective reached, beside what was promised."""
    facts = {"reached": exact_percent(one), "target": percentage(one.target, 4)}
    if one.threshold_ms is None:
        return (
            _("%(reached)s of requests ended without a fault of ours (promised: %(target)s).")
            % facts
        )
    facts["limit"] = latency(one.threshold_ms)
    return (
        _("%(reached)s of requests were answered within %(limit)s (promised: %(target)s).") % facts
    )


def charts(
    page: SlaPage, changes: Sequence[Said], now: datetime, css: str, width: float, height: float
) -> Charts:
    """The charts of a promise, drawn for one width."""
    month = Span(page.start, page.end)
    incidents = [
        Span(max(one.started_at, page.start), min(one.ended_at or now, page.end))
        for found in page.spells.values()
        for one in found
        if one.started_at < page.end and (one.ended_at or now) >= page.start
    ]
    return Charts(
        css=css,
        budget=budget_drawing(
            page.budget_lines,
            span=month,
            now=now,
            width=width,
            height=height,
            changes=[(one.at, one.tone) for one in changes],
            incidents=incidents,
            left_out=page.left_out_spans,
            unobserved=page.unobserved,
        ),
        trend=trend_drawing(
            [(one.first, one.state, one.budget_left_share) for one in page.months],
            width=width,
            height=height * 0.82,
        ),
    )


def _short(one: ObjectiveReport) -> str:
    name = objective_name(one.name)
    return name if one.threshold_ms is None else f"{name} ≤ {latency(one.threshold_ms)}"


def state_word(state: Promise) -> str:
    """“Kept”, “Broken” …, as everywhere in the console."""
    return str(look("promise", state.value).label)


def bar(share: float | None) -> str:
    """The width of a bar of what is left, 0 to 100; empty where nothing is known."""
    return "" if share is None else f"{100 * min(max(share, 0.0), 1.0):.1f}"


def _weeks(page: SlaPage) -> list[list[DayReport | None]]:
    """The days by weeks from Monday on, with None outside of the month."""
    days: list[DayReport | None] = [None] * page.first.weekday() + [*page.days]
    days += [None] * (-len(days) % 7)
    return [days[begin : begin + 7] for begin in range(0, len(days), 7)]


def _budget(one: ObjectiveReport) -> str:
    if one.budget_left_share is None:
        return _("no requests yet")
    facts = {"left": whole_number(one.budget_left), "total": whole_number(one.budget_total)}
    if one.budget_left < 0:
        facts["over"] = whole_number(-one.budget_left)
        return _("%(over)s more than the %(total)s that may fail") % facts
    return _("%(left)s of %(total)s left that may fail") % facts


def _terms(page: SlaPage) -> list[str]:
    if page.contract is None:
        return []
    document = contract_document.from_json(page.contract.document)
    return [contract_terms.render(term, _) for term in contract_terms.terms(document)]
