"""Names that people give: of models, of files, of aliases."""

from __future__ import annotations

import re
import unicodedata

from console.errors import FieldError, Invalid

MODEL_NAME = re.compile(r"[a-z][a-z0-9_]{1,62}")
# Triton models of later configuration generations are named so (fraud_detector_g2).
GENERATION_SUFFIX = re.compile(r"_g[0-9]+$")
# /models/new/ is the page that registers one.
RESERVED = frozenset({"new"})
ALIAS_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
TAG = re.compile(r"[^\s,][^,\x00-\x1f\x7f]{0,39}")
MAX_FILENAME = 255
# They can make a name read as another one: report\u202exnno.exe.
_DIRECTION_MARKS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_model_name(name: str) -> None:
    """Raise Invalid (`bad_name`) unless `name` is lower_snake_case of 2 to 63 characters."""
    if not MODEL_NAME.fullmatch(name):
        raise _bad(
            "/name",
            f"“{name[:80]}” is not a model name: use 2 to 63 lower-case letters, digits and _, "
            "beginning with a letter.",
            suggestion(name),
        )
    if name in RESERVED:
        raise _bad("/name", f"“{name}” is a word of Covenant's own addresses.", f"{name}_model")
    if suffix := GENERATION_SUFFIX.search(name):
        raise _bad(
            "/name",
            f"“{name}” ends in {suffix[0]}, which Covenant appends itself to tell configurations "
            "apart.",
            GENERATION_SUFFIX.sub("", name),
        )


def suggestion(name: str) -> str:
    """A name near `name` that would be taken, or nothing when too little of it is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    joined = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_0123456789")[:63].rstrip("_")
    return joined if MODEL_NAME.fullmatch(joined) else ""


def clean_filename(name: str) -> str:
    """The file's name as it is kept and shown, never used as a path: the last part, in NFC.

    Raises Invalid (`bad_filename`) for nothing, control characters or more than 255 characters.
    """
    last = unicodedata.normalize("NFC", re.split(r"[/\\]", name)[-1]).strip()
    if last in ("", ".", ".."):
        raise _bad_filename("The file has no name.")
    if len(last) > MAX_FILENAME:
        raise _bad_filename(
            f"The file's name has {len(last)} characters; at most {MAX_FILENAME} are kept."
        )
    if any(unicodedata.category(c) in ("Cc", "Cs") or c in _DIRECTION_MARKS for c in last):
        raise _bad_filename("The file's name has control characters.")
    return last


def check_alias(name: str) -> None:
    """Raise Invalid unless it names an alias such as champion, and not a number."""
    if not ALIAS_NAME.fullmatch(name):
        raise _bad(
            "/aliases",
            f"“{name[:80]}” is not an alias: use up to 40 lower-case letters, digits, - and _.",
            "champion",
        )


def check_tags(tags: list[str]) -> None:
    """Raise Invalid unless there are at most 20 short tags without commas."""
    if len(tags) > 20 or not all(isinstance(tag, str) and TAG.fullmatch(tag) for tag in tags):
        raise Invalid(
            "Tags are at most 20 words of up to 40 characters, without commas.",
            code="bad_tags",
            errors=(FieldError("/tags", "Too many, too long, empty or with a comma."),),
        )


def _bad(pointer: str, message: str, better: str) -> Invalid:
    hint = f"For example: {better}." if better else "For example: fraud_detector."
    return Invalid(message, code="bad_name", hint=hint, errors=(FieldError(pointer, message),))


def _bad_filename(message: str) -> Invalid:
    return Invalid(
        message,
        code="bad_filename",
        hint="Rename the file and upload it again.",
        errors=(FieldError("/filename", message),),
    )
