"""Somebody whom a directory or an identity provider knows, as it describes them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

LONGEST_USERNAME = 64


@dataclass(frozen=True, slots=True)
class Outsider:
    """`issuer` and `subject` say for ever who it is; everything else may change.

    `source` is "oidc" or "ldap". `email` is what the other side says: nobody is found by it.
    """

    source: str
    issuer: str
    subject: str
    username: str = ""
    display_name: str = ""
    email: str = ""
    groups: tuple[str, ...] = ()


def free_username(outsider: Outsider, is_taken: Callable[[str], bool]) -> str:
    """A user name for a new account, made of what the person is called there, and not taken.

    Never a name that somebody has: an account is not entered by having the same name elsewhere.
    """
    wanted = outsider.username or outsider.email.partition("@")[0] or outsider.display_name
    plain = unicodedata.normalize("NFKD", wanted).encode("ascii", "ignore").decode().lower()
    stem = re.sub(r"[^a-z0-9_-]+", "-", plain).strip("-")[: LONGEST_USERNAME - 6] or "person"
    number = 1
    while is_taken(name := stem if number == 1 else f"{stem}-{number}"):
        number += 1
    return name
