"""The audit trail's page: who did what, whether the chain holds, and the trail as a file."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import Actor, allowed, require
from console.api.audit import is_yes
from console.api.authentication import actor_of
from console.api.streams import streamed_file
from console.audit_forms import AuditFilterForm
from console.models import AuditEntry
from console.rules.audit_checkpoints import ACTION as CHECKPOINT
from console.rules.audit_occurrences import DENIALS
from console.rules.json_changes import ChangeLine, change_lines
from console.selectors.audit import AuditFilter, audit_entries, chain_state
from console.selectors.paging import page_of
from console.services.audit_checks import checkpoint_now, request_verification
from console.services.audit_exports import FORMATS, export


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry as the page shows it; `job_id` is of the job that did it, if one did."""

    entry: AuditEntry
    lines: list[ChangeLine]
    denied: bool
    job_id: uuid.UUID | None


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Who did what, newest first, with what it changed."""
    actor = actor_of(request)
    require(actor, "audit.read")
    form, wanted = _filter_of(request.GET)
    page = page_of(audit_entries(wanted, user=actor.user), cursor=request.GET.get("cursor", ""))
    query = request.GET.copy()
    query.pop("cursor", None)
    context = {
        "form": form,
        "wanted": wanted,
        "entries": [_row(entry) for entry in page.rows],
        "export_query": query.urlencode(),
        **_chain(actor),
        **page.links(request.GET),
    }
    return render(request, "console/audit/list.html", context)


@require_safe
def chain(request: HttpRequest) -> HttpResponse:
    """How the chain stands; a fragment that asks again while a check runs."""
    actor = actor_of(request)
    require(actor, "audit.read")
    return render(request, "console/audit/_chain.html", _chain(actor))


@require_POST
def verify(request: HttpRequest) -> HttpResponse:
    """Ask for a check of the whole chain."""
    actor = actor_of(request)
    request_verification(actor=actor)
    if request.headers.get("HX-Request"):
        return render(request, "console/audit/_chain.html", _chain(actor))
    return redirect("console:audit-list")


@require_POST
def checkpoint(request: HttpRequest) -> HttpResponse:
    """Sign how the chain stands now."""
    made = checkpoint_now(actor=actor_of(request))
    if made is None:
        messages.info(request, _("Nothing was written since the last checkpoint."))
    else:
        messages.success(
            request, _("A checkpoint is signed at entry #%(number)d.") % {"number": made.sequence}
        )
    return redirect("console:audit-list")


@require_safe
def download(request: HttpRequest) -> HttpResponseBase:
    """What the filters of the page show, all of it, as a file."""
    _form, wanted = _filter_of(request.GET)
    form = request.GET.get("as", "")
    file = export(
        wanted=wanted,
        form="csv" if form not in FORMATS else form,
        gz=is_yes(request.GET.get("gz", "")),
        bom=is_yes(request.GET.get("bom", "")),
        actor=actor_of(request),
    )
    return streamed_file(request, file.chunks, name=file.name, content_type=file.content_type)


def _filter_of(query: Mapping[str, str]) -> tuple[AuditFilterForm, AuditFilter]:
    form = AuditFilterForm(query)
    form.is_valid()
    found: dict[str, Any] = form.cleaned_data
    until = found.get("until")
    return form, AuditFilter(
        actor=found.get("actor", ""),
        action=found.get("action", ""),
        subject=found.get("subject", ""),
        outcome=found.get("outcome", ""),
        request_id=found.get("request_id", ""),
        since=_start_of(found.get("since")),
        # The day named last is meant to be included.
        until=_start_of(until + timedelta(days=1) if until and until < date.max else None),
    )


def _chain(actor: Actor) -> dict[str, Any]:
    state = chain_state()
    return {
        "chain": state,
        "check": state.check,
        "checking": bool(state.check and not state.check.is_terminal),
        "report": state.check.result if state.check and state.check.is_terminal else None,
        "may_manage": allowed(actor, "audit.manage"),
        "behind": [sink for sink in state.sinks if sink.failures],
    }


def _row(entry: AuditEntry) -> EntryRow:
    after = entry.after
    if entry.action == CHECKPOINT and isinstance(after, dict):
        # The signed statement itself is for programs: they get it by the API and in exports.
        after = {name: value for name, value in after.items() if name != "envelope"}
    job_id = None
    if entry.source.startswith("job:"):
        with suppress(ValueError):
            job_id = uuid.UUID(entry.source.removeprefix("job:"))
    lines = change_lines(entry.before, after)
    return EntryRow(entry, lines, entry.action in DENIALS, job_id)


def _start_of(day: date | None) -> datetime | None:
    return datetime.combine(day, time.min, tzinfo=UTC) if day else None
