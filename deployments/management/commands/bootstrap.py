"""`manage.py bootstrap`: rows for what the environment variables name."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from console.actors import Actor
from deployments.services.fleet.nodes import bootstrap_embedded


class Command(BaseCommand):
    help = "Make the environments, nodes and gateway that this installation is configured with."

    def handle(self, *args: Any, **options: Any) -> None:
        bootstrap_embedded(settings.CONFIG, Actor.system("bootstrap"))
        self.stdout.write("Environments, nodes and gateway are registered.")
