"""Every code of an error that the product may answer, read out of its own source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from console.env import ROOT

PACKAGES = ("console", "models_registry", "deployments")
CODE = re.compile(r"[a-z][a-z0-9_]{2,60}\Z")
# Calls whose first argument is a code.
FIRST = frozenset({"Refused", "Refusal"})
# Keywords that are called so and are no codes of errors.
OTHERS = frozenset({"Finding", "Advice", "FormError", "path", "ValidationError"})
# Codes of errors that a function takes by another keyword.
KEYWORDS = frozenset({"code", "refusal", "default_code"})
# Of the gateway's scripts and replies: the place of the code among the arguments.
_LUA = re.compile(
    r"(?:unknown|denied)\(handle, \"(?P<a>[a-z_]+)\""
    r"|problem\(handle, \"\d+\", \"(?P<b>[a-z_]+)\""
    r"|answer\(handle, body, \"\d+\", \"[^\"]+\", \"(?P<c>[a-z_]+)\""
)
PLACES = {"_reply": 2, "_by_status": 1}


def codes() -> dict[str, set[str]]:
    """Code → the files that raise it."""
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if "migrations" in file.parts:
                continue
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for code in _of_tree(tree):
                found.setdefault(code, set()).add(str(file.relative_to(ROOT)))
        for file in sorted((ROOT / package).rglob("*.lua")):
            for code in _of_lua(file):
                found.setdefault(code, set()).add(str(file.relative_to(ROOT)))
    return found


def _of_tree(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _of_call(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {t.id for t in targets if isinstance(t, ast.Name)}
            if names & {"default_code"}:
                yield from _words(node.value)


def _of_call(node: ast.Call) -> Iterator[str]:
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    if name in OTHERS:
        return
    if name in FIRST and node.args:
        yield from _words(node.args[0])
    if name in PLACES and len(node.args) > PLACES[name]:
        yield from _words(node.args[PLACES[name]])
    for keyword in node.keywords:
        if keyword.arg in KEYWORDS:
            yield from _words(keyword.value)


def _words(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.match(node.value):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _words(node.body)
        yield from _words(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _words(value)


def _of_lua(file: Path) -> Iterator[str]:
    for found in _LUA.finditer(file.read_text(encoding="utf-8")):
        yield found["a"] or found["b"] or found["c"]
