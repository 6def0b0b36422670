"""One process brings the database up to date: migrations when there are any, and bootstrap."""

from __future__ import annotations

import os

import django


def main() -> None:
    """Apply what is missing and make sure that the rows every installation needs are there."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    django.setup()
    # Below: only importable once Django is set up.
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", interactive=False, verbosity=1)
    call_command("bootstrap")


if __name__ == "__main__":
    main()
