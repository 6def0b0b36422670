"""What somebody proved at sign-in, and whether that is enough for an installation."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from console.rules.permissions import PLATFORM_ADMIN

Policy = Literal["none", "admins", "everybody"]
POLICIES: tuple[Policy, ...] = ("none", "admins", "everybody")

PASSWORD = "password"  # noqa: S105 - the word, not one
LDAP = "ldap"
OIDC = "oidc"
PASSKEY = "passkey"
TOTP = "totp"
RECOVERY = "recovery_code"

# A passkey that verified its person is something they have and something they know or are. What a
# provider asks of people is its own policy.
STRONG_ALONE = frozenset({PASSKEY, OIDC})
SECOND = frozenset({TOTP, RECOVERY, PASSKEY})

# In the order of asking: most browsers name Chrome and Safari as well.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def is_strong(means: str) -> bool:
    """Whether `means` ("password+totp", "passkey", …) includes a second factor."""
    parts = means.split("+")
    return parts[0] in STRONG_ALONE or bool(SECOND & set(parts[1:]))


def needs_second_factor(policy: Policy, roles: Collection[str]) -> bool:
    """Whether a person with these roles, in any team, has to prove a second factor."""
    return policy == "everybody" or (policy == "admins" and PLATFORM_ADMIN in roles)


def means_words(means: str) -> tuple[str, ...]:
    """The parts of `means`, each a key that the pages have words for."""
    return tuple(part for part in means.split("+") if part)


def browser_words(user_agent: str) -> str:
    """Browser and system of a User-Agent header in a few words; as far as it can be believed."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return ", ".join(part for part in (browser, system) if part) or user_agent[:80].strip()
