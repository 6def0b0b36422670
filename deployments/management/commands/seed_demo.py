from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from console.actors import Actor
from console.errors import Conflict
from console.services.people import create_person
from deployments.cli.client import CliError
from deployments.demo.people import ROLES, passwords, sign_in
from deployments.demo.story import Story


class Command(BaseCommand):
    help = "Tell the main job end to end on the running stack, from a checkpoint to a rollback."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--people-only", action="store_true", help="Only make the sign-ins.")

    def handle(self, *args: Any, **options: Any) -> None:
        config = settings.CONFIG
        kept = passwords(config.home)
        self._make_people(kept)
        started = time.monotonic()
        if not options["people_only"]:
            try:
                self._tell(config, kept)
            except CliError as error:
                raise CommandError(f"{error.message} {error.hint}".strip()) from error
        self.stdout.write(
            f"\nDone in {time.monotonic() - started:.0f} s. The console runs at {config.base_url}"
        )
        self.stdout.write(
            f"  Endpoint page: {config.base_url}/endpoints/production/fraud_detector/"
        )
        self.stdout.write("  Sign in as:")
        for username, (_, roles) in ROLES.items():
            self.stdout.write(f"    {username:5} {kept[username]:14} {', '.join(roles)}")
        self.stdout.write("  Stop it with: make down")

    def _make_people(self, kept: dict[str, str]) -> None:
        actor = Actor.system("demo")
        for username, (display_name, roles) in ROLES.items():
            try:
                create_person(
                    username=username,
                    display_name=display_name,
                    email=f"{username}@example.com",
                    roles=roles,
                    password=kept[username],
                    actor=actor,
                )
            except Conflict as error:
                if error.code != "name_taken":
                    raise

    def _tell(self, config: Any, kept: dict[str, str]) -> None:
        dana, sam, bea = (
            sign_in(name, kept[name], url=config.base_url, home=config.home)
            for name in ("dana", "sam", "bea")
        )
        Story(
            dana=dana,
            sam=sam,
            bea=bea,
            say=self.stdout.write,
            gateway=f"http://127.0.0.1:{config.ports.gateway_production}",
        ).tell()
