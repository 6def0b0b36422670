"""The directory (LDAP), when there is one: passwords are asked there, and never kept or logged."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from django.conf import settings

from console.env_sign_in import LdapConfig
from console.errors import Unavailable
from console.models import IdentitySource, User
from console.rules.outsiders import Outsider


def ask_directory(*, username: str, password: str) -> Outsider | None:
    """Whose directory account has this name and password; None for wrong ones.

    None as well without a directory, and for an empty password: a directory takes a bind without
    one for an anonymous visit, and says yes. Raises Unavailable.
    """
    config = settings.CONFIG.sign_in.ldap
    if config is None or not username or not password:
        return None
    found: Outsider | None = _adapter().check_password(config, username=username, password=password)
    return found


def is_directory_password(*, user: User, password: str) -> bool:
    """Whether it is the password of the directory account that this person is linked to."""
    config = settings.CONFIG.sign_in.ldap
    identity = user.identities.filter(source=IdentitySource.LDAP).first()
    if config is None or identity is None or not password:
        return False
    return bool(_adapter().is_password_of(config, subject=identity.subject, password=password))


def check_directory(config: LdapConfig) -> str:
    """Look whether the directory can be asked; gives a sentence. Raises Unavailable."""
    return str(_adapter().check_reachable(config))


def _adapter() -> ModuleType:
    # The library is built against the system's and installed only where there is a directory.
    try:
        return import_module("console.adapters.ldap_directory")
    except ImportError as error:
        raise Unavailable(
            "A directory is configured (COVENANT_LDAP_URL), but its library is not installed.",
            code="directory_unavailable",
            hint="Install deploy/requirements/ldap.txt; docs/sign-in.md says what it needs.",
            retryable=False,
        ) from error
