"""How people sign in, as the environment says: second factors, single sign-on, a directory."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from console.env_values import ConfigError, read_bool, read_files
from console.rules.group_roles import GroupRule, parse_rules
from console.rules.sign_in_means import POLICIES, Policy

SignUp = Literal["invited", "anybody"]
Choice = TypeVar("Choice", bound=str)
_SIGN_UPS: tuple[SignUp, ...] = ("invited", "anybody")

SIGN_IN_VARIABLES = frozenset(
    {
        "COVENANT_LDAP_ALLOW_PLAIN",
        "COVENANT_LDAP_BASE",
        "COVENANT_LDAP_BIND_DN",
        "COVENANT_LDAP_BIND_PASSWORD",
        "COVENANT_LDAP_CA",
        "COVENANT_LDAP_FILTER",
        "COVENANT_LDAP_GROUP_BASE",
        "COVENANT_LDAP_GROUP_ROLES",
        "COVENANT_LDAP_ID_ATTRIBUTE",
        "COVENANT_LDAP_SIGN_UP",
        "COVENANT_LDAP_URL",
        "COVENANT_OIDC_CLIENT_ID",
        "COVENANT_OIDC_CLIENT_SECRET",
        "COVENANT_OIDC_GROUPS_CLAIM",
        "COVENANT_OIDC_GROUP_ROLES",
        "COVENANT_OIDC_ISSUER",
        "COVENANT_OIDC_NAME",
        "COVENANT_OIDC_SCOPES",
        "COVENANT_OIDC_SIGN_UP",
        "COVENANT_REQUIRE_SECOND_FACTOR",
    }
)


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """One OpenID provider; `name` is what the button on the sign-in page says."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str = "single sign-on"
    scopes: str = "openid profile email"
    groups_claim: str = "groups"
    group_rules: tuple[GroupRule, ...] = ()
    sign_up: SignUp = "invited"


@dataclass(frozen=True, slots=True)
class LdapConfig:
    """One directory. `user_filter` has %(user)s where the name goes, escaped."""

    url: str
    base: str
    bind_dn: str = ""
    bind_password: str = field(default="", repr=False)
    user_filter: str = "(uid=%(user)s)"
    id_attribute: str = "entryUUID"
    group_base: str = ""
    group_rules: tuple[GroupRule, ...] = ()
    sign_up: SignUp = "invited"
    ca: Path | None = None
    start_tls: bool = True


@dataclass(frozen=True, slots=True)
class SignInConfig:
    """Whose second factor is required, and where people come from besides this installation."""

    require_second_factor: Policy = "none"
    oidc: OidcConfig | None = None
    ldap: LdapConfig | None = None


def read_sign_in(env: Mapping[str, str]) -> SignInConfig:
    """Read the part of the environment that is about signing in; raises ConfigError."""
    return SignInConfig(
        require_second_factor=_choice(env, "COVENANT_REQUIRE_SECOND_FACTOR", POLICIES),
        oidc=_oidc(env),
        ldap=_ldap(env),
    )


def _oidc(env: Mapping[str, str]) -> OidcConfig | None:
    issuer = env.get("COVENANT_OIDC_ISSUER", "").strip()
    if not issuer:
        _refuse_alone(env, "COVENANT_OIDC_", "COVENANT_OIDC_ISSUER")
        return None
    parts = urlsplit(issuer)
    encrypted = parts.scheme == "https" or (parts.scheme == "http" and _is_here(parts.hostname))
    if not encrypted or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(
            f"COVENANT_OIDC_ISSUER={issuer!r} is not accepted: use the https:// address that "
            "the provider calls its issuer (http:// only on this machine)."
        )
    scopes = " ".join((env.get("COVENANT_OIDC_SCOPES") or "openid profile email").split())
    if "openid" not in scopes.split():
        raise ConfigError("COVENANT_OIDC_SCOPES is not accepted: openid has to be among them.")
    return OidcConfig(
        issuer=issuer,
        client_id=_needed(env, "COVENANT_OIDC_CLIENT_ID", "COVENANT_OIDC_ISSUER"),
        client_secret=_needed(env, "COVENANT_OIDC_CLIENT_SECRET", "COVENANT_OIDC_ISSUER"),
        name=env.get("COVENANT_OIDC_NAME", "").strip()[:40] or parts.hostname,
        scopes=scopes,
        groups_claim=env.get("COVENANT_OIDC_GROUPS_CLAIM", "").strip() or "groups",
        group_rules=_group_rules(env, "COVENANT_OIDC_GROUP_ROLES"),
        sign_up=_choice(env, "COVENANT_OIDC_SIGN_UP", _SIGN_UPS),
    )


def _ldap(env: Mapping[str, str]) -> LdapConfig | None:
    url = env.get("COVENANT_LDAP_URL", "").strip()
    if not url:
        _refuse_alone(env, "COVENANT_LDAP_", "COVENANT_LDAP_URL")
        return None
    parts = urlsplit(url)
    if parts.scheme not in {"ldap", "ldaps"} or not parts.hostname or parts.path.strip("/"):
        raise ConfigError(
            f"COVENANT_LDAP_URL={url!r} is not accepted: use ldaps://host or ldap://host:port."
        )
    user_filter = env.get("COVENANT_LDAP_FILTER", "").strip() or "(uid=%(user)s)"
    if user_filter.count("%(user)s") != 1 or user_filter.count("%") != 1:
        raise ConfigError(
            "COVENANT_LDAP_FILTER is not accepted: it needs %(user)s once, as in (uid=%(user)s)."
        )
    base = _needed(env, "COVENANT_LDAP_BASE", "COVENANT_LDAP_URL")
    plain = read_bool(env, "COVENANT_LDAP_ALLOW_PLAIN", False)
    return LdapConfig(
        url=url,
        base=base,
        bind_dn=env.get("COVENANT_LDAP_BIND_DN", ""),
        bind_password=env.get("COVENANT_LDAP_BIND_PASSWORD", ""),
        user_filter=user_filter,
        id_attribute=env.get("COVENANT_LDAP_ID_ATTRIBUTE", "").strip() or "entryUUID",
        group_base=env.get("COVENANT_LDAP_GROUP_BASE", ""),
        group_rules=_group_rules(env, "COVENANT_LDAP_GROUP_ROLES"),
        sign_up=_choice(env, "COVENANT_LDAP_SIGN_UP", _SIGN_UPS),
        ca=next(iter(read_files(env, "COVENANT_LDAP_CA")), None),
        # Passwords go over this line: in the clear only within this machine, or when told so.
        start_tls=parts.scheme == "ldap" and not plain and not _is_here(parts.hostname),
    )


def _choice(env: Mapping[str, str], name: str, choices: tuple[Choice, ...]) -> Choice:
    raw = env.get(name) or choices[0]
    for choice in choices:
        if raw == choice:
            return choice
    raise ConfigError(f"{name}={raw!r} is not accepted: use {' or '.join(choices)}.")


def _needed(env: Mapping[str, str], name: str, because: str) -> str:
    if value := env.get(name, "").strip():
        return value
    raise ConfigError(f"{name} is missing: it belongs to {because}.")


def _refuse_alone(env: Mapping[str, str], prefix: str, name: str) -> None:
    if lonely := sorted(key for key in env if key.startswith(prefix) and env[key]):
        raise ConfigError(f"{lonely[0]} is set, but {name} is not: set both or none.")


def _group_rules(env: Mapping[str, str], name: str) -> tuple[GroupRule, ...]:
    try:
        return parse_rules(env.get(name, ""))
    except ValueError as error:
        raise ConfigError(f"{name} is not accepted: {error}.") from error


def _is_here(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
