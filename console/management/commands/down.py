"""`manage.py down`: stop the embedded stack."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from console.stack import control


class Command(BaseCommand):
    """Leaves no process and loses no data."""

    help = "Stop the embedded stack; data are kept."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        control.down(settings.CONFIG, self.stdout.write)
