"""`manage.py verify_bundle FILE`: verify an offline bundle; touches no database."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.errors import Invalid
from deployments.cli import offline


class Command(BaseCommand):
    help = "Verify the bundle of a contract or a release. Exit code 1 when it does not hold."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=argparse.FileType("rb"))
        parser.add_argument("--trust", action="append", default=[], metavar="[SEAT=]KEYID")
        parser.add_argument(
            "--file", dest="files", nargs=2, action="append", default=[], metavar=("NAME", "PATH")
        )

    def handle(self, *args: Any, **options: Any) -> None:
        files = {name: Path(path) for name, path in options["files"]}
        try:
            report = offline.verify(options["file"].read(), trust=options["trust"], files=files)
        except (Invalid, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(offline.report_words(report))
        if not report.ok:
            raise CommandError("The bundle does not hold.")
