"""The law of the house: imports, sizes, tables of names, templates."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils.module_loading import import_string

from console.celery import app
from console.env import ROOT
from console.rules.jobs import KINDS

PACKAGES = ("console", "models_registry", "deployments")
MOST_LINES = 500
MOST_LINES_OF_A_FUNCTION = 70
COMMENT = re.compile(r"{% comment %}.*?{% endcomment %}", re.DOTALL)
PRODUCT_KINDS = sorted(name for name in KINDS if not name.startswith("test_"))


def sources(*folders: str, suffix: str = ".py") -> list[Path]:
    files = [file for folder in folders for file in (ROOT / folder).rglob(f"*{suffix}")]
    return sorted(file for file in files if "migrations" not in file.parts)


def test_imports_go_down_only() -> None:
    program = Path(sys.executable).parent / "lint-imports"
    found = subprocess.run(
        [str(program), "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stdout[-3000:]


@pytest.mark.django_db
def test_the_checks_of_the_framework_pass() -> None:
    call_command("check", fail_level="WARNING")


def test_no_file_is_too_long() -> None:
    files = sources(*PACKAGES, "tests") + sources("static/js", suffix=".js")
    lengths = {file: len(file.read_text().splitlines()) for file in files}
    assert {str(f.relative_to(ROOT)): n for f, n in lengths.items() if n > MOST_LINES} == {}


def test_no_function_is_too_long() -> None:
    long: dict[str, int] = {}
    for file in sources(*PACKAGES):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno:
                lines = _code_lines(file, node)
                if lines > MOST_LINES_OF_A_FUNCTION:
                    long[f"{file.relative_to(ROOT)}:{node.name}"] = lines
    assert long == {}


def _code_lines(file: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring, comments and blank lines."""
    first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
    lines = file.read_text().splitlines()[first.lineno - 1 : node.end_lineno]
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


def test_no_vague_rooms() -> None:
    vague = {"utils", "helpers", "common", "managers", "signals"}
    assert [str(f) for f in sources(*PACKAGES) if f.stem in vague or f.parent.name in vague] == []


@pytest.mark.parametrize("kind", PRODUCT_KINDS)
def test_every_kind_of_job_has_a_task_a_queue_and_its_ending(kind: str) -> None:
    app.loader.import_default_modules()
    spec = KINDS[kind]
    assert spec.name == kind
    assert spec.task in app.tasks
    # A node's jobs go to the queue of the node, which the asker names.
    assert spec.queue in {"control", "export", ""}
    assert spec.max_attempts >= 1
    if spec.ended:
        assert callable(import_string(spec.ended))


def test_every_timed_task_exists() -> None:
    app.loader.import_default_modules()
    timed = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert timed - set(app.tasks) == set()


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("inline script", r"<script(?![^>]*\bsrc=)(?![^>]*type=\"application/json\")[^>]*>"),
        ("inline style", r"\sstyle=|<style"),
        ("inline handler", r"\son[a-z]+=\""),
        ("address of another host", r"(?:src|href)=\"https?://"),
        ("script address", r"javascript:"),
    ],
)
def test_no_template_has(what: str, pattern: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}: {match.group(0)}"
        for file in sources("templates", suffix=".html")
        for match in re.finditer(pattern, COMMENT.sub("", file.read_text()))
    ]
    assert found == [], what
