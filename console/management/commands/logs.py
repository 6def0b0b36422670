"""`manage.py logs SERVICE`: follow one service's log."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.stack import control


class Command(BaseCommand):
    """Hands over to `tail`, which follows the file when it is cut too."""

    help = "Follow the log of one service of the embedded stack."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("service", nargs="?", default="")
        parser.add_argument("--lines", type=int, default=100, help="how many to begin with")
        parser.add_argument("--no-follow", action="store_true", help="show and end")

    def handle(self, *args: Any, **options: Any) -> None:
        files = control.log_files(settings.CONFIG)
        path = files.get(options["service"])
        if path is None:
            names = ", ".join(files) or "none yet"
            raise CommandError(f"Name one service, as in `make logs S=web`. There are: {names}.")
        follow = [] if options["no_follow"] else ["-F"]
        os.execvp("tail", ["tail", "-n", str(options["lines"]), *follow, str(path)])  # noqa: S606 - our own path
