"""The Chinese catalogue holds every string of the product, whole and with its placeholders.

The strings are found in Python alone (Babel, and Django's own reading of templates), so that the
test says the same on a machine without GNU gettext.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import read_po
from django.utils.translation import gettext, ngettext, override, pgettext
from django.utils.translation.template import templatize

from console.env import ROOT
from console.rules.jobs import KINDS
from console.templatetags.console_phrases import job_kind, phrase
from models_registry.rules import tuning

CATALOGUE = ROOT / "console" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
PACKAGES = ("console", "models_registry", "deployments")
FUNCTIONS: dict[str, tuple[int | tuple[int, str], ...] | None] = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "npgettext_lazy": ((1, "c"), 2, 3),
}
PLACEHOLDER = re.compile(r"%\(\w+\)[-0-9.]*[a-zA-Z]|%%|{\w+}|</?\w+>")
HALF_WIDTH = re.compile(r"[\u4e00-\u9fff][,;:?!]|[,;?!][\u4e00-\u9fff]|[\u4e00-\u9fff]\.(\s|$)")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
Key = tuple[str | None, str]


def code_of(path: Path) -> str:
    """The file as Python: a template becomes the calls that its tags stand for."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".html":
        return text
    lines = templatize(text, origin=str(path)).splitlines()
    return "\n".join(line.lstrip() for line in lines)


def extracted() -> Iterator[tuple[Key, str]]:
    """Each string that is marked for translation, with the file that marks it."""
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    files += (ROOT / "templates").rglob("*.html")
    for file in sorted(files):
        code = BytesIO(code_of(file).encode())
        options = {"encoding": "utf-8"}
        for _line, found, _comments, context in extract("python", code, FUNCTIONS, (), options):
            singular = found if isinstance(found, str) else found[0]
            if singular:
                yield (context, singular), str(file.relative_to(ROOT))


def singular_of(message: Message) -> str:
    return message.id if isinstance(message.id, str) else message.id[0]


def said_by(message: Message) -> list[str]:
    return [message.string] if isinstance(message.string, str) else list(message.string or ())


@pytest.fixture(scope="module")
def catalogue() -> Catalog:
    with CATALOGUE.open("rb") as file:
        return read_po(file, locale="zh_Hans", abort_invalid=True)


@pytest.fixture(scope="module")
def messages(catalogue: Catalog) -> list[Message]:
    return [message for message in catalogue if message.id]


def test_the_catalogue_holds_what_the_product_says_and_nothing_else(
    messages: list[Message],
) -> None:
    wanted = dict(extracted())
    held = {(message.context, singular_of(message)) for message in messages}
    missing = sorted(f"{file}: {key[1]}" for key, file in wanted.items() if key not in held)
    assert len(wanted) > 900, "the extraction finds too little to be right"
    assert not missing, "run manage.py makemessages -l zh_Hans and translate"
    assert sorted(key[1] for key in held - wanted.keys()) == []


def test_every_string_is_translated(catalogue: Catalog, messages: list[Message]) -> None:
    assert catalogue.num_plurals == 1
    assert [message.id for message in messages if message.fuzzy] == []
    assert [message.id for message in messages if not all(said_by(message))] == []
    assert [message.id for message in messages if len(said_by(message)) != 1] == []


def test_placeholders_survive_and_punctuation_is_full_width(messages: list[Message]) -> None:
    for message in messages:
        source = message.id if isinstance(message.id, str) else message.id[-1]
        said = said_by(message)[0]
        kept = Counter(PLACEHOLDER.findall(said))
        assert kept == Counter(PLACEHOLDER.findall(source)), source
        assert not HALF_WIDTH.search(said), said


def test_what_was_compiled_is_what_is_written() -> None:
    with override("zh-hans"):
        assert gettext("Sign the contract") == "签署契约"
        assert pgettext("token", "May") == "权限", "and never the month, which Django calls so"
        assert gettext("May") == "五月"
        assert ngettext("%(n)s line", "%(n)s lines", 3) % {"n": 3} == "3 行"


def text_of(node: ast.expr) -> str | None:
    """A literal; of an f-string, with a word for each hole; None of anything else."""
    if isinstance(node, ast.JoinedStr):
        parts = (one.value if isinstance(one, ast.Constant) else "7" for one in node.values)
        return "".join(str(part) for part in parts)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def calls_of(name: str) -> Iterator[ast.Call]:
    for package in ("models_registry", "deployments"):
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    called = node.func
                    found = called.attr if isinstance(called, ast.Attribute) else None
                    if name in (found, called.id if isinstance(called, ast.Name) else None):
                        yield node


def said_of(name: str, place: int) -> set[str]:
    arguments = (call.args[place] for call in calls_of(name) if len(call.args) > place)
    return {text for argument in arguments if (text := text_of(argument))}


def test_steps_of_jobs_and_titles_of_checks_are_said_in_chinese() -> None:
    steps, checks = said_of("progress", 1), said_of("Check", 1)
    assert len(steps) > 20
    assert len(checks) > 5
    with override("zh-hans"):
        assert [text for text in sorted(steps | checks) if not CHINESE.search(phrase(text))] == []
        kinds = [kind for kind in KINDS if not kind.startswith("test_")]
        assert [kind for kind in kinds if not CHINESE.search(job_kind(kind))] == []


def test_reasons_of_settings_are_said_in_chinese() -> None:
    tensor = tuning.Tensor("features", "FP32", ("batch", 10))
    measured = tuning.TuningFacts("m", (tensor,), (tensor,), mean_latency_ms=0.08)
    fixed = tuning.Tensor("features", "FP32", (4, 10))
    unmeasured = tuning.TuningFacts("m", (fixed,), (fixed,))
    plans = [tuning.plan(measured), tuning.plan(unmeasured)]
    reasons = {setting.reason for plan in plans for _name, setting in tuning.settings(plan)}
    assert len(reasons) > 8
    with override("zh-hans"):
        assert [reason for reason in sorted(reasons) if not CHINESE.search(phrase(reason))] == []


def test_what_is_no_known_phrase_is_shown_as_it_was_stored() -> None:
    with override("zh-hans"):
        assert phrase("Somebody's own words") == "Somebody's own words"
        assert phrase("Loading fraud_detector") == "加载 fraud_detector"
        assert phrase(None) == ""
    with override("en"):
        assert phrase("As for v1: 84 µs measured now is near it.").startswith("As for v1: 84 µs")
