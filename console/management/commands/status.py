"""`manage.py status`: the embedded stack's services."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from console.stack import control


class Command(BaseCommand):
    """Exit code 0 when all is ready, 3 when not."""

    help = "Show the services of the embedded stack; exit code 3 when not all are ready."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="machine-readable")

    def handle(self, *args: Any, **options: Any) -> None:
        state = control.status(settings.CONFIG)
        if options["json"]:
            self.stdout.write(json.dumps(state, indent=1))
        else:
            self.stdout.write("\n".join(control.status_lines(state)))
        if not control.is_healthy(state):
            sys.exit(3)
