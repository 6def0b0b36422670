"""YAML's traps: what a person means is what is read, or it is refused with its line."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import Invalid
from models_registry.rules.contract_document import load
from models_registry.rules.contract_proposal import to_yaml
from models_registry.rules.contract_yaml import load_yaml
from tests.models_registry.contract_samples import SAMPLE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NO", "NO"),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("1e-5", 1e-5),
        ("1.0e-5", 1e-5),
        ("1.", 1.0),
        (".5", 0.5),
        ("+7", 7),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("0x" + "0" * 40 + "1", 1),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-05-01", "2026-05-01"),
        ('"5"', "5"),
        ("'true'", "true"),
        ("=", "="),
        ("<<", "<<"),
        ("1.2.3", "1.2.3"),
        ("28d", "28d"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("{a: [1, {b: c}], d: e}", {"a": [1, {"b": "c"}], "d": "e"}),
        ("{no: 1, on: 2}", {"no": 1, "on": 2}),
        ("a:\n- 1\n- - 2\n  - x: y\nb: {}\nc: []\n", {"a": [1, [2, {"x": "y"}]], "b": {}, "c": []}),
        ("%YAML 1.1\n---\nyes\n", "yes"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    read = load_yaml(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "pointer", "words"),
    [
        ("a: &x [1]\nb: *x\n", "/a", "line 1: has the anchor &x"),
        ("a: 1\nb: *x\n", "/b", "line 2: uses an alias"),
        ("*x : 1\n", "", "line 1: uses an alias"),
        ("a: !!python/object/apply:os.system ['true']\n", "/a", "line 1: has the tag"),
        ("a: !!binary aGk=\n", "/a", "has the tag"),
        ("a: !!float 1\n", "/a", "has the tag"),
        ("a: ! 5\n", "/a", "has the tag"),
        ("a: 1\nb: 2\na: 3\n", "/a", "line 3: is given twice"),
        ("x:\n- {k: 1, k: 2}\n", "/x/0/k", "given twice"),
        ("5: a\n", "/5", "not a text; put it in quotes"),
        ("true: a\n", "/true", "not a text"),
        ("? [a]\n: b\n", "", "cannot be a name"),
        ("a: .nan\n", "/a", "no number that can be promised"),
        ("a: [-.inf]\n", "/a/0", "no number"),
        ("a: 1e999\n", "/a", "infinite"),
        ("a: 9007199254740993\n", "/a", "2^53"),
        ("a: 0x20000000000000\n", "/a", "2^53"),
        ('a: "\\ud800"\n', "", "line 1"),
        ("a: 1\n---\nb: 2\n", "", "line 2: a second document"),
        ("a: [1\n", "", "line 2, column 1"),
        ("a:\n\t- 1\n", "", "line 2"),
        ("a: b: c\n", "", "line 1"),
        ("a: \x07\n", "", "control characters"),
        ("[" * 70 + "]" * 70, "", "deeper than 64"),
    ],
)
def test_what_yaml_could_hide_is_refused(text: str, pointer: str, words: str) -> None:
    with pytest.raises(Invalid) as refusal:
        load_yaml(text)
    assert refusal.value.code == "invalid_yaml"
    fault = refusal.value.errors[0]
    assert (fault.pointer, words in fault.detail) == (pointer, True), fault


def test_a_billion_laughs_costs_nothing() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for level in range(1, 10):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    started = time.monotonic()
    with pytest.raises(Invalid, match="anchor"):
        load_yaml("\n".join(lines))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("size", [300_000])
def test_a_file_beyond_the_limit_is_refused(size: int) -> None:
    with pytest.raises(Invalid, match="larger than"):
        load_yaml("a: " + "x" * size)


def test_a_word_that_old_yaml_takes_for_false_is_refused_where_a_boolean_belongs() -> None:
    with pytest.raises(Invalid) as refusal:
        load(SAMPLE.replace("retry: false", "retry: no"))
    assert refusal.value.errors[0].pointer == "/errors/0/retry"
    assert "the text “no”; true or false" in refusal.value.errors[0].detail


def test_a_country_code_stays_a_text_in_the_fallback() -> None:
    document = load(SAMPLE.replace("reason: model_down", "reason: model_down, country: NO"))
    assert document.fallback.response["country"] == "NO"


# YAML folds U+0085, U+2028 and U+2029 as line breaks and refuses what is not printable.
words = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_json_is_yaml(value: object) -> None:
    assert load_yaml(json.dumps(value, ensure_ascii=False)) == value


@given(st.dictionaries(st.text(max_size=8), values | st.sampled_from(["1e5", "0o7", "no", "~"])))
def test_what_is_written_for_the_editor_is_read_back(body: dict[str, object]) -> None:
    assert load_yaml(to_yaml(body)) == body
