"""Who is on call for a model, and reaching them by what there is: the inbox and mail."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import translation
from django.utils.translation import gettext as _

from console.actors import Actor
from console.adapters.mail import send_mail
from console.env_values import EmailServer
from console.models import Role, Severity, User, UserKind
from console.services import jobs, notices
from console.services.job_runs import JobRun
from deployments.models import Incident, IncidentSeverity
from models_registry.models import RegisteredModel, Seat, SeatHolder

MOST_CALLED = 50


def on_call(model: RegisteredModel) -> list[User]:
    """Who is called when the model fails: its SRE seat, and every SRE who may see and operate it.

    That is the SREs of the whole installation and those of the model's team. Where there is none,
    the platform admins: somebody has to know.
    """
    seat = SeatHolder.objects.filter(model=model, seat=Seat.SRE).values("user_id")
    operators = Q(pk__in=seat) | Q(roles__contains=[Role.SRE])
    if model.team_id is not None:
        operators |= Q(memberships__team=model.team_id, memberships__roles__contains=[Role.SRE])
    people = User.objects.filter(is_active=True, kind=UserKind.PERSON)
    found = list(people.filter(operators).distinct().order_by("username")[:MOST_CALLED])
    return found or list(people.filter(roles__contains=[Role.PLATFORM_ADMIN])[:MOST_CALLED])


def call(incident: Incident, actor: Actor) -> list[User]:
    """Tell those on call of the incident, but who did it: in the inbox, and of a P1 by mail, too.

    Belongs into the transaction of what it tells of; the mail is a job of its own. Gives whom.
    """
    people = [one for one in on_call(incident.endpoint.model) if one != actor.user]
    urgent = incident.severity == IncidentSeverity.P1
    notices.notify(
        people=people,
        kind="incident.open",
        key=notice_key(incident, incident.severity),
        subject=str(incident.endpoint),
        subject_url=f"/incidents/{incident.pk}/",
        severity=Severity.CRITICAL if urgent else Severity.WARNING,
        data={"severity": incident.severity, "title": incident.title},
    )
    if urgent and settings.MAIL_SERVER is not None:
        jobs.enqueue(
            kind="call_by_mail",
            subject=str(incident.endpoint),
            subject_url=f"/incidents/{incident.pk}/",
            arguments={"incident": str(incident.pk), "people": [one.pk for one in people]},
            idempotency_key=f"call_by_mail:{incident.pk}:{incident.events.count()}",
            actor=actor,
        )
    return people


def stop_calling(incident: Incident) -> None:
    """The incident is resolved: its notices leave every inbox."""
    for severity in IncidentSeverity.values:
        notices.end(key=notice_key(incident, severity))


def send_call(run: JobRun) -> dict[str, Any]:
    """Mail everybody who is on call, each in their own language; gives to how many.

    Raises Unavailable, retried, when the mail server does not take it.
    """
    incident = Incident.objects.select_related("endpoint__model", "endpoint__environment").get(
        pk=run.job.arguments["incident"]
    )
    called = User.objects.filter(pk__in=run.job.arguments["people"], is_active=True)
    people = list(called.exclude(email="").order_by("pk"))
    server: EmailServer | None = settings.MAIL_SERVER
    if server is None:
        run.log("No mail server is set any more.", level="warning")
        return {"mailed": 0}
    sent = set(run.job.checkpoint.get("sent", []))
    for person in people:
        if person.pk in sent:
            continue
        run.check()
        subject, text = _letter(incident, person)
        send_mail(server, to=[person.email], subject=subject, text=text)
        sent.add(person.pk)
        run.checkpoint(sent=sorted(sent))
    if not people:
        run.log("Nobody who is on call has an address.", level="warning")
    return {"mailed": len(sent)}


def notice_key(incident: Incident, severity: str) -> str:
    """The key of the notice that an incident is this grave: becoming graver is said anew."""
    return f"incident:{incident.pk}:{severity}"


def _letter(incident: Incident, person: User) -> tuple[str, str]:
    with translation.override(person.language or settings.LANGUAGE_CODE):
        facts = {
            "severity": incident.severity,
            "endpoint": str(incident.endpoint),
            "title": incident.title,
            "at": f"{incident.started_at:%Y-%m-%d %H:%M:%S} UTC",
            "address": f"{settings.CONFIG.base_url.rstrip('/')}/incidents/{incident.pk}/",
        }
        subject = _("%(severity)s %(endpoint)s: %(title)s") % facts
        text = _(
            "%(endpoint)s: %(title)s\n\nSince %(at)s.\nAcknowledge it, and see what was done: "
            "%(address)s\n"
        )
        return subject, text % facts
