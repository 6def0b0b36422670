"""`manage.py traffic`: rollouts and whatever else moves traffic by itself."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from deployments.processes.running import run_until_stopped
from deployments.processes.traffic import TrafficControl


class Command(BaseCommand):
    help = "Move rollouts on, guard endpoints and judge experiments; one process is active."

    def handle(self, *args: Any, **options: Any) -> None:
        run_until_stopped(TrafficControl().run)
