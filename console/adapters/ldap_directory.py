"""A directory by LDAP, with django-auth-ldap's searches and group types over python-ldap.

Imported only where COVENANT_LDAP_URL is set. A connection is made for each question, encrypted
before anything is said on it unless the directory is on this machine, and bounded in time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ldap
from django_auth_ldap.config import LDAPSearch, NestedMemberDNGroupType
from ldap.filter import escape_filter_chars

from console.env_sign_in import LdapConfig
from console.errors import Unavailable
from console.rules.outsiders import Outsider

SECONDS = 5
LONGEST_PASSWORD = 1024
# groupOfNames of most directories, group of Active Directory.
GROUP_FILTER = "(|(objectClass=groupOfNames)(objectClass=groupOfUniqueNames)(objectClass=group))"

log = logging.getLogger(__name__)


@dataclass
class _Entry:
    """What django-auth-ldap's group types ask of a person."""

    dn: str
    attrs: Mapping[str, list[Any]]
    connection: Any


def check_password(config: LdapConfig, *, username: str, password: str) -> Outsider | None:
    """The person with this name, when the directory takes the password; None otherwise.

    A name that fits nobody, or more than one, is None too. Raises Unavailable.
    """
    search = _search(config, config.user_filter)
    with _bound(config) as connection:
        entry = _the_one(search.execute(connection, {"user": username}) or (), connection)
        # Asked for nobody too: how long it takes tells no names.
        if not _takes(config, entry.dn if entry else f"cn=-,{config.base}", password):
            return None
        if entry is None:
            return None
        return _outsider(config, entry, username)


def is_password_of(config: LdapConfig, *, subject: str, password: str) -> bool:
    """Whether the directory takes the password for the entry with this id. Raises Unavailable."""
    fits = f"({config.id_attribute}={escape_filter_chars(subject)})"
    with _bound(config) as connection:
        entry = _the_one(_search(config, fits).execute(connection) or (), connection)
        return entry is not None and _takes(config, entry.dn, password)


def check_reachable(config: LdapConfig) -> str:
    """Bind as the console itself and look at the base; gives a sentence. Raises Unavailable."""
    with _bound(config) as connection:
        try:
            connection.search_s(config.base, ldap.SCOPE_BASE, attrlist=["1.1"])
        except ldap.LDAPError as error:
            raise _unavailable(config, error) from error
    return f"{config.url} answers and knows {config.base}."


def _search(config: LdapConfig, fits: str) -> LDAPSearch:
    return LDAPSearch(config.base, ldap.SCOPE_SUBTREE, fits, attrlist=["*", config.id_attribute])


def _the_one(found: Any, connection: Any) -> _Entry | None:
    entries = [(dn, attrs) for dn, attrs in found if dn]
    return _Entry(*entries[0], connection) if len(entries) == 1 else None


def _takes(config: LdapConfig, dn: str, password: str) -> bool:
    """Whether a bind as `dn` with the password succeeds; never tried without a password."""
    if not dn or not password or len(password) > LONGEST_PASSWORD or "\0" in password:
        return False
    try:
        connection = _connect(config)
        connection.simple_bind_s(dn, password)
        connection.unbind_s()
    except (ldap.INVALID_CREDENTIALS, ldap.INAPPROPRIATE_AUTH, ldap.UNWILLING_TO_PERFORM):
        return False
    except ldap.LDAPError as error:
        raise _unavailable(config, error) from error
    return True


def _outsider(config: LdapConfig, entry: _Entry, username: str) -> Outsider:
    groups: tuple[str, ...] = ()
    if config.group_base:
        kind = NestedMemberDNGroupType(member_attr="member")
        search = LDAPSearch(config.group_base, ldap.SCOPE_SUBTREE, GROUP_FILTER)
        names = (kind.group_name_from_info(info) for info in kind.user_groups(entry, search))
        groups = tuple(sorted(str(name) for name in names if name))
    return Outsider(
        source="ldap",
        issuer=f"{config.url}/{config.base}"[:300],
        subject=_first(entry, config.id_attribute) or entry.dn,
        username=username,
        display_name=_first(entry, "displayName") or _first(entry, "cn"),
        email=_first(entry, "mail"),
        groups=groups,
    )


def _first(entry: _Entry, name: str) -> str:
    values = entry.attrs.get(name) or [""]
    value = values[0]
    return value.hex() if isinstance(value, bytes) else str(value)


@contextmanager
def _bound(config: LdapConfig) -> Iterator[Any]:
    """A connection that is bound as the console itself, closed at the end."""
    try:
        connection = _connect(config)
        if config.bind_dn:
            connection.simple_bind_s(config.bind_dn, config.bind_password)
    except ldap.LDAPError as error:
        raise _unavailable(config, error) from error
    try:
        yield connection
    finally:
        try:
            connection.unbind_s()
        except ldap.LDAPError as error:
            log.debug("closing the connection to %s: %s", config.url, error)


def _connect(config: LdapConfig) -> Any:
    connection = ldap.initialize(config.url, bytes_mode=False)
    for option, value in (
        (ldap.OPT_PROTOCOL_VERSION, ldap.VERSION3),
        (ldap.OPT_REFERRALS, 0),
        (ldap.OPT_NETWORK_TIMEOUT, SECONDS),
        (ldap.OPT_TIMEOUT, SECONDS),
        (ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND),
        *(((ldap.OPT_X_TLS_CACERTFILE, str(config.ca)),) if config.ca else ()),
        # Last: it makes the context of what stands above.
        (ldap.OPT_X_TLS_NEWCTX, 0),
    ):
        connection.set_option(option, value)
    if config.start_tls:
        connection.start_tls_s()
    return connection


def _unavailable(config: LdapConfig, error: Exception) -> Unavailable:
    details = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    words = ": ".join(str(details[key]) for key in ("desc", "info") if details.get(key))
    return Unavailable(
        f"The directory {config.url} could not be asked: {words or type(error).__name__}.",
        code="directory_unavailable",
        hint="Try again shortly. Platform admins see under Settings → System check what is wrong.",
    )
