from __future__ import annotations

from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    name = "deployments"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Offer this storey's metrics to the floor's page of metrics."""
        from deployments import metrics  # noqa: F401
