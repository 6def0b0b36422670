"""Settings → Alert channels: where alerts are sent to, tried, and what was sent."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import require
from console.api.authentication import actor_of
from console.errors import Conflict, CovenantError, Invalid
from console.selectors.paging import page_of
from deployments.channel_forms import ChannelForm, DeliveryFilterForm
from deployments.models import AlertChannel, AlertDelivery, ChannelKind
from deployments.selectors.alerts.deliveries import (
    MOST_OF_ONE,
    DeliveryFilter,
    channel_list,
    delivery_list,
)
from deployments.services.alerts.channel_tests import try_channel
from deployments.services.alerts.channels import (
    change_channel,
    create_channel,
    find_channel,
    remove_channel,
    rotate_secret,
)
from deployments.services.alerts.deliveries import retry

ACTION = "alert_channel.manage"


@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """The channels, and a form for one more; a webhook's secret is shown this once."""
    actor = actor_of(request)
    require(actor, ACTION)
    kind = request.POST.get("kind") or request.GET.get("kind") or ChannelKind.SLACK
    if kind not in ChannelKind.values:
        kind = ChannelKind.SLACK
    if request.method != "POST":
        return _page(request, ChannelForm(kind=kind))
    form = ChannelForm(request.POST, kind=kind)
    if not form.is_valid():
        return _page(request, form, status=422)
    try:
        made, secret = create_channel(kind=kind, actor=actor, **form.given())
    except (Invalid, Conflict) as error:
        form.add_refusal(error)
        return _page(request, form, status=422)
    if secret:
        return _page(request, ChannelForm(kind=kind), made=made, secret=secret, status=201)
    messages.success(
        request, _("%(name)s is a channel now: send a test to see it work.") % {"name": made.name}
    )
    return redirect("deployments:alert-channel", made.name)


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: HttpRequest, channel: str) -> HttpResponse:
    """One channel: how it does, what was sent, and a form to change it."""
    actor = actor_of(request)
    require(actor, ACTION)
    row = find_channel(channel)
    if request.method != "POST":
        return _one(request, row, ChannelForm(kind=row.kind, changed=row))
    form = ChannelForm(request.POST, kind=row.kind, changed=row)
    if not form.is_valid():
        return _one(request, row, form, status=422)
    try:
        change_channel(name=row.name, actor=actor, **form.given())
    except Invalid as error:
        form.add_refusal(error)
        return _one(request, row, form, status=422)
    messages.success(request, _("The channel %(name)s is changed.") % {"name": row.name})
    return redirect("deployments:alert-channel", row.name)


@require_POST
def test(request: HttpRequest, channel: str) -> HttpResponse:
    """Send a message that says that it is a test, and show what was answered."""
    tried = try_channel(name=channel, actor=actor_of(request))
    row = find_channel(channel)
    return _one(request, row, ChannelForm(kind=row.kind, changed=row), tried=tried)


@require_POST
def rotate(request: HttpRequest, channel: str) -> HttpResponse:
    """A new secret, shown this once."""
    row, secret = rotate_secret(name=channel, actor=actor_of(request))
    form = ChannelForm(kind=row.kind, changed=row)
    return _one(request, row, form, secret=secret, status=201)


@require_POST
def switch(request: HttpRequest, channel: str) -> HttpResponse:
    """Stop a channel, or start it again."""
    change_channel(
        name=channel,
        enabled=request.POST.get("enabled") == "1",
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
    )
    return redirect("deployments:alert-channel", channel)


@require_POST
def remove(request: HttpRequest, channel: str) -> HttpResponse:
    """Send nothing there any more."""
    try:
        remove_channel(name=channel, reason=request.POST.get("reason", ""), actor=actor_of(request))
    except Conflict as error:
        _tell(request, error)
        return redirect("deployments:alert-channel", channel)
    messages.success(request, _("Nothing is sent to %(name)s any more.") % {"name": channel})
    return redirect("deployments:alert-channels")


@require_safe
def deliveries(request: HttpRequest) -> HttpResponse:
    """Every message, newest first."""
    require(actor_of(request), ACTION)
    form = DeliveryFilterForm(request.GET)
    form.is_valid()
    wanted = DeliveryFilter(**{name: form.cleaned_data.get(name, "") for name in form.fields})
    page = page_of(delivery_list(wanted), cursor=request.GET.get("cursor", ""))
    context = {
        "form": form,
        "wanted": wanted,
        "deliveries": page.rows,
        "channels": AlertChannel.objects.order_by("name").values_list("name", flat=True)[:200],
        **page.links(request.GET),
    }
    return render(request, "deployments/alert_channels/deliveries.html", context)


@require_POST
def deliver_again(request: HttpRequest, delivery_id: uuid.UUID) -> HttpResponse:
    """Send a message that failed once more."""
    try:
        row = retry(delivery_id=delivery_id, actor=actor_of(request))
    except Conflict as error:
        _tell(request, error)
    else:
        messages.success(
            request, _("The message to %(name)s is sent again.") % {"name": row.receiver}
        )
    return redirect("deployments:alert-deliveries")


@never_cache
def _page(
    request: HttpRequest,
    form: ChannelForm,
    *,
    made: AlertChannel | None = None,
    secret: str = "",
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "kind": form.kind,
        "kinds": ChannelKind.choices,
        "made": made,
        "secret": secret,
        "channels": channel_list(timezone.now()),
    }
    return render(request, "deployments/alert_channels/list.html", context, status=status)


@never_cache
def _one(
    request: HttpRequest,
    row: AlertChannel,
    form: ChannelForm,
    *,
    tried: list[AlertDelivery] | None = None,
    secret: str = "",
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        "channel": row,
        "form": form,
        "tried": tried or [],
        "secret": secret,
        "routes": row.routes.order_by("position"),
        "deliveries": delivery_list(DeliveryFilter(channel=row.name))[:MOST_OF_ONE],
    }
    return render(request, "deployments/alert_channels/detail.html", context, status=status)


def _tell(request: HttpRequest, error: CovenantError) -> None:
    messages.error(request, f"{error.message} {error.hint}".strip())
