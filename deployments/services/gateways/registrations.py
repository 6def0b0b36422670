"""Registering gateways: which there are, how they are reached, and where they take calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid
from console.services import audit
from deployments.adapters.gateway_secrets import check_reference
from deployments.models import Endpoint, Gateway, GatewayListener, GatewayProduct
from deployments.rules.gateways.options import parse_admin_url, parse_options
from deployments.selectors.gateways.registered import find_gateway
from deployments.services.gateways.desired import wake_gateways
from models_registry.models import Environment

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")

Listeners = Mapping[str, tuple[str, int]]
"""For each environment the address and port on which a gateway takes its calls."""


def register_gateway(
    *,
    name: str,
    admin_url: str,
    listeners: Listeners,
    actor: Actor,
    adapter: str = GatewayProduct.ENVOY,
    options: Mapping[str, Any] | None = None,
    public_urls: Mapping[str, str] | None = None,
) -> Gateway:
    """Register a gateway, or register it anew; the same again is no change.

    An Envoy introduces itself by `name`; the others are gone to at `admin_url`. `public_urls` is
    where callers reach each environment, by default `http://<address>:<port>`.

    Raises Invalid, Conflict `other_product` when the name is taken by another product, NotAllowed.
    """
    require(actor, "gateway.register")
    if not _NAME.match(name):
        raise _fault("/name", "Use lower-case letters, digits and dashes, at most 40.")
    if adapter not in GatewayProduct.values:
        raise _fault("/adapter", f"Use one of {', '.join(GatewayProduct.values)}.")
    with transaction.atomic():
        known = Gateway.objects.select_for_update().filter(name=name).first()
        if known is not None and known.adapter != adapter:
            raise Conflict(
                f"The gateway {name} is registered as {known.get_adapter_display()}.",
                code="other_product",
                hint="Remove it first, or take another name.",
            )
        return _write(
            known or Gateway(name=name, adapter=adapter),
            admin_url=admin_url,
            options={} if options is None else options,
            listeners=listeners,
            public_urls=public_urls or {},
            actor=actor,
        )


def change_gateway(
    *,
    name: str,
    actor: Actor,
    admin_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    listeners: Listeners | None = None,
    public_urls: Mapping[str, str] | None = None,
) -> Gateway:
    """Change what is given of a registration; listeners that are left out end.

    Raises Invalid, NotFound, NotAllowed.
    """
    require(actor, "gateway.register")
    with transaction.atomic():
        gateway = Gateway.objects.select_for_update().get(pk=find_gateway(name).pk)
        now = {one.environment.name: one for one in _listeners(gateway)}
        places = {e: (one.address, one.port) for e, one in now.items()}
        wanted = places if listeners is None else listeners
        kept = {e: one.public_url for e, one in now.items() if wanted.get(e) == places[e]}
        return _write(
            gateway,
            admin_url=gateway.admin_url if admin_url is None else admin_url,
            options=gateway.options if options is None else options,
            listeners=wanted,
            public_urls={**kept, **(public_urls or {})},
            actor=actor,
        )


def remove_gateway(*, name: str, reason: str, actor: Actor) -> None:
    """Forget a gateway; it serves on with what it has, and is told nothing more.

    Raises Conflict `gateway_in_use` for one that is connected and alone in serving an environment
    with traffic, Invalid without a reason, NotFound, NotAllowed.
    """
    require(actor, "gateway.register")
    if not reason.strip():
        raise _fault("/reason", "This is needed.", "A reason is needed.", "reason_missing")
    with transaction.atomic():
        gateway = Gateway.objects.select_for_update().get(pk=find_gateway(name).pk)
        if gateway.connected and (alone := _alone_for(gateway)):
            raise Conflict(
                f"{name} is connected, and no other gateway serves {', '.join(alone)}.",
                code="gateway_in_use",
                hint="Register another gateway for them first, or stop this one.",
            )
        before = described(gateway)
        gateway.delete()
        wake_gateways()
        live.publish("gateways", "gateway.changed", {"gateway": name})
        audit.record(
            actor=actor,
            action="gateway.remove",
            subject=f"gateway {name}",
            reason=reason.strip(),
            before=before,
        )


def described(gateway: Gateway) -> dict[str, Any]:
    """A registration as the audit trail keeps it; options hold no secret."""
    return {
        "adapter": gateway.adapter,
        "admin_url": gateway.admin_url,
        "options": gateway.options,
        "listeners": {
            one.environment.name: [f"{one.address}:{one.port}", one.public_url]
            for one in _listeners(gateway)
        },
    }


def _write(
    gateway: Gateway,
    *,
    admin_url: str,
    options: Mapping[str, Any],
    listeners: Listeners,
    public_urls: Mapping[str, str],
    actor: Actor,
) -> Gateway:
    before = described(gateway) if gateway.pk else None
    address = parse_admin_url(gateway.adapter, admin_url)
    checked = _options(gateway.adapter, options, listeners)
    if before is None or (gateway.admin_url, gateway.options) != (address, checked):
        gateway.admin_url, gateway.options = address, checked
        gateway.save()
    _listen(gateway, listeners, public_urls)
    if (after := described(gateway)) != before:
        wake_gateways()
        live.publish("gateways", "gateway.changed", {"gateway": gateway.name})
        audit.record(
            actor=actor,
            action="gateway.register",
            subject=f"gateway {gateway.name}",
            subject_url=f"/gateways/{gateway.name}/",
            before=before,
            after=after,
        )
    return gateway


def _options(adapter: str, options: Mapping[str, Any], listeners: Listeners) -> dict[str, Any]:
    checked = parse_options(adapter, options, list(listeners))
    try:
        check_reference(checked, settings.CONFIG.gateway_secrets)
    except Invalid as fault:
        field = "token_env" if "token_env" in checked else "token_file"
        raise _fault(f"/options/{field}", f"{fault.message} {fault.hint}") from fault
    return checked


def _listen(gateway: Gateway, listeners: Listeners, urls: Mapping[str, str]) -> None:
    if not listeners:
        raise _fault("/listeners", "Name at least one environment.", code="environment_missing")
    left_out = gateway.listeners.exclude(environment__name__in=list(listeners))
    if left_out.exists():
        left_out.delete()
    places = {one.name: one for one in Environment.objects.filter(name__in=list(listeners))}
    for environment, (address, port) in listeners.items():
        if environment not in places:
            raise _fault("/listeners", f"{environment} is not known.", code="unknown_environment")
        if not address or not 0 < port < 65536:
            raise _fault("/listeners", f"{environment} needs an address and a port.")
        known = gateway.listeners.filter(environment=places[environment]).first()
        # Where a listener speaks TLS, registering the gateway anew does not change that.
        scheme = "https" if known is not None and known.certificate_file else "http"
        listener = known or GatewayListener(gateway=gateway, environment=places[environment])
        place = (address, port, urls.get(environment) or f"{scheme}://{address}:{port}")
        if place != (listener.address, listener.port, listener.public_url) or not listener.pk:
            listener.address, listener.port, listener.public_url = place
            listener.save()


def _listeners(gateway: Gateway) -> list[GatewayListener]:
    return list(gateway.listeners.select_related("environment").order_by("environment__name"))


def _alone_for(gateway: Gateway) -> list[str]:
    """Environments with traffic that only this gateway listens for."""
    with_traffic = Endpoint.objects.filter(current__isnull=False).values("environment_id")
    served = Environment.objects.filter(
        pk__in=gateway.listeners.filter(environment_id__in=with_traffic).values("environment_id")
    )
    others = GatewayListener.objects.exclude(gateway=gateway).values("environment_id")
    return list(served.exclude(pk__in=others).order_by("name").values_list("name", flat=True))


def _fault(
    pointer: str,
    words: str,
    message: str = "The gateway cannot be registered so.",
    code: str = "invalid_gateway",
) -> Invalid:
    return Invalid(message, code=code, errors=(FieldError(pointer, words),))
