"""An OpenID provider's public keys: its discovery document and the key set that it names.

Fetched from registered issuers only, over https (or from this machine, where an issuer there was
registered), without following redirects, within a time and a size, from an address that was looked
at before it is connected to.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
from jwt import PyJWK, PyJWKClient
from jwt.exceptions import PyJWKClientError, PyJWKSetError

from console.errors import Unavailable
from console.rules.outgoing import carried_addresses
from console.rules.workload_tokens import discovery_address, is_loopback

SECONDS = 5.0
MOST_BYTES = 256 * 1024
KEYS_KEPT_SECONDS = 300
# An unknown key id makes us look again, but not more often than this.
LOOK_AGAIN_SECONDS = 30
DISCOVERY_KEPT_SECONDS = 3600
MOST_ISSUERS = 64

_lock = threading.Lock()
_clients: dict[str, tuple[PyJWKClient, float]] = {}


class _Keys(PyJWKClient):
    """PyJWT's client with its caches, over our own guarded way to the network."""

    def __init__(self, uri: str, *, loopback: bool) -> None:
        super().__init__(
            uri, lifespan=KEYS_KEPT_SECONDS, cooldown_duration=LOOK_AGAIN_SECONDS, timeout=SECONDS
        )
        self._loopback = loopback

    def fetch_data(self) -> Any:
        keys = self._as_jwk_set_payload(_get_json(self.uri, loopback=self._loopback))
        # A shared secret has no place in a public set: whoever reads it could sign.
        keys = {"keys": [k for k in keys.get("keys", []) if _is_public(k)]}
        if self.jwk_set_cache is not None:
            self.jwk_set_cache.put(keys)
        self._last_successful_fetch = time.monotonic()
        return keys


def signing_key(issuer: str, key_id: str) -> PyJWK | None:
    """The issuer's public key with this id, or None when it has none.

    Raises Unavailable (`issuer_unreachable`, `issuer_wrong`) with what went wrong.
    """
    try:
        return _client(issuer).get_signing_key(key_id)
    except PyJWKClientError as error:
        if "Unable to find" in str(error) or "did not contain any signing" in str(error):
            return None
        raise _wrong(issuer, str(error)) from error
    except PyJWKSetError as error:
        raise _wrong(issuer, f"its key set has no usable key: {error}") from error


def forget_issuers() -> None:
    """Ask every issuer anew at the next token."""
    with _lock:
        _clients.clear()


def _client(issuer: str) -> PyJWKClient:
    now = time.monotonic()
    with _lock:
        found = _clients.get(issuer)
    if found is not None and found[1] > now:
        return found[0]
    loopback = is_loopback(issuer)
    document = _get_json(discovery_address(issuer), loopback=loopback)
    if not isinstance(document, Mapping) or document.get("issuer") != issuer:
        raise _wrong(issuer, "its discovery document names another issuer")
    address = document.get("jwks_uri")
    if not isinstance(address, str):
        raise _wrong(issuer, "its discovery document names no jwks_uri")
    if loopback and urlsplit(address).netloc != urlsplit(issuer).netloc:
        raise _wrong(issuer, "its keys lie on another host")
    client = _Keys(address, loopback=loopback)
    with _lock:
        if len(_clients) >= MOST_ISSUERS:
            _clients.clear()
        _clients[issuer] = (client, now + DISCOVERY_KEPT_SECONDS)
    return client


def _get_json(address: str, *, loopback: bool) -> Any:
    """A JSON document; the connection goes to the very address that was looked at."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme != "https" and not (loopback and parts.scheme == "http"):
        raise _wrong(address, "it is not https")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    chosen = _address_of(host, port, loopback=loopback)
    url = httpx.URL(address).copy_with(host=chosen)
    body = bytearray()
    deadline = time.monotonic() + SECONDS
    try:
        with (
            httpx.Client(timeout=SECONDS, follow_redirects=False, trust_env=False) as client,
            client.stream(
                "GET",
                url,
                headers={"Host": parts.netloc, "Accept": "application/json"},
                # The certificate has to be the host's, whatever address it was found at.
                extensions={"sni_hostname": host},
            ) as answer,
        ):
            if answer.status_code != 200:
                raise _wrong(address, f"it answered {answer.status_code}")
            for block in answer.iter_bytes():
                body += block
                if len(body) > MOST_BYTES:
                    raise _wrong(address, f"it sent more than {MOST_BYTES // 1024} KiB")
                if time.monotonic() > deadline:
                    raise _unreachable(address, f"it took longer than {SECONDS:g} s")
        return json.loads(body)
    except httpx.HTTPError as error:
        raise _unreachable(address, str(error) or type(error).__name__) from error
    except ValueError as error:
        raise _wrong(address, "it sent no JSON") from error


def _address_of(host: str, port: int, *, loopback: bool) -> str:
    """An IP address of the host that may be called: none of this machine or its link."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _unreachable(host, f"its name is not known ({error})") from error
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    for text in addresses:
        address = ipaddress.ip_address(text)
        # An address may carry another one in itself, and then that is where it leads.
        if any(
            inner.is_loopback != loopback
            or inner.is_link_local
            or inner.is_multicast
            or inner.is_unspecified
            or inner.is_reserved
            for inner in (*carried_addresses(address),) or (address,)
        ):
            raise _wrong(host, f"its name leads to {text}, which is not called from here")
    return addresses[0]


def _is_public(key: Any) -> bool:
    return isinstance(key, dict) and key.get("kty") in {"RSA", "EC", "OKP"} and "d" not in key


def _unreachable(what: str, why: str) -> Unavailable:
    return Unavailable(
        f"The issuer at {what} cannot be asked for its keys: {why}.",
        code="issuer_unreachable",
        hint="Try again in a moment; when it stays so, check the way from here to the issuer.",
    )


def _wrong(what: str, why: str) -> Unavailable:
    return Unavailable(
        f"The issuer at {what} cannot be used: {why}.",
        code="issuer_wrong",
        hint="Check the issuer's address under Settings → Service accounts.",
        retryable=False,
    )
