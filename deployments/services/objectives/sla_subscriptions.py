"""Who gets a promise's report on the 1st of the month, and asking for those that are due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound, Unavailable
from console.models import Job, Team, User
from console.services import audit, jobs
from deployments.models import Endpoint, SlaReport, SlaSubscription
from deployments.rules.objectives.sla_months import month_before, month_of
from deployments.rules.objectives.sla_sharing import is_due, month_to_report
from deployments.rules.objectives.slo import month_bounds
from deployments.selectors.objectives.sla_subscriptions import find_subscription, scope_words
from deployments.selectors.traffic.endpoints import find_endpoint
from models_registry.models import Environment

MOST_OF_A_PERSON = 50
MOST_AT_ONCE = 1_000
"""Reports asked for in one go; the next look asks for the rest."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a report is about: one promise, or all of a team or an environment (None: all)."""

    endpoint: Endpoint | None
    team: Team | None
    environment: Environment | None


def subscribe(
    *, environment: str = "", model: str = "", team: str = "", language: str = "", actor: Actor
) -> SlaSubscription:
    """Have a report mailed to oneself on the 1st, about the month before.

    With `model` it is that promise's; else the portfolio, of a `team` (its slug) or of an
    `environment` where given. Again for the same changes the language. Raises NotFound,
    NotAllowed, Invalid, Conflict (`no_address`, `too_many_subscriptions`).
    """
    require(actor, "sla.subscribe")
    person = actor.user
    if person.is_service or not person.email:
        raise Conflict(
            f"{person.username} has no e-mail address to send a report to.",
            code="no_address",
            hint="Have a platform admin note one under Settings → People.",
        )
    scope = _scope(environment, model, team, person)
    wanted = _language(language or person.language)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=person.pk)
        before = SlaSubscription.objects.filter(
            person=person, endpoint=scope.endpoint, team=scope.team, environment=scope.environment
        ).first()
        if before is not None and before.language == wanted:
            return find_subscription(before.pk, user=person)
        had = SlaSubscription.objects.filter(person=person).count()
        if before is None and had >= MOST_OF_A_PERSON:
            raise Conflict(
                f"{person.username} has {MOST_OF_A_PERSON} reports already.",
                code="too_many_subscriptions",
                hint="The portfolio is one report for all promises.",
            )
        subscription, _ = SlaSubscription.objects.update_or_create(
            person=person,
            endpoint=scope.endpoint,
            team=scope.team,
            environment=scope.environment,
            defaults={"language": wanted},
        )
        audit.record(
            actor=actor,
            action="sla.subscribe",
            subject=scope_words(subscription),
            subject_url="/sla/reports/",
            before={"language": before.language} if before is not None else None,
            after={"language": wanted},
        )
    return find_subscription(subscription.pk, user=person)


def unsubscribe(*, subscription_id: int, actor: Actor) -> None:
    """End a report of one's own. Raises NotFound."""
    require(actor, "sla.subscribe")
    with transaction.atomic():
        subscription = find_subscription(subscription_id, user=actor.user)
        audit.record(
            actor=actor,
            action="sla.unsubscribe",
            subject=scope_words(subscription),
            subject_url="/sla/reports/",
            before={"language": subscription.language},
        )
        subscription.delete()


def send_report_now(*, subscription_id: int, actor: Actor) -> Job:
    """Have the last whole month's report of one's own sent again, at once.

    Twice within a minute is once. Raises NotFound, Unavailable (`no_mail_server`).
    """
    require(actor, "sla.subscribe")
    if settings.MAIL_SERVER is None:
        raise Unavailable(
            "No mail server is set, so no report can be sent.",
            code="no_mail_server",
            hint="Set COVENANT_EMAIL_URL and COVENANT_EMAIL_FROM, or download the PDF.",
            retryable=False,
        )
    now = timezone.now()
    month = month_before(month_of(now))
    with transaction.atomic():
        subscription = find_subscription(subscription_id, user=actor.user)
        job = _enqueue(subscription, month, f"now:{now:%Y-%m-%dT%H:%M}", actor)
        audit.record(
            actor=actor,
            action="sla.report_now",
            subject=scope_words(subscription),
            subject_url="/sla/reports/",
            after={"month": f"{month:%Y-%m}"},
        )
    return job


def ask_for_reports(*, now: datetime) -> int:
    """Ask for each report of the last month that was not sent yet; gives how many were asked for.

    Asked each hour and idempotent: a report whose job failed is asked for once more the next day,
    within the month. Without a mail server nothing is asked for.
    """
    month = month_to_report(now)
    if month is None or settings.MAIL_SERVER is None:
        return 0
    asked = 0
    due = (
        SlaSubscription.objects.filter(
            created_at__lt=month_bounds(month_of(now))[0], person__is_active=True
        )
        .exclude(person__email="")
        .exclude(reports__in=SlaReport.objects.filter(month=month, sent_at__isnull=False))
        .select_related("person", "endpoint__model", "endpoint__environment", "team", "environment")
        .order_by("pk")
    )
    system = Actor.system("timer")
    for subscription in due[:MOST_AT_ONCE]:
        if is_due(since=subscription.created_at, now=now):
            asked += _ask(subscription, month, now, system)
    return asked


def note_sent(*, subscription_id: int, month: date, address: str, sha256: str, size: int) -> None:
    """Put on record that a month's report went out. Twice is once."""
    with transaction.atomic():
        subscription = SlaSubscription.objects.select_for_update().filter(pk=subscription_id)
        one = subscription.first()
        if one is None:
            return
        SlaReport.objects.update_or_create(
            subscription=one,
            month=month,
            defaults={
                "sent_at": timezone.now(),
                "address": address,
                "sha256": sha256,
                "size": size,
            },
        )
        audit.record(
            actor=Actor.system("timer"),
            action="sla.report",
            subject=scope_words(one),
            subject_url="/sla/reports/",
            after={
                "to": one.person.username,
                "month": f"{month:%Y-%m}",
                "language": one.language,
                "sha256": sha256,
                "bytes": size,
            },
        )


def _ask(subscription: SlaSubscription, month: date, now: datetime, system: Actor) -> int:
    with transaction.atomic():
        job = _enqueue(subscription, month, f"{now:%Y-%m-%d}", system)
        report, created = SlaReport.objects.select_for_update().get_or_create(
            subscription=subscription, month=month, defaults={"job": job.pk}
        )
        if report.job == job.pk and not created:
            return 0
        if not created:
            report.job = job.pk
            report.save(update_fields=["job"])
        return 1


def _enqueue(subscription: SlaSubscription, month: date, when: str, actor: Actor) -> Job:
    return jobs.enqueue(
        kind="sla_report",
        subject=f"{month:%Y-%m} of {scope_words(subscription)} for {subscription.person.username}",
        subject_url="/sla/reports/",
        arguments={"subscription": subscription.pk, "month": f"{month:%Y-%m}"},
        idempotency_key=f"sla_report:{subscription.pk}:{month:%Y-%m}:{when}",
        actor=actor,
    )


def _scope(environment: str, model: str, team: str, person: User) -> Scope:
    if model:
        return Scope(find_endpoint(environment, model, user=person), None, None)
    of_team = Team.objects.filter(slug=team).first() if team else None
    if team and of_team is None:
        raise NotFound(f"There is no team {team[:64]}.", hint="See Settings → Teams.")
    where = Environment.objects.filter(name=environment).first() if environment else None
    if environment and where is None:
        raise NotFound(f"There is no environment {environment[:40]}.")
    return Scope(None, of_team, where)


def _language(wanted: str) -> str:
    known = [code for code, _name in settings.LANGUAGES]
    if not wanted:
        return settings.LANGUAGE_CODE if settings.LANGUAGE_CODE in known else known[0]
    if wanted not in known:
        raise Invalid(
            f"There are no reports in the language “{wanted[:12]}”.",
            code="unknown_language",
            hint=f"Languages are {', '.join(known)}.",
            errors=(FieldError("/language", "is no language of this installation"),),
        )
    return wanted
