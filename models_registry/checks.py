"""System checks: what the configuration names has to be known here."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from models_registry.rules import opsets


@register()
def triton_release_is_known(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Exports are made for a release whose limits are in the table."""
    release = settings.CONFIG.triton_release
    if release in opsets.TRITON:
        return []
    return [
        Error(
            f"COVENANT_TRITON_RELEASE is {release}: what that release loads is not in the table.",
            hint=f"Use one of {', '.join(opsets.TRITON)}, or add a measured line to "
            "models_registry/rules/opsets.py.",
            id="models_registry.E001",
        )
    ]
