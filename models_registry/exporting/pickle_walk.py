"""Run a pickle on a machine that can do nothing, to see everything that it would import.

Reading opcodes in a row misses what joblib writes behind raw array bytes, and guesses at names that
come from the memo. This walks the real stack machine of the standard library's unpickler (PEP 307,
PEP 3154, PEP 574) with every import, call and build replaced by an inert placeholder. Long strings
and arrays are skipped, not kept. Standard library only.
"""

from __future__ import annotations

import _compat_pickle
import io
import pickle
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Final, NoReturn

from models_registry.exporting.protocol import Refused

MIB: Final = 1 << 20
LONG: Final = MIB
MAX_FRAME: Final = 64 * MIB
MAX_LINE: Final = 64 * 1024
MAX_STEPS: Final = 10_000_000

COMPUTED: Final = "?"
"""Module of an import whose name the pickle makes up while it runs."""

JOBLIB_ARRAY: Final = ("joblib.numpy_pickle", "NumpyArrayWrapper")
_DTYPE: Final = re.compile(r"(?:([?])|([biufcSUVmMO])([0-9]{1,9}))\Z")
_MAX_DIMENSIONS: Final = 64


class Budget:
    """Bytes that may still be unpacked from compressed members, over the whole file."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = size

    def take(self, size: int) -> None:
        """Raise `Refused` once more was unpacked than a model file unpacks to."""
        self.left -= size
        if self.left < 0:
            raise Refused(
                "archive_too_large",
                f"The file unpacks to more than {self.size // MIB} MiB.",
                "Save the model without compression, or as safetensors or ONNX.",
            )


class Reader:
    """A stream read forward only, with a look ahead; every byte is charged to the budget."""

    def __init__(self, stream: IO[bytes], budget: Budget) -> None:
        self._stream = stream
        self._budget = budget
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, fewer at the end of the stream; they stay to be read."""
        while len(self._ahead) < size:
            chunk = self._take(size - len(self._ahead))
            if not chunk:
                break
            self._ahead += chunk
        return self._ahead[:size]

    def exactly(self, size: int) -> bytes:
        """`size` bytes; EOFError where the stream ends before."""
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        parts = [data]
        missing = size - len(data)
        while missing > 0:
            chunk = self._take(min(missing, MIB))
            if not chunk:
                raise EOFError("the file ends in the middle of a value")
            parts.append(chunk)
            missing -= len(chunk)
        return data if len(parts) == 1 else b"".join(parts)

    def read(self, size: int = -1) -> bytes:
        """As the unpickler reads: exactly `size` bytes; a long value is skipped and is empty."""
        if size <= LONG:
            return self.exactly(max(0, size))
        self.skip(size)
        return b""

    def readline(self) -> bytes:
        """One line with its end; ValueError where it is longer than any name."""
        line = bytearray()
        while not line.endswith(b"\n"):
            if len(line) >= MAX_LINE:
                raise ValueError("a line without end")
            line += self.exactly(1)
        return bytes(line)

    def skip(self, size: int) -> None:
        """Pass over `size` bytes; EOFError where the stream ends before."""
        while size > 0:
            size -= len(self.exactly(min(size, MIB)))

    def chunk(self, size: int = MIB) -> bytes:
        """What comes next, at most `size` bytes; b"" at the end."""
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return data or self._take(size)

    def _take(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._budget.take(len(data))
        return data


class Inert:
    """Stands for whatever a pickle imports or makes; does nothing, whatever it is asked."""

    __slots__ = ("arguments", "origin", "state")

    def __init__(self, origin: tuple[str, str] = ("", ""), arguments: Any = ()) -> None:
        self.origin = origin
        self.arguments = arguments
        self.state: Any = None

    def __call__(self, *arguments: Any) -> Inert:
        """What importing code would have been called for."""
        return Inert(self.origin, arguments)

    def nothing(self, *ignored: Any) -> None:
        """Take items as a list, a set or a mapping would, and forget them."""

    append = extend = add = __setitem__ = nothing


@dataclass(frozen=True, slots=True)
class Walk:
    """What a pickle would import, as (module, name); `complete` when it ran to its end.

    `value` is what was left on the stack when that is a number or a text. `problem` says why a
    walk is not complete.
    """

    imports: frozenset[tuple[str, str]]
    complete: bool
    steps: int
    value: object = None
    problem: str = ""


def walk(reader: Reader, *, arrays: bool = True, max_steps: int = MAX_STEPS) -> Walk:
    """Walk one pickle; `arrays` follows joblib's raw arrays, which plain `pickle.load` would not.

    Raises `Refused` only for the budget of the reader.
    """
    machine = _Machine(reader, arrays=arrays, max_steps=max_steps)
    try:
        value = machine.load()
    except (Refused, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a broken pickle raises whatever it likes
        said = f"{type(error).__name__}: {error}"[:200]
        return Walk(frozenset(machine.imports), False, machine.steps, None, said)
    kept = value if isinstance(value, int | str) else None
    return Walk(frozenset(machine.imports), True, machine.steps, kept)


class _Machine(pickle._Unpickler):  # joblib builds on it too; the C one is closed
    dispatch: ClassVar[Any] = dict(pickle._Unpickler.dispatch)
    _unframer: Any
    stack: list[Any]
    append: Callable[[Any], None]

    def __init__(self, reader: Reader, *, arrays: bool, max_steps: int) -> None:
        super().__init__(reader, encoding="latin1")
        self.reader = reader
        self.arrays = arrays
        self.max_steps = max_steps
        self.steps = 0
        self.imports: set[tuple[str, str]] = set()

    def load(self) -> Any:
        """The standard loop with a limit of steps."""
        self._unframer = pickle._Unframer(self.reader.read, self.reader.readline)  # type: ignore[attr-defined]
        self.read = self._unframer.read
        self.readinto = self._unframer.readinto
        self.readline = self._unframer.readline
        self.metastack: list[Any] = []
        self.stack = []
        self.append = self.stack.append
        self.proto = 0
        dispatch = self.dispatch
        try:
            while True:
                self.steps += 1
                if self.steps > self.max_steps:
                    raise ValueError(f"more than {self.max_steps} steps")
                dispatch[self.read(1)[0]](self)
        except pickle._Stop as stop:  # type: ignore[attr-defined]
            return stop.value

    def find_class(self, module: str, name: str) -> Any:
        """Note the import, under its Python 2 and its Python 3 name."""
        if not (isinstance(module, str) and isinstance(name, str) and module and name):
            module, name = COMPUTED, COMPUTED
        self.imports.add((module, name))
        if self.proto < 3:
            mapped = _compat_pickle.NAME_MAPPING.get((module, name))
            if mapped is None:
                mapped = (_compat_pickle.IMPORT_MAPPING.get(module, module), name)
            self.imports.add(mapped)
        return Inert((module, name))

    def load_stack_global(self) -> None:
        """The name has to lie on the stack as text; a real machine may have made it by a call."""
        name = self.stack.pop()
        self.append(self.find_class(self.stack.pop(), name))

    dispatch[pickle.STACK_GLOBAL[0]] = load_stack_global

    def get_extension(self, code: int) -> None:
        """The copyreg registry can stand for any import."""
        self.imports.add((COMPUTED, f"extension {code}"))
        self.append(Inert())

    def persistent_load(self, pid: Any) -> Any:
        """What torch keeps beside the pickle: tensors' storages."""
        return Inert()

    def load_frame(self) -> None:
        """A frame is taken whole, so its size is bounded."""
        size = struct.unpack("<Q", self.read(8))[0]
        if size > MAX_FRAME:
            raise ValueError(f"a frame of {size} bytes")
        frame = self._unframer.current_frame
        if frame is not None and frame.read() != b"":
            raise ValueError("a frame inside a frame")
        self._unframer.current_frame = io.BytesIO(self.reader.exactly(size))

    dispatch[pickle.FRAME[0]] = load_frame

    def load_bytearray8(self) -> None:
        """The original allocates what the pickle claims."""
        size = struct.unpack("<Q", self.read(8))[0]
        if size > sys.maxsize:
            raise ValueError(f"an array of {size} bytes")
        self.append(bytearray(self.read(size)))

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8

    def load_reduce(self) -> None:
        """Call nothing."""
        arguments = self.stack.pop()
        self.stack[-1] = _made(self.stack[-1], arguments)

    dispatch[pickle.REDUCE[0]] = load_reduce

    def load_newobj(self) -> None:
        """Make nothing."""
        arguments = self.stack.pop()
        self.append(_made(self.stack.pop(), arguments))

    dispatch[pickle.NEWOBJ[0]] = load_newobj

    def load_newobj_ex(self) -> None:
        """Make nothing, with keywords."""
        self.stack.pop()
        self.load_newobj()

    dispatch[pickle.NEWOBJ_EX[0]] = load_newobj_ex

    def load_build(self) -> None:
        """Keep the state, and pass over the array that joblib writes behind its wrapper."""
        state = self.stack.pop()
        target = self.stack[-1]
        if not isinstance(target, Inert):
            raise TypeError("state for a plain value")
        target.state = state
        if self.arrays and target.origin == JOBLIB_ARRAY:
            self._pass_array(state)
            self.stack[-1] = Inert()

    dispatch[pickle.BUILD[0]] = load_build

    def _pass_array(self, state: Any) -> None:
        """Source of the layout: joblib.numpy_pickle.NumpyArrayWrapper.read_array."""
        if not isinstance(state, dict):
            _unreadable()
        size = _item_size(state.get("dtype"))
        shape = state.get("shape")
        if not isinstance(shape, tuple) or len(shape) > _MAX_DIMENSIONS:
            _unreadable()
        count = 1
        for length in shape:
            if type(length) is not int or not 0 <= length <= sys.maxsize:
                _unreadable()
            count *= length
        if size is None:
            inner = _Machine(self.reader, arrays=self.arrays, max_steps=self.max_steps - self.steps)
            inner.imports = self.imports
            inner.load()
            self.steps += inner.steps
            return
        if state.get("numpy_array_alignment_bytes") is not None:
            self.reader.skip(self.reader.exactly(1)[0])
        self.reader.skip(count * size)


def _made(maker: Any, arguments: Any) -> Inert:
    if not isinstance(maker, Inert):
        raise TypeError(f"a call of a plain {type(maker).__name__}")
    return Inert(maker.origin, arguments)


def _unreadable() -> NoReturn:
    raise ValueError("an array of joblib that it would not write like this")


def _item_size(dtype: Any) -> int | None:
    """Bytes of one element of a pickled numpy dtype; None for Python objects."""
    if not isinstance(dtype, Inert) or dtype.origin != ("numpy", "dtype"):
        _unreadable()
    arguments, state = dtype.arguments, dtype.state
    if not (isinstance(arguments, tuple) and arguments and isinstance(arguments[0], str)):
        _unreadable()
    found = _DTYPE.match(arguments[0])
    if found is None:
        _unreadable()
    kind, digits = found.group(1) or found.group(2), int(found.group(3) or 1)
    size = digits * 4 if kind == "U" else digits
    if isinstance(state, tuple):  # (version, order, subdtype, names, fields, size, align, flags, …)
        if len(state) < 8 or state[5] not in (-1, size):
            _unreadable()
        if isinstance(state[7], int) and state[7] & 1:  # NPY_ITEM_REFCOUNT: holds objects
            return None
    elif state is not None:
        _unreadable()
    return None if kind == "O" else size
