"""Conditions over a request's inputs, in the Common Expression Language (CEL).

CEL has no loops but over lists, no state and nothing to call outside; the engine bounds the depth
of an expression and the steps of an evaluation. Regular expressions are left out: one pattern can
cost more than all else. What is compared is checked when an expression is compiled, so that one
that compiles fails later only for values that are not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from models_registry.rules.contract_types import Tensor

MAX_VALUES = 1024
"""Values of one input in one row that an expression may read."""
MAX_TEXT = 4096
"""Characters of one text that an expression may read."""

_BATCH = "batch"
_FLOATS = frozenset({"FP16", "BF16", "FP32", "FP64"})
# Words that CEL keeps for itself, and names that stand for its types.
_RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import"),
        *("in", "let", "loop", "package", "namespace", "null", "return", "true", "var", "void"),
        *("while", "bool", "bytes", "double", "duration", "dyn", "int", "list", "map"),
        *("null_type", "string", "timestamp", "type", "uint"),
    )
)
_WITHOUT_PATTERNS = "stdlib: {exclude_functions: [{name: matches}]}"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")
_PLACE = re.compile(r"<input>:(-?\d+):(-?\d+): (.*)")


class ExpressionFault(Exception):
    """The text says why an expression cannot be used."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that gives true or false; `inputs` are the names of those that it reads."""

    text: str
    inputs: tuple[str, ...]
    _variables: tuple[tuple[str, str], ...]
    _program: Any

    def holds(self, row: Mapping[str, object]) -> bool | None:
        """Whether it is true of a row; None when that cannot be said.

        `row` has by input's name a number, a truth value, a text, or the list of an input's
        values. An input that is not there, is NaN, too large or of another type cannot be judged.
        """
        data = {}
        for name, variable in self._variables:
            value = row.get(name)
            if not _is_usable(value):
                return None
            data[variable] = value
        try:
            found = self._program.eval(data=data).value()
        except RuntimeError:
            # The engine's budget of steps is spent.
            return None
        return found if isinstance(found, bool) else None


class Language:
    """The expressions that can be written over some inputs."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.names = variable_names([tensor.name for tensor in inputs])
        self._inputs = {self.names[t.name]: t for t in inputs if t.name in self.names}
        cel = _engine()
        self._env = cel.NewEnv(
            config=cel.NewEnvConfigFromYaml(_WITHOUT_PATTERNS),
            variables={name: _type(cel.Type, tensor) for name, tensor in self._inputs.items()},
        )

    def compile(self, text: str) -> Condition:
        """Raises ExpressionFault when the text is no condition over the inputs."""
        try:
            program = self._env.compile(text)
        except RuntimeError as error:
            raise ExpressionFault(_fault(str(error))) from error
        if program.return_type() != _engine().Type.BOOL:
            kind = program.return_type().name().lower()
            raise ExpressionFault(f"gives a {kind}, where true or false is expected")
        words = set(_NAME.findall(_TEXT.sub("", text)))
        read = [(self._inputs[word].name, word) for word in self._inputs if word in words]
        for name, word in read:
            size = row_values(self._inputs[word])
            if size is not None and size > MAX_VALUES:
                raise ExpressionFault(
                    f"reads “{name}”, which has {size} values a row; at most {MAX_VALUES} "
                    "can be read"
                )
        return Condition(text, tuple(name for name, _ in read), tuple(read), program)


def variable_names(inputs: Sequence[str]) -> dict[str, str]:
    """By input's name what expressions call it: each character that CEL does not take is `_`.

    An input whose name would then be another's has none.
    """
    names = {name: _identifier(name) for name in inputs}
    taken = list(names.values())
    return {name: word for name, word in names.items() if name == word or taken.count(word) == 1}


def row_values(tensor: Tensor) -> int | None:
    """How many values one row of a tensor has; None when a size beside the batch varies."""
    sizes = row_dims(tensor)
    return None if any(isinstance(size, str) for size in sizes) else prod(int(s) for s in sizes)


def row_dims(tensor: Tensor) -> tuple[int | str, ...]:
    """The sizes of one row: all but the batch."""
    return tensor.dims[1:] if tensor.dims[:1] == (_BATCH,) else tensor.dims


def is_single(tensor: Tensor) -> bool:
    """Whether a row of this input is one value, not a list."""
    return row_values(tensor) == 1


def _identifier(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if word[:1].isdigit():
        word = f"_{word}"
    return f"{word}_" if word in _RESERVED else word


def _type(types: Any, tensor: Tensor) -> Any:
    named = {"BOOL": types.BOOL, "BYTES": types.STRING}
    kind = named.get(tensor.dtype, types.DOUBLE if tensor.dtype in _FLOATS else types.INT)
    return kind if is_single(tensor) else types.List(kind)


def _is_usable(value: object) -> bool:
    if isinstance(value, list):
        return len(value) <= MAX_VALUES and all(_is_one(item) for item in value)
    return _is_one(value)


def _is_one(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    # NaN alone is not itself.
    return isinstance(value, bool | int | float) and value == value


def _fault(words: str) -> str:
    """What the engine says, in one line; it counts characters from 1."""
    for line, column, said in _PLACE.findall(words):
        hint = ""
        if "overload" in said and "double" in said and "int" in said:
            hint = " (numbers beside floating point ones are written with a point, as in 1.0)"
        where = f"at character {column}: " if int(line) == 1 else ""
        return f"{where}{said}{hint}"
    return words.splitlines()[0].removeprefix("CANCELLED: ") if words else "cannot be read"


@cache
def _engine() -> Any:
    # Most processes never meet an expression; loading the engine takes 12 MB.
    from cel_expr_python import cel

    return cel
