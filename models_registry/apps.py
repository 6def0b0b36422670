from __future__ import annotations

from django.apps import AppConfig


class ModelsRegistryConfig(AppConfig):
    name = "models_registry"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Registers the system checks.
        from models_registry import checks  # noqa: F401
