"""Promises as PDF: one over a month, or all of them; every door hands out the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.safestring import SafeString, mark_safe

from console.adapters.pdf import write_pdf
from console.errors import Invalid
from console.models import User
from deployments.documents.sla_portfolio_words import portfolio_context
from deployments.documents.sla_words import (
    PAPER_HEIGHT,
    PAPER_WIDTH,
    charts,
    promise_context,
)
from deployments.models import Endpoint
from deployments.selectors.objectives.sla import sla
from deployments.selectors.objectives.sla_portfolio import PortfolioFilter, month_portfolio
from deployments.selectors.objectives.sla_types import DayReport, SlaPage

CSS = settings.BASE_DIR / "static" / "css"
STYLES = [CSS / "sla-paper.css"]
# WeasyPrint draws pictures apart from the document: what they look like travels inside them, so
# the file lies beside the templates and is never served.
PICTURES = settings.BASE_DIR / "templates" / "deployments" / "sla" / "paper-charts.css"


def promise_pdf(
    endpoint: Endpoint, month: str, *, language: str = "", now: datetime
) -> tuple[bytes, str]:
    """One promise's month and its file name. Raises Invalid, Unavailable (`pdf_unavailable`)."""
    page = sla(endpoint, month, now)
    chosen = language_of(language)
    with translation.override(chosen):
        return pdf_of(page, chosen, now), file_name(page, chosen)


def pdf_of(page: SlaPage, language: str, now: datetime) -> bytes:
    """The document of a promise, in the language that is on."""
    context = promise_context(page, now)
    context |= {
        "lang": language,
        "paper": _pictures(),
        "strip": strip(page.days),
        "chart": charts(page, context["changes"], now, "chart-paper", PAPER_WIDTH, PAPER_HEIGHT),
    }
    return _written("deployments/sla/print.html", context)


def strip(days: Sequence[DayReport]) -> list[dict[str, Any]]:
    """The days of a month side by side, as the cover draws them (620 wide)."""
    slot = 620 / max(len(days), 1)
    found = []
    for index, day in enumerate(days):
        middle = slot * (index + 0.5)
        found.append(
            {
                "x": f"{slot * index + 1:.1f}",
                "width": f"{slot - 2:.1f}",
                "left": f"{middle - 4:.1f}",
                "right": f"{middle + 4:.1f}",
                "middle": f"{middle:.1f}",
                "state": day.state.value,
                "day": day.date.day,
            }
        )
    return found


def file_name(page: SlaPage, language: str) -> str:
    """“fraud_detector-production-2026-11-en.pdf”."""
    return f"{page.model}-{page.environment}-{page.month}-{language}.pdf"


def portfolio_pdf(
    month: str, wanted: PortfolioFilter, *, user: User, language: str = "", now: datetime
) -> tuple[bytes, str]:
    """All promises that a person may see over a month, the worst first, and the file's name.

    Raises Invalid, Unavailable (`pdf_unavailable`).
    """
    portfolio = month_portfolio(month, now, wanted, user=user)
    chosen = language_of(language)
    with translation.override(chosen):
        context = {
            **portfolio_context(portfolio, now),
            "wanted": wanted,
            "lang": chosen,
            "paper": _pictures(),
        }
        data = _written("deployments/sla/print_portfolio.html", context)
    return data, f"promises-{portfolio.first:%Y-%m}-{chosen}.pdf"


def language_of(wanted: str) -> str:
    """A language that documents are written in; the reader's own without one. Raises Invalid."""
    known = [code for code, _name in settings.LANGUAGES]
    if not wanted:
        now_on = translation.get_language() or ""
        return now_on if now_on in known else known[0]
    if wanted not in known:
        raise Invalid(
            f"There is no report in the language “{wanted[:12]}”.",
            code="unknown_language",
            hint=f"Languages are {', '.join(known)}.",
        )
    return wanted


def _written(template: str, context: dict[str, Any]) -> bytes:
    return write_pdf(render_to_string(template, context), styles=STYLES)


@cache
def _pictures() -> SafeString:
    style = PICTURES.read_text(encoding="utf-8")
    return mark_safe(f"<style>{style}</style>")  # noqa: S308 - a file of this product
