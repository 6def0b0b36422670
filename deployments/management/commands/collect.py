"""`manage.py collect`: live numbers and roll-ups of gateways and nodes."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from deployments.processes.collector import Collector
from deployments.processes.running import run_until_stopped


class Command(BaseCommand):
    help = "Read every gateway and node, keep live numbers and minute roll-ups, watch the nodes."

    def handle(self, *args: Any, **options: Any) -> None:
        run_until_stopped(Collector().run)
