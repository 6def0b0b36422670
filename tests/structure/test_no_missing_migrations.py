"""The tables are as the models say."""

from __future__ import annotations

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_no_migration_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        call_command("makemigrations", check_changes=True, dry_run=True, verbosity=1)
    except SystemExit:
        pytest.fail(f"run `manage.py makemigrations`:\n{capsys.readouterr().out}")
