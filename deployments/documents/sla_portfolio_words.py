"""All promises over a month in the reader's own words, for the document and its mail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from deployments.documents.sla_words import (
    bar,
    judged,
    month_words,
    reached_sentence,
    state_word,
)
from deployments.rules.objectives.slo import Promise
from deployments.selectors.objectives.sla_portfolio import MonthPortfolio
from deployments.selectors.objectives.sla_types import SlaRow

_BY_GRAVITY = (Promise.BROKEN, Promise.AT_RISK, Promise.KEPT)
MOST_NAMED = 8


def portfolio_context(portfolio: MonthPortfolio, now: datetime) -> dict[str, Any]:
    """What the portfolio's document shows, in the language that is on."""
    states = (Promise.BROKEN, Promise.AT_RISK, Promise.NO_DATA, Promise.KEPT)
    total = len(portfolio.rows)
    return {
        "portfolio": portfolio,
        "month": month_words(portfolio.first),
        "total": total,
        "counts": [
            {
                "state": state.value,
                "count": portfolio.count(state),
                "word": state_word(state),
                **_part(portfolio, states[:index], state),
            }
            for index, state in enumerate(states)
        ],
        "worst": next((state.value for state in _BY_GRAVITY if portfolio.count(state)), "no_data"),
        "attention": [
            f"{row.environment}/{row.model}: {_why(row)}"
            for row in portfolio.rows
            if row.state in (Promise.BROKEN, Promise.AT_RISK)
        ][:MOST_NAMED],
        "headline": headline(portfolio),
        "rows": [row_words(row) for row in portfolio.rows],
        "now": now,
    }


def headline(portfolio: MonthPortfolio) -> str:
    """The portfolio in one sentence."""
    total, broken = len(portfolio.rows), portfolio.count(Promise.BROKEN)
    judged_rows = total - portfolio.count(Promise.NO_DATA)
    if not judged_rows:
        return _("There was nothing to judge.")
    kept = judged_rows - broken
    if not broken:
        return ngettext(
            "The one promise that had requests was kept.",
            "All %(count)d promises that had requests were kept.",
            judged_rows,
        ) % {"count": judged_rows}
    return ngettext(
        "%(kept)d of %(count)d promise was kept.",
        "%(kept)d of %(count)d promises were kept.",
        judged_rows,
    ) % {"kept": kept, "count": judged_rows}


def row_words(row: SlaRow) -> dict[str, Any]:
    """A row of the portfolio."""
    return {
        "row": row,
        "word": state_word(row.state),
        "judged": [judged(one) for one in row.objectives],
        "bar": bar(row.budget_left_share),
    }


def _why(row: SlaRow) -> str:
    """The objective that a row's state comes from, in words."""
    return " ".join(reached_sentence(one) for one in row.objectives if one.state == row.state)


def _part(portfolio: MonthPortfolio, before: Sequence[Promise], state: Promise) -> dict[str, str]:
    """Where a state's part of the bar begins, and how wide it is, in percent."""
    total = len(portfolio.rows) or 1
    start = sum(portfolio.count(one) for one in before)
    return {
        "x": f"{100 * start / total:.2f}",
        "percent": f"{100 * portfolio.count(state) / total:.2f}",
    }
