"""A person's notices: what they were told, and that they have seen to it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from console.api.authentication import actor_of
from console.selectors.notices import notices_of
from console.selectors.paging import page_of
from console.services.notices import dismiss


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Everything that one was told, seen to or not."""
    notices = notices_of(actor_of(request).user, only_open=False)
    page = page_of(notices, cursor=request.GET.get("cursor", ""))
    context = {"notices": page.rows, **page.links(request.GET)}
    return render(request, "console/notices/list.html", context)


@require_POST
def done(request: HttpRequest, notice_id: int) -> HttpResponse:
    """One's own notice is seen to; back to where it was."""
    dismiss(notice_id=notice_id, actor=actor_of(request))
    return redirect("home" if request.POST.get("from") == "home" else "console:notice-list")
