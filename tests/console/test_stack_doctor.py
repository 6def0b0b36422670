"""The doctor's findings, each with the way to mend it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.core.management import call_command

from console.env import load
from console.stack import doctor
from console.stack.doctor import Finding
from tests.stack import free_port_base


def findings(home: Path, **environment: str) -> dict[str, Finding]:
    """What the doctor finds with nothing but this environment; the worst of each subject."""
    given = {"COVENANT_HOME": str(home), "COVENANT_PORT_BASE": str(free_port_base())}
    found: dict[str, Finding] = {}
    for finding in doctor.examine(load({**given, **environment})):
        if finding.subject not in found or finding.state == "fault":
            found[finding.subject] = finding
    return found


def test_what_does_not_run_is_a_fault_with_the_next_step(tmp_path: Path) -> None:
    found = findings(tmp_path)
    for subject in ("stack", "database", "redis", "triton", "envoy", "web"):
        assert found[subject].state == "fault"
        assert "make up" in found[subject].mend
    for subject in ("postgres", "valkey", "sandbox", "disk", "storage"):
        assert found[subject].state == "ok"


def test_a_sandbox_without_its_filter_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    found = findings(tmp_path)["sandbox"]
    assert found.state == "warning"
    assert "without the system call filter" in found.detail
    assert "libseccomp2" in found.mend


@pytest.mark.django_db
def test_external_databases_that_answer_are_well(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        DATABASE_URL=os.environ["DATABASE_URL"],
        REDIS_URL=os.environ["REDIS_URL"],
        COVENANT_SECRET_KEY=os.environ["COVENANT_SECRET_KEY"],
        COVENANT_TRITON="none",
        COVENANT_GATEWAY="none",
    )
    assert found["redis"].state == "ok"
    # The server answers; nothing was migrated in the database of that name.
    assert (found["database"].detail, found["database"].mend) == (
        "has no tables",
        "python manage.py migrate",
    )
    assert not {"postgres", "valkey", "triton", "envoy"} & set(found)


def test_an_external_database_that_is_away_names_its_variable(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        DATABASE_URL="postgresql://covenant:x@127.0.0.1:9/covenant",
        REDIS_URL="redis://127.0.0.1:9/0",
        COVENANT_SECRET_KEY="long-and-random-" * 4,
    )
    assert "does not answer" in found["database"].detail
    assert found["database"].mend == "check DATABASE_URL and the server"
    assert found["redis"].mend == "check REDIS_URL and the server"


def test_storage_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = findings(tmp_path / "home", COVENANT_STORAGE=f"file://{tmp_path}/file/artifacts")
    assert found["storage"].state == "fault"
    assert "set COVENANT_STORAGE to another" in found["storage"].mend


def test_the_command_shows_all_and_fails_on_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("doctor")
    assert ended.value.code == 1
    shown = capsys.readouterr().out
    assert "FAULT    stack       the embedded stack is down" in shown
    assert "→ make up" in shown
