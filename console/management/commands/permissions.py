"""`manage.py permissions`: who may do what, and where, as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from console.selectors.permissions import as_markdown

BEGIN, END = "<!-- the matrix begins -->\n", "<!-- the matrix ends -->"


class Command(BaseCommand):
    help = "Print the permission matrix; --write puts it into docs/permissions.md."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--write", type=Path, metavar="FILE", help="The file to bring up to date."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path | None = options["write"]
        if file is None:
            self.stdout.write(as_markdown())
            return
        before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        file.write_text(f"{before}{BEGIN}{as_markdown()}{END}{after}", encoding="utf-8")
