"""Canonical JSON: RFC 8785's own vectors, round trips, and what is refused."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import Invalid
from console.rules.canonical import (
    MAX_SAFE_INTEGER,
    canonical_bytes,
    digest,
    digest_text,
    loads_strict,
    parse_digest,
    pointer_of,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = (
    st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(-9e15, 9e15, allow_nan=False)
    | st.floats(min_value=1e21, allow_infinity=False, allow_nan=False)
)
documents = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def test_the_example_of_rfc_8785_gives_its_bytes() -> None:
    """RFC 8785, section 3.2.2 to 3.2.4."""
    source = (
        '{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],'
        ' "string": "\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",'
        ' "literals": [null, true, false]}'
    )
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_bytes(loads_strict(source)) == expected.encode()


def test_names_are_sorted_by_utf16_units() -> None:
    """RFC 8785, section 3.2.3: the emoji's surrogates sort before U+FB33."""
    source = {
        "€": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "😀": "Emoji: Grinning Face",
        "\u0080": "Control",
        "ö": "Latin Small Letter O With Diaeresis",
    }
    order = list(json.loads(canonical_bytes(source)))
    assert order == ["\r", "1", "\u0080", "ö", "€", "😀", "\ufb33"]


@pytest.mark.parametrize(
    ("bits", "text"),
    [  # RFC 8785, appendix B
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_ecmascript_writes_them(bits: str, text: str) -> None:
    value = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical_bytes(value) == text.encode()


@given(documents)
def test_reading_canonical_bytes_gives_the_same_value_and_bytes(document: object) -> None:
    written = canonical_bytes(document)
    again = loads_strict(written)
    assert again == document
    assert canonical_bytes(again) == written


@given(documents)
def test_spelling_and_order_do_not_change_the_bytes(document: object) -> None:
    spelled = json.dumps(_reversed(document), indent=3, ensure_ascii=True)
    assert canonical_bytes(loads_strict(spelled)) == canonical_bytes(document)


def _reversed(value: object) -> object:
    if isinstance(value, dict):
        return {name: _reversed(item) for name, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("text", "pointer", "words"),
    [
        ('{"a": {"b": 1, "b": 2}}', "/a/b", "given twice"),
        ('[{"x/y~": 1, "x\\u002fy~": 2}]', "/0/x~1y~0", "given twice"),
        ('{"a": [1, NaN]}', "/a/1", "not a number"),
        ('{"a": -Infinity}', "/a", "infinite"),
        ('{"a": 1e400}', "/a", "infinite"),
        ('{"a": 9007199254740992}', "/a", "2^53"),
        ('{"a": -9007199254740993}', "/a", "2^53"),
        ('{"a": 1e20}', "/a", "2^53"),
        ('{"a": ' + "9" * 5000 + "}", "/a", "2^53"),
        ('{"a": "\\ud800"}', "/a", "surrogate"),
        ('{"\\udc00": 1}', "/?", "surrogate"),
        ("[" * 65 + "]" * 65, "/0" * 64, "deeper than 64"),
        ("[" * 100_000 + "]" * 100_000, "", "deeper than 64"),
        ('{"a": 1,}', "", "line 1"),
        ('{"a": 1} x', "", "line 1"),
        ("", "", "line 1"),
        ("{'a': 1}", "", "line 1"),
        ('"tab\there"', "", "line 1"),
        ("\ufeff{}", "", "byte order mark"),
        ("[01]", "", "line 1"),
        (" " * 1_048_577, "", "larger than"),
    ],
)
def test_a_text_that_readers_disagree_about_is_refused(text: str, pointer: str, words: str) -> None:
    with pytest.raises(Invalid) as refusal:
        loads_strict(text)
    assert refusal.value.errors[0].pointer == pointer
    assert words in refusal.value.errors[0].detail
    assert refusal.value.hint


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(Invalid, match="UTF-8"):
        loads_strict('{"a": "é"}'.encode("latin-1"))


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(Invalid) as refusal:
        loads_strict('{"a": 1, "a": NaN, "b": [1e999]}')
    assert {error.pointer for error in refusal.value.errors} == {"/a", "/b/0"}
    assert len(refusal.value.errors) == 3


def test_depth_64_is_still_read() -> None:
    text = "[" * 64 + "]" * 64
    assert canonical_bytes(loads_strict(text)) == text.encode()


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 2**53, {1: "a"}, {"a": {1, 2}}, b"bytes", "\ud83d", {"\ud83d": 1}],
)
def test_a_value_without_one_spelling_cannot_be_written(value: object) -> None:
    with pytest.raises(Invalid):
        canonical_bytes(value)


def test_digests_have_one_stored_form_and_one_shown_form() -> None:
    stored = digest(b"")
    assert stored == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_text(stored) == f"sha256:{stored}"
    assert parse_digest(f" SHA256:{stored.upper()} ") == stored
    with pytest.raises(Invalid, match="not a SHA-256"):
        parse_digest("sha1:" + stored)


def test_pointers_escape_as_rfc_6901_says() -> None:
    assert pointer_of("a/b", 0, "m~n", "") == "/a~1b/0/m~0n/"
