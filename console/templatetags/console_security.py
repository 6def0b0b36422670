"""Words for how somebody signed in."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext_lazy as _

register = template.Library()

MEANS = {
    "password": _("password"),
    "ldap": _("directory password"),
    "oidc": _("single sign-on"),
    "passkey": _("passkey"),
    "totp": _("authenticator app"),
    "recovery_code": _("recovery code"),
}


@register.simple_tag
def sign_in_means(part: str) -> str:
    """One part of what was proven at sign-in, in words."""
    return str(MEANS.get(part, part))
