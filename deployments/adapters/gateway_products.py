"""The adapter of each gateway product that is reached at its `admin_url`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import httpx

from deployments.adapters.gateway import GatewayAdapter, Registration, Word
from deployments.adapters.gateway_secrets import read_token
from deployments.adapters.kong import entities as kong
from deployments.adapters.kong.admin import AdminApi
from deployments.adapters.kong.line import KongLine
from deployments.adapters.kubernetes import objects as kubernetes
from deployments.adapters.kubernetes.api import KubernetesApi
from deployments.adapters.kubernetes.line import KubernetesLine
from deployments.adapters.reaching import Pace, ReachingAdapter

TIMEOUT = httpx.Timeout(5.0, connect=2.0)


def reaching_adapters(
    hear: Callable[[Word], None], secrets: Path, pace: Pace | None = None
) -> dict[str, GatewayAdapter]:
    """An adapter for each product that is reached, by product.

    `secrets` is this installation's folder for gateways' tokens.
    """

    def to_kong(gateway: Registration) -> KongLine:
        client = _client(gateway, secrets, "kong-admin-token", "{}")
        site = kong.site_of(gateway.name, gateway.options)
        return KongLine(AdminApi(client, gateway.name), site, client.aclose)

    def to_kubernetes(gateway: Registration) -> KubernetesLine:
        client = _client(gateway, secrets, "authorization", "Bearer {}")
        site = kubernetes.site_of(gateway.name, gateway.options)
        api = KubernetesApi(client, gateway.name, site.namespace)
        return KubernetesLine(api, site, client.aclose)

    return {
        "kong": ReachingAdapter(to_kong, hear, pace),
        "kubernetes": ReachingAdapter(to_kubernetes, hear, pace),
    }


class _Token(httpx.Auth):
    """Sends the token as it is now: mounted ones are changed while we run."""

    def __init__(self, options: Mapping[str, Any], secrets: Path, header: str, form: str) -> None:
        self._options = options
        self._secrets = secrets
        self._header = header
        self._form = form

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        if token := read_token(self._options, self._secrets):
            request.headers[self._header] = self._form.format(token)
        yield request


def _client(gateway: Registration, secrets: Path, header: str, form: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=gateway.admin_url.rstrip("/"),
        timeout=TIMEOUT,
        auth=_Token(gateway.options, secrets, header, form),
        verify=_trust(gateway.options),
        # A token goes to the address that was registered and to no other.
        follow_redirects=False,
        trust_env=False,
    )


def _trust(options: Mapping[str, Any]) -> ssl.SSLContext:
    """The certificate authorities of this machine, or the one in `ca_file` alone."""
    file = options.get("ca_file")
    if not file or not Path(str(file)).is_file():
        return ssl.create_default_context()
    return ssl.create_default_context(cafile=str(file))
