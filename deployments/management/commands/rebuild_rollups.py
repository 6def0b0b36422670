"""`manage.py rebuild_rollups`: hours and days made anew from minutes, and where they differed."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from deployments.rules.statistics.parts import hour_of
from deployments.services.statistics.hours import SETTLED_AFTER, rebuild

DEFAULT_SPAN = timedelta(days=7)
SHOWN = 50


class Command(BaseCommand):
    help = (
        "Make hours and days anew from minutes, and say where they were wrong. Hours whose minutes "
        "went by the policy of retention stay as they are. Exits with 1 where something was wrong."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="start", type=_moment, help="A week ago without it.")
        parser.add_argument("--to", dest="end", type=_moment, help="Now without it.")

    def handle(self, *args: Any, **options: Any) -> None:
        last = hour_of(timezone.now() - SETTLED_AFTER)
        end = min(hour_of(options["end"] or last), last)
        start = hour_of(options["start"] or end - DEFAULT_SPAN)
        if start >= end:
            raise CommandError("There is no whole hour between --from and --to.")
        found = rebuild(start, end, self._say)
        for one in found[:SHOWN]:
            self.stdout.write(
                f"{one.kind} {one.start:%Y-%m-%d %H:%M}Z endpoint {one.endpoint_id} "
                f"v{one.version}: had {one.had} {one.field}, its minutes have {one.has}"
            )
        if len(found) > SHOWN:
            self.stdout.write(f"… and {len(found) - SHOWN} more")
        hours = int((end - start) / timedelta(hours=1))
        if found:
            raise CommandError(f"{len(found)} counts in {hours} hours were wrong; they are mended.")
        self.stdout.write(f"{hours} hours from {start:%Y-%m-%d %H:%M}Z on equal their minutes.")

    def _say(self, hour: datetime) -> None:
        if hour.hour == 0:
            self.stderr.write(f"{hour:%Y-%m-%d}")


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no moment: 2026-01-31T12:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
