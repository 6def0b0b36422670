"""Settings: how long counts are kept."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.actors import allowed, require
from console.api.authentication import actor_of
from console.errors import CovenantError, Stale
from deployments.retention_forms import RetentionForm
from deployments.rules.statistics.retention import FIELDS
from deployments.selectors.statistics.retention import Retention, retention
from deployments.services.statistics.retention import set_retention


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: HttpRequest) -> HttpResponse:
    """Show what is kept how long and what room it takes; POST says it anew."""
    if request.method != "POST":
        found = retention()
        return _page(request, found, RetentionForm(initial=dict(found.days)))
    require(actor_of(request), "statistics.manage")
    form = RetentionForm(request.POST)
    if form.is_valid():
        revision = request.POST.get("revision", "")
        try:
            set_retention(
                days=form.days(),
                expected_revision=int(revision) if revision.isdecimal() else None,
                reason=form.cleaned_data["reason"],
                actor=actor_of(request),
            )
        except Stale as error:
            messages.error(request, f"{error.message} {error.hint}")
            return redirect("deployments:retention")
        except CovenantError as error:
            form.add_refusal(error)
            return _page(request, retention(), form, status=error.status)
        messages.success(request, _("From now on counts are kept like that."))
        return redirect("deployments:retention")
    return _page(request, retention(), form, status=422)


def _page(
    request: HttpRequest, found: Retention, form: RetentionForm, *, status: int = 200
) -> HttpResponse:
    rows = [
        {"field": form[name], "days": found.days[name], "room": found.room[name]} for name in FIELDS
    ]
    context = {
        "found": found,
        "form": form,
        "rows": rows,
        "total_bytes": sum(one.size_bytes for one in found.room.values()),
        "may_change": allowed(actor_of(request), "statistics.manage"),
    }
    return render(request, "deployments/retention/detail.html", context, status=status)
