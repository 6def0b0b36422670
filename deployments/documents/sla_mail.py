"""A month's report by mail: the figures in words, and the PDF, in the person's language."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from django.conf import settings
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from console.adapters.mail import Enclosed, send_mail
from console.errors import NotFound
from console.rules.canonical import digest
from console.services.job_runs import JobRun
from deployments.documents.sla_portfolio_words import headline
from deployments.documents.sla_reports import file_name, pdf_of, portfolio_pdf
from deployments.documents.sla_words import (
    explained,
    judged,
    month_words,
    sentence,
    verdict,
)
from deployments.models import Endpoint, SlaSubscription
from deployments.rules.objectives.slo import Promise
from deployments.selectors.objectives.sla import sla
from deployments.selectors.objectives.sla_portfolio import PortfolioFilter, month_portfolio
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.objectives.sla_subscriptions import note_sent

MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class Letter:
    subject: str
    text: str
    data: bytes
    name: str


def send_report(run: JobRun) -> dict[str, Any]:
    """Make the report and hand it to the mail server; on record once it was taken.

    Nothing is sent to whom it no longer concerns: who left, or may not see the promise any more.
    Raises Unavailable, retried, when the server does not take it.
    """
    given = run.job.arguments
    subscription = (
        SlaSubscription.objects.select_related(
            "person", "endpoint__model", "endpoint__environment", "team", "environment"
        )
        .filter(pk=given["subscription"])
        .first()
    )
    why_not = _why_not(subscription)
    if subscription is None or why_not:
        run.log(why_not, level="warning")
        return {"mailed": 0}
    run.progress(0.1, "Making the report")
    try:
        with translation.override(subscription.language):
            letter = _letter(subscription, given["month"])
    except NotFound:
        run.log("The person may not see this promise any more.", level="warning")
        return {"mailed": 0}
    run.progress(0.8, "Sending the report")
    month = date.fromisoformat(f"{given['month']}-01")
    address = subscription.person.email
    send_mail(
        settings.MAIL_SERVER,  # type: ignore[arg-type]  # asked for by _why_not
        to=[address],
        subject=letter.subject,
        text=letter.text,
        enclosed=[Enclosed(letter.name, "application/pdf", letter.data)],
        # The same for each attempt: who gets it twice is shown it once.
        message_id=f"sla-{subscription.pk}-{given['month']}-{run.job.pk}",
    )
    note_sent(
        subscription_id=subscription.pk,
        month=month,
        address=address,
        sha256=digest(letter.data),
        size=len(letter.data),
    )
    return {"mailed": 1, "bytes": len(letter.data)}


def _why_not(subscription: SlaSubscription | None) -> str:
    if subscription is None:
        return "The report was ended meanwhile."
    if settings.MAIL_SERVER is None:
        return "No mail server is set any more."
    if not subscription.person.is_active or not subscription.person.email:
        return "The person has left, or has no address any more."
    return ""


def _letter(subscription: SlaSubscription, month: str) -> Letter:
    if subscription.endpoint is not None:
        return _of_promise(subscription, subscription.endpoint, month)
    return _of_portfolio(subscription, month)


def _of_promise(subscription: SlaSubscription, endpoint: Endpoint, month: str) -> Letter:
    now = timezone.now()
    names = (endpoint.environment.name, endpoint.model.name)
    page = sla(find_endpoint(*names, user=subscription.person), month, now)
    facts = {
        "model": page.model,
        "environment": page.environment,
        "month": month_words(page.first),
        "verdict": verdict(page.state),
    }
    subject = _("%(model)s in %(environment)s, %(month)s: %(verdict)s") % facts
    lines = [
        sentence(page.model, page.state, is_over=page.is_over),
        "",
        *(f"– {line}" for line in explained(page)),
        *(f"– {one.name}: {one.budget}" for one in map(judged, page.objectives)),
        "",
        _("The whole month is in the PDF, and here: %(address)s")
        % {"address": f"{_base()}/sla/{'/'.join(names)}/?month={page.month}"},
    ]
    data = pdf_of(page, subscription.language, now)
    text = _signed(lines)
    return Letter(subject, text, data, file_name(page, subscription.language))


def _of_portfolio(subscription: SlaSubscription, month: str) -> Letter:
    now, person = timezone.now(), subscription.person
    wanted = PortfolioFilter(
        environment=subscription.environment.name if subscription.environment else "",
        team=subscription.team.slug if subscription.team else "",
    )
    portfolio = month_portfolio(month, now, wanted, user=person)
    first = month_words(portfolio.first)
    subject = _("Promises in %(month)s: %(headline)s") % {
        "month": first,
        "headline": headline(portfolio),
    }
    bad = [row for row in portfolio.rows if row.state in (Promise.BROKEN, Promise.AT_RISK)]
    lines = [
        headline(portfolio),
        "",
        *(f"– {row.environment}/{row.model}: {verdict(row.state)}" for row in bad[:MOST_LINES]),
        *([_("… and %(count)d more") % {"count": len(bad) - MOST_LINES}] * (len(bad) > MOST_LINES)),
        "",
        _("All of them are in the PDF, and here: %(address)s") % {"address": f"{_base()}/sla/"},
    ]
    data, name = portfolio_pdf(month, wanted, user=person, language=subscription.language, now=now)
    return Letter(subject, _signed(lines), data, name)


def _signed(lines: list[str]) -> str:
    end = _("You get this on the 1st of each month. End it here: %(address)s") % {
        "address": f"{_base()}/sla/reports/"
    }
    return "\n".join([*lines, "", end, ""])


def _base() -> str:
    return str(settings.CONFIG.base_url).rstrip("/")
