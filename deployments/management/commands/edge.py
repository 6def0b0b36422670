"""`manage.py edge`: answers by a contract's rules while no model may, without Triton."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from deployments.processes import edge


class Command(BaseCommand):
    help = "Serve what gateways ask of the edge: the rules of service contracts."
    # They would import every page and every API view into a process that has none.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--address",
            default=f"127.0.0.1:{settings.CONFIG.ports.edge}",
            help="host:port to listen on",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        host, _, port = str(options["address"]).rpartition(":")
        if not host or not port.isdigit():
            raise CommandError("--address is host:port, as in 127.0.0.1:8714.")
        edge.server(host.strip("[]"), int(port)).run()
