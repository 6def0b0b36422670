"""`manage.py gateway`: the control plane of the gateways."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from deployments.processes.gateway import GatewayControl
from deployments.processes.running import run_until_stopped


class Command(BaseCommand):
    help = "Serve the gateways' configuration (ADS) and record what they acknowledge."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--address",
            default=f"127.0.0.1:{settings.CONFIG.ports.ads}",
            help="host:port to listen on",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run_until_stopped(GatewayControl(options["address"]).run)
        except RuntimeError as error:
            raise CommandError(str(error)) from error
