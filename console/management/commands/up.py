"""`manage.py up`: start the embedded stack."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.stack import control
from console.stack.errors import StackError


class Command(BaseCommand):
    """Returns when every service is ready."""

    help = "Start the embedded stack and return when every service is ready."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("services", nargs="*", help="just these, instead of all")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            control.up(settings.CONFIG, self.stdout.write, options["services"])
        except StackError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted; nothing was left running.", returncode=130) from None
