"""System checks for a configuration that would not work or not be safe."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register


@register(Tags.security, deploy=True)
def external_parts_need_tls(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """A console that others reach by name must be reached by TLS."""
    config = settings.CONFIG
    local = config.base_url.startswith(("http://127.0.0.1", "http://localhost", "http://[::1]"))
    if config.base_url.startswith("https://") or local:
        return []
    return [
        Error(
            f"COVENANT_BASE_URL is {config.base_url}: sessions would travel unencrypted.",
            hint="Put a TLS proxy in front and use its https:// address.",
            id="console.E001",
        )
    ]
