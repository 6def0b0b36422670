"""Changing a few values of a contract's YAML and leaving the rest of the text as it was written.

Comments, quotes and the order of fields stay: ruamel.yaml reads the text with them and writes it
back. What comes out is read again and compared with what was meant; where the two differ, the
document is written afresh (its comments are lost then, and `Edited.kept_comments` says so).
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from console.errors import FieldError, Invalid
from console.rules.canonical import JsonValue, pointer_of
from models_registry.rules.contract_order import in_reading_order, rank
from models_registry.rules.contract_proposal import to_yaml
from models_registry.rules.contract_yaml import load_yaml

MAX_EDITED_BYTES = 64 * 1024
"""A round trip takes about a second for so much text; by hand a document may be larger."""

Path = tuple[str | int, ...]

# Sections that say nothing when nothing is left in them.
_OPTIONAL = frozenset(
    {
        ("load",),
        ("request",),
        ("drift",),
        ("drift", "model_output_entropy"),
        ("explanation",),
        ("validation",),
        ("validation", "derived"),
        ("validation", "derived", "simplify"),
        ("validation", "derived", "graph"),
        ("validation", "derived", "fp16"),
        ("validation", "derived", "int8"),
        ("rollout",),
        ("rollout", "analysis"),
    }
)
_INDENTLESS = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*\n\1- ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edit:
    """A value for one place; `remove` takes the place away. A list's next index appends."""

    path: Path
    value: JsonValue = None
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    text: str
    kept_comments: bool = True


def edit_text(text: str, edits: Sequence[Edit]) -> Edited:
    """The text with the edits made, in their order.

    Raises Invalid where the text cannot be read, is larger than `MAX_EDITED_BYTES`, or has no
    such place.
    """
    if not edits:
        return Edited(text)
    if len(text) > MAX_EDITED_BYTES:
        raise Invalid(
            f"The document is larger than {MAX_EDITED_BYTES // 1024} KiB.",
            code="too_large_for_form",
            hint="Edit its YAML instead of the form.",
        )
    body = load_yaml(text)
    meant = _root(copy.deepcopy(body))
    for edit in edits:
        _make(meant, edit)
    written = _round_trip(text, edits)
    if written is not None and _reads_as(written, meant):
        return Edited(written)
    return Edited(to_yaml(in_reading_order(meant)), kept_comments="#" not in text)


def _root(body: JsonValue) -> dict[str, Any]:
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise _no_place(())
    return body


def _reads_as(text: str, meant: dict[str, Any]) -> bool:
    try:
        return load_yaml(text) == meant
    except Invalid:
        return False


def _round_trip(text: str, edits: Sequence[Edit]) -> str | None:
    """The text written back by ruamel.yaml; None where it does not understand it as we do."""
    writer = YAML(typ="rt", pure=True)
    writer.preserve_quotes = True
    writer.width = max(100, *(len(line) for line in text.splitlines()), 0)
    indentless = _INDENTLESS.search(text) is not None or "\n" not in text
    writer.indent(mapping=2, sequence=2 if indentless else 4, offset=0 if indentless else 2)
    try:
        document = writer.load(text)
        document = CommentedMap() if document is None else document
        for edit in edits:
            _make(document, Edit(edit.path, _styled(edit.value), edit.remove))
        stream = io.StringIO()
        writer.dump(document, stream)
    except (YAMLError, Invalid, ValueError, TypeError, KeyError, AttributeError):
        return None
    return stream.getvalue()


def _styled(value: Any) -> Any:
    """On one line what holds no mapping, as the documents here are written."""
    if isinstance(value, dict):
        made = CommentedMap((name, _styled(item)) for name, item in value.items())
        if value and not any(_holds_mapping(item) for item in value.values()):
            made.fa.set_flow_style()
        return made
    if isinstance(value, list):
        listed = CommentedSeq(_styled(item) for item in value)
        if not _holds_mapping(value):
            listed.fa.set_flow_style()
        return listed
    return value


def _holds_mapping(value: Any) -> bool:
    if isinstance(value, list):
        return any(_holds_mapping(item) for item in value)
    return isinstance(value, dict)


def _make(root: Any, edit: Edit) -> None:
    """One edit on plain values or on ruamel's; both behave as dict and list."""
    *parents, last = edit.path
    holder = root
    trail: list[tuple[Any, str | int]] = []
    for depth, part in enumerate(parents):
        if edit.remove and not _has(holder, part):
            return
        trail.append((holder, part))
        following = edit.path[depth + 1]
        holder = _step(holder, part, edit.path[: depth + 1], as_list=isinstance(following, int))
    if edit.remove:
        if _has(holder, last):
            del holder[last]
        _prune(trail, tuple(parents))
        return
    _put(holder, last, edit.value, edit.path)


def _prune(trail: list[tuple[Any, str | int]], parents: Path) -> None:
    for depth in range(len(parents), 0, -1):
        holder, part = trail[depth - 1]
        left = holder[part]
        is_bare_objective = parents[0] == "objectives" and depth == 2 and set(left) <= {"name"}
        if not is_bare_objective and (left or parents[:depth] not in _OPTIONAL):
            return
        del holder[part]


def _has(holder: Any, part: str | int) -> bool:
    if isinstance(part, int):
        return isinstance(holder, list) and part < len(holder)
    return isinstance(holder, dict) and part in holder


def _step(holder: Any, part: str | int, at: Path, *, as_list: bool) -> Any:
    """What lies at `part`, made where it is missing."""
    if not _has(holder, part) or holder[part] is None:
        made: Any = [] if as_list else {}
        if isinstance(holder, CommentedMap | CommentedSeq):
            made = CommentedSeq() if as_list else CommentedMap()
        _put(holder, part, made, at)
    return holder[min(part, len(holder) - 1) if isinstance(part, int) else part]


def _put(holder: Any, part: str | int, value: Any, at: Path) -> None:
    if isinstance(part, int):
        if not isinstance(holder, list):
            raise _no_place(at)
        if part < len(holder):
            holder[part] = value
        else:
            holder.append(value)
        return
    if not isinstance(holder, dict):
        raise _no_place(at)
    if part in holder or not isinstance(holder, CommentedMap):
        holder[part] = value
        return
    later = (i for i, name in enumerate(holder) if rank(str(name)) > rank(part))
    holder.insert(next(later, len(holder)), part, cast(Any, value))


def _no_place(at: Path) -> Invalid:
    pointer = pointer_of(*at)
    return Invalid(
        f"{pointer or 'The document'} cannot be filled in here: the YAML has something else there.",
        code="no_such_place",
        hint="Mend the YAML at this place first.",
        errors=(FieldError(pointer, "is not what the form expects"),),
    )
