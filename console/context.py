"""What the shell of every page shows of the person who reads it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from console.models import Role


def person(request: HttpRequest) -> dict[str, Any]:
    """`person_roles`: the reader's roles in words."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    labels = dict(Role.choices)
    return {"person_roles": [labels[name] for name in user.roles if name in labels]}
