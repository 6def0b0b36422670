"""The audit trail's page."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console.actors import require
from console.api.authentication import actor_of
from console.forms import AuditFilterForm
from console.models import AuditEntry
from console.rules.json_changes import ChangeLine, change_lines
from console.selectors.audit import AuditFilter, audit_entries
from console.selectors.paging import page_of
from console.services.audit import verify_chain


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Who did what, newest first, with what it changed."""
    require(actor_of(request), "audit.read")
    form = AuditFilterForm(request.GET)
    form.is_valid()
    found: dict[str, Any] = form.cleaned_data
    until = found.get("until")
    wanted = AuditFilter(
        actor=found.get("actor", ""),
        action=found.get("action", ""),
        subject=found.get("subject", ""),
        since=_start_of(found.get("since")),
        # The day named last is meant to be included.
        until=_start_of(until + timedelta(days=1) if until else None),
    )
    page = page_of(
        audit_entries(wanted, user=actor_of(request).user), cursor=request.GET.get("cursor", "")
    )
    context = {
        "form": form,
        "wanted": wanted,
        "entries": [(entry, _lines(entry)) for entry in page.rows],
        **page.links(request.GET),
    }
    return render(request, "console/audit/list.html", context)


@require_POST
def verify(request: HttpRequest) -> HttpResponse:
    """Check the whole chain now and say how it stands; a fragment."""
    require(actor_of(request), "audit.read")
    entries, faults = verify_chain()
    context = {"entries": entries, "faults": faults, "checked_at": timezone.now()}
    return render(request, "console/audit/_chain.html", context)


def _lines(entry: AuditEntry) -> list[ChangeLine]:
    return change_lines(entry.before, entry.after)


def _start_of(day: date | None) -> datetime | None:
    return datetime.combine(day, time.min, tzinfo=UTC) if day else None
