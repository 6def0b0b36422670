"""Whether the ways to sign in that are configured work: provider, directory, passkeys."""

from __future__ import annotations

from importlib import import_module
from typing import Literal

from console.env import Config
from console.env_sign_in import LdapConfig, OidcConfig
from console.errors import Unavailable
from console.rules.relying_party import why_no_passkeys

Found = tuple[str, Literal["ok", "warning", "fault"], str, str]


def look(config: Config) -> list[Found]:
    """(subject, ok | warning | fault, detail, mend) of each; asks provider and directory anew."""
    found = [_site(config)]
    if config.sign_in.oidc:
        found.append(_provider(config.sign_in.oidc))
    if config.sign_in.ldap:
        found.append(_directory(config.sign_in.ldap))
    return found


def _site(config: Config) -> Found:
    policy = config.sign_in.require_second_factor
    asked = {"none": "asked of nobody", "admins": "asked of platform admins"}
    passkeys = why_no_passkeys(config.base_url) or "Passkeys can be used."
    second = asked.get(policy, "asked of everybody")
    return ("sign-in", "ok", f"A second factor is {second}. {passkeys}", "")


def _provider(config: OidcConfig) -> Found:
    # Django's machinery is behind it: the rest of the stack's code does without.
    oidc = import_module("console.adapters.oidc")
    try:
        metadata = oidc.discover(config, again=True)
    except Unavailable as error:
        mend = "Check COVENANT_OIDC_ISSUER, and that this machine reaches it."
        return ("provider", "fault", error.message, mend)
    return (
        "provider",
        "ok",
        f"{config.issuer} answers; tokens are signed by {', '.join(metadata.algorithms[:3])}.",
        "",
    )


def _directory(config: LdapConfig) -> Found:
    try:
        adapter = import_module("console.adapters.ldap_directory")
        detail = adapter.check_reachable(config)
    except ImportError:
        return (
            "directory",
            "fault",
            "The library for COVENANT_LDAP_URL is not installed.",
            "Install deploy/requirements/ldap.txt; docs/sign-in.md says what it needs.",
        )
    except Unavailable as error:
        mend = "Check COVENANT_LDAP_URL, _BIND_DN, _BIND_PASSWORD, _BASE and _CA."
        return ("directory", "fault", error.message, mend)
    here = any(f"//{host}" in config.url for host in ("127.", "localhost", "[::1]"))
    if config.url.startswith("ldap://") and not config.start_tls and not here:
        mend = "Take COVENANT_LDAP_ALLOW_PLAIN away, or use ldaps://."
        return ("directory", "warning", f"{detail} Passwords travel there in the clear.", mend)
    return ("directory", "ok", str(detail), "")
