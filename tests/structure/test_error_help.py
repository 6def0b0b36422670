"""Every error code of the product is explained, and nothing else is."""

from __future__ import annotations

import inspect
import re

import pytest

from console.rules.error_help import ErrorEntry, entries, matching
from console.views.error_help import AREAS
from deployments.rules.alerts import defaults
from tests.structure.error_codes import codes

# Said by way of a variable: the code of what the gateway answers when nobody else can.
BY_VARIABLE = {"model_unavailable"}
# Of the framework of the API.
OF_FRAMEWORK = {
    "authentication_failed",
    "method_not_allowed",
    "not_acceptable",
    "parse_error",
    "permission_denied",
    "throttled",
    "unsupported_media_type",
}


def test_every_code_has_an_entry() -> None:
    missing = {code: sorted(files)[0] for code, files in codes().items() if code not in entries()}
    assert missing == {}, "add a line to a file of console/rules/error_entries"


def test_every_runbook_of_an_alert_has_an_entry() -> None:
    source = inspect.getsource(defaults)
    runbooks = set(re.findall(r'"runbook": "([a-z0-9_]+)"', source))
    assert len(runbooks) > 10
    assert runbooks - set(entries()) == set()


def test_no_entry_is_of_a_code_that_nobody_says() -> None:
    said = set(codes()) | BY_VARIABLE | OF_FRAMEWORK
    unused = {one.code for one in entries().values() if one.area != "alerts"} - said
    assert unused == set()


def test_every_area_has_a_name() -> None:
    assert {one.area for one in entries().values()} == set(AREAS)


@pytest.mark.parametrize("entry", entries().values(), ids=lambda one: one.code)
def test_an_entry_is_written_in_whole_sentences(entry: ErrorEntry) -> None:
    for text in (entry.means, entry.do):
        assert text[0].isupper() or text.startswith(("onnx", "trtexec")), text
        assert text.rstrip("”")[-1] in ".…", text
        assert len(text) < 600


def test_words_find_entries() -> None:
    assert "disk_full" in {one.code for one in matching("disk full")}
    assert matching("no such words anywhere") == []
