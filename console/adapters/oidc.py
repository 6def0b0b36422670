"""An OpenID provider, by mozilla-django-oidc: where to send a browser, and whom it came back as.

Authorisation code with PKCE, state and nonce. The library speaks to the provider and picks the
key; what an ID token has to say is checked here (OpenID Connect Core 1.0, section 3.1.3.7).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt
import requests
from django.core.exceptions import SuspiciousOperation
from django.utils.crypto import get_random_string
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import generate_code_challenge

from console.env_sign_in import OidcConfig
from console.errors import NotAllowed, Unavailable
from console.rules.outsiders import Outsider

SECONDS = 5
LEEWAY = 60
METADATA_SECONDS = 600
LARGEST_ANSWER = 512 * 1024
# Asymmetric ones alone: a shared secret, or none, proves less than a key.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")

_lock = Lock()
_known: dict[str, tuple[float, Metadata]] = {}


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the provider says about itself (OpenID Connect Discovery 1.0)."""

    authorization_endpoint: str
    token_endpoint: str
    userinfo_endpoint: str
    jwks_uri: str
    end_session_endpoint: str
    algorithms: tuple[str, ...]
    basic_auth: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A sign-in that was begun; all but `url` stay in the browser's session until it returns."""

    url: str
    state: str
    nonce: str
    verifier: str


def discover(config: OidcConfig, *, again: bool = False) -> Metadata:
    """The provider's description, kept for ten minutes. Raises Unavailable."""
    with _lock:
        at, known = _known.get(config.issuer, (0.0, None))
    if known is not None and not again and time.monotonic() - at < METADATA_SECONDS:
        return known
    address = f"{config.issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        answer = requests.get(address, timeout=SECONDS, allow_redirects=False)
        answer.raise_for_status()
        metadata = _read(config, answer.json())
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        raise _unavailable(config, error) from error
    with _lock:
        _known[config.issuer] = (time.monotonic(), metadata)
    return metadata


def begin(config: OidcConfig, *, return_url: str, fresh: bool = False) -> Request:
    """Where to send the browser; `fresh` has the provider ask again who it is.

    Raises Unavailable.
    """
    metadata = discover(config)
    begun = Request(
        "", get_random_string(32), get_random_string(32), verifier=get_random_string(64)
    )
    query = {
        "response_type": "code",
        "scope": config.scopes,
        "client_id": config.client_id,
        "redirect_uri": return_url,
        "state": begun.state,
        "nonce": begun.nonce,
        "code_challenge": generate_code_challenge(begun.verifier, "S256"),
        "code_challenge_method": "S256",
        **({"prompt": "login"} if fresh else {}),
    }
    joint = "&" if urlsplit(metadata.authorization_endpoint).query else "?"
    url = f"{metadata.authorization_endpoint}{joint}{urlencode(query)}"
    return Request(url, begun.state, begun.nonce, begun.verifier)


def finish(
    config: OidcConfig, *, code: str, nonce: str, verifier: str, return_url: str
) -> Outsider:
    """Whom the provider says that the browser came back as.

    Raises NotAllowed (`bad_provider_answer`) for a code, a signature or claims that do not hold,
    Unavailable when the provider cannot be asked.
    """
    client = _Client(config, discover(config))
    try:
        tokens = client.get_token(
            {
                "client_id": config.client_id,
                "client_secret": config.client_secret,
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": return_url,
                "code_verifier": verifier,
            }
        )
        claims = client.verify_token(tokens["id_token"], nonce=nonce)
        said = client.get_userinfo(tokens["access_token"], tokens["id_token"], claims)
    except requests.HTTPError as error:
        if error.response is not None and error.response.status_code < 500:
            raise _refused("it did not accept the code of this sign-in") from error
        raise _unavailable(config, error) from error
    except requests.RequestException as error:
        raise _unavailable(config, error) from error
    except (SuspiciousOperation, jwt.PyJWTError) as error:
        raise _refused(f"its token does not hold ({str(error).rstrip('.')[:120]})") from error
    except (KeyError, TypeError, ValueError) as error:
        raise _refused("its answer is not one of OpenID Connect") from error
    if not isinstance(said, dict) or said.get("sub") != claims["sub"]:
        raise _refused("it spoke of two different people")
    return _outsider(config, {**claims, **said})


def end_session_url(config: OidcConfig, *, return_url: str) -> str:
    """Where one signs out at the provider too; empty when it offers that nowhere.

    Asks nobody: only what is known of the provider already.
    """
    with _lock:
        _, known = _known.get(config.issuer, (0.0, None))
    if known is None or not known.end_session_endpoint:
        return ""
    query = {"client_id": config.client_id, "post_logout_redirect_uri": return_url}
    return f"{known.end_session_endpoint}?{urlencode(query)}"


class _Client(OIDCAuthenticationBackend):  # type: ignore[misc]
    """The library's client with the provider's own description in place of Django's settings."""

    def __init__(self, config: OidcConfig, metadata: Metadata) -> None:
        self.config, self.metadata = config, metadata
        self._settings = {
            "OIDC_OP_TOKEN_ENDPOINT": metadata.token_endpoint,
            "OIDC_OP_USER_ENDPOINT": metadata.userinfo_endpoint,
            "OIDC_OP_JWKS_ENDPOINT": metadata.jwks_uri,
            "OIDC_RP_CLIENT_ID": config.client_id,
            "OIDC_RP_CLIENT_SECRET": config.client_secret,
            "OIDC_RP_SIGN_ALGO": metadata.algorithms[0],
            "OIDC_TOKEN_USE_BASIC_AUTH": metadata.basic_auth,
            "OIDC_TIMEOUT": SECONDS,
        }
        super().__init__()

    def get_settings(self, attr: str, *args: Any) -> Any:
        """The value of a setting; what is not ours has the library's default."""
        return self._settings.get(attr, *args) if args else self._settings[attr]

    def _verify_jws(self, payload: str, key: Any) -> dict[str, Any]:
        """Signature, algorithm, issuer, audience and times of a token."""
        algorithm = jwt.get_unverified_header(payload).get("alg")
        if algorithm not in self.metadata.algorithms:
            raise SuspiciousOperation(f"signed by {algorithm}")
        claims: dict[str, Any] = jwt.decode(
            payload,
            key,
            algorithms=[algorithm],
            audience=self.config.client_id,
            issuer=self.config.issuer,
            leeway=LEEWAY,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", self.config.client_id if not several else "") != self.config.client_id:
            raise SuspiciousOperation("issued to another client")
        return claims


def _read(config: OidcConfig, said: Mapping[str, Any]) -> Metadata:
    if said["issuer"] != config.issuer:
        raise ValueError(f"it calls its issuer {str(said['issuer'])[:200]}")
    offered = said.get("id_token_signing_alg_values_supported") or ["RS256"]
    algorithms = tuple(name for name in ALGORITHMS if name in offered)
    if not algorithms:
        raise ValueError("it signs with no algorithm that is taken here")
    methods = said.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    return Metadata(
        authorization_endpoint=_endpoint(config, said["authorization_endpoint"]),
        token_endpoint=_endpoint(config, said["token_endpoint"]),
        userinfo_endpoint=_endpoint(config, said["userinfo_endpoint"]),
        jwks_uri=_endpoint(config, said["jwks_uri"]),
        end_session_endpoint=_endpoint(config, said.get("end_session_endpoint") or ""),
        algorithms=algorithms,
        basic_auth="client_secret_basic" in methods,
    )


def _endpoint(config: OidcConfig, address: str) -> str:
    """An address of the provider, no less encrypted than its issuer."""
    scheme = urlsplit(address).scheme
    if address and scheme != "https" and scheme != urlsplit(config.issuer).scheme:
        raise ValueError(f"its address {address[:200]} is not encrypted")
    return address


def _outsider(config: OidcConfig, said: Mapping[str, Any]) -> Outsider:
    groups = said.get(config.groups_claim) or ()
    listed = groups if isinstance(groups, (list, tuple)) else [groups]
    return Outsider(
        source="oidc",
        issuer=config.issuer,
        subject=str(said["sub"])[:255],
        username=str(said.get("preferred_username") or ""),
        display_name=str(said.get("name") or "").strip(),
        email=str(said.get("email") or "").strip(),
        groups=tuple(str(group) for group in listed[:1000]),
    )


def _refused(reason: str) -> NotAllowed:
    return NotAllowed(
        f"The identity provider's answer was not accepted: {reason}.",
        code="bad_provider_answer",
        hint="Begin again on the sign-in page; when it comes back, tell a platform admin.",
    )


def _unavailable(config: OidcConfig, error: Exception) -> Unavailable:
    return Unavailable(
        f"The identity provider {config.issuer} could not be asked: {_words(error)}.",
        code="provider_unavailable",
        hint="Try again shortly, or sign in another way. Platform admins see under "
        "Settings → System check what is wrong.",
    )


def _words(error: Exception) -> str:
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"it answered {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return f"no answer within {SECONDS} seconds"
    if isinstance(error, requests.ConnectionError):
        return "nothing answers there"
    return str(error).rstrip(".")[:200] or type(error).__name__
