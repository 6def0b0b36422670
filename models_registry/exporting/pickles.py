"""What a pickle would import, read without unpickling it.

Pickle is a program for a small stack machine; each import is an opcode (PEP 307, pickletools).
Standard library only.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Final, cast

# Modules through which a pickle reaches the system; the full scan is picklescan's, in the sandbox.
_DANGEROUS_MODULES: Final = frozenset(
    [
        "os",
        "posix",
        "nt",
        "subprocess",
        "sys",
        "pty",
        "shutil",
        "socket",
        "ctypes",
        "importlib",
        "runpy",
        "code",
        "pickle",
        "_pickle",
        "marshal",
        "webbrowser",
        "asyncio",
        "multiprocessing",
        "threading",
        "signal",
        "pathlib",
        "tempfile",
        "urllib",
        "http",
        "requests",
        "builtins",
        "__builtin__",
        "operator",
        "functools",
        "types",
        "timeit",
        "pdb",
        "bdb",
        "cProfile",
        "pydoc",
        "commands",
        "torch.hub",
        "torch.utils.cpp_extension",
        "numpy.testing",
    ]
)
_HARMLESS_BUILTINS: Final = frozenset(
    [
        "int",
        "float",
        "bool",
        "str",
        "bytes",
        "bytearray",
        "list",
        "dict",
        "tuple",
        "set",
        "frozenset",
        "complex",
        "object",
        "slice",
        "range",
    ]
)
# What torch.save writes for tensors, and what training loops commonly keep beside them.
_WEIGHTS: Final = frozenset(
    {
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("torch._utils", "_rebuild_tensor"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_parameter"),
        ("torch._utils", "_rebuild_qtensor"),
        ("torch._utils", "_rebuild_sparse_tensor"),
        ("torch._tensor", "_rebuild_from_type_v2"),
        ("torch", "Size"),
        ("torch", "device"),
        ("torch", "Tensor"),
        ("torch.nn.parameter", "Parameter"),
        ("torch.serialization", "_get_layout"),
        ("torch.storage", "UntypedStorage"),
        ("torch.storage", "TypedStorage"),
        ("_codecs", "encode"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
    }
)


@dataclass(frozen=True, slots=True)
class Scan:
    """Imports as (module, name), whether the pickle could be read to its end, opcodes read."""

    imports: frozenset[tuple[str, str]]
    complete: bool
    opcodes: int

    @property
    def roots(self) -> frozenset[str]:
        """The top-level packages that it would import."""
        return frozenset(module.partition(".")[0] for module, _ in self.imports)

    @property
    def dangerous(self) -> tuple[str, ...]:
        """Imports that reach the operating system or run code, as module.name."""
        return tuple(
            sorted(
                f"{module}.{name}" for module, name in self.imports if _is_dangerous(module, name)
            )
        )

    @property
    def holds_module(self) -> bool:
        """Whether it would build layers: a whole module, not a checkpoint with some objects."""
        return any(
            module.startswith("torch.nn.") and module != "torch.nn.parameter"
            for module, _ in self.imports
        )

    @property
    def unexpected(self) -> tuple[str, ...]:
        """Imports that a file of weights does not need, as module.name."""
        return tuple(
            sorted(
                f"{module}.{name}" for module, name in self.imports if not is_weights(module, name)
            )
        )


def _is_dangerous(module: str, name: str) -> bool:
    if module in {"builtins", "__builtin__"}:
        return name not in _HARMLESS_BUILTINS
    return module in _DANGEROUS_MODULES or module.partition(".")[0] in _DANGEROUS_MODULES


def is_weights(module: str, name: str) -> bool:
    """Whether tensors, and the plain containers around them, are put together with this."""
    if (module, name) in _WEIGHTS:
        return True
    if module == "torch":
        return name.endswith("Storage") or name.islower()
    return module in {"builtins", "__builtin__"} and name in _HARMLESS_BUILTINS


class _Window:
    """A stream that ends after a number of bytes: a pickle may claim strings of any length."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int) -> bytes:
        """At most what is left."""
        data = self._stream.read(max(0, min(size, self._left)))
        self._left -= len(data)
        return data

    def readline(self) -> bytes:
        """One line, cut where the window ends."""
        data = self._stream.readline(max(0, min(65_536, self._left)))
        self._left -= len(data)
        return data

    def tell(self) -> int:
        """Position in the stream below; pickletools reports it."""
        return self._stream.tell()


def scan(stream: IO[bytes], *, max_opcodes: int = 5_000_000, max_bytes: int = 64 * 1024**2) -> Scan:
    """Read one pickle from `stream`; never runs it, stops after `max_opcodes` or `max_bytes`.

    An import whose name is computed counts as ("?", "?"), which is never expected.
    """
    imports: set[tuple[str, str]] = set()
    strings: list[str] = []
    memo: dict[int, str] = {}
    count = 0
    window = _Window(stream, max_bytes)
    try:
        for opcode, argument, _ in pickletools.genops(cast(IO[bytes], window)):
            count += 1
            if count > max_opcodes:
                return Scan(frozenset(imports), False, count)
            _step(opcode.name, argument, strings, memo, imports)
    except Exception:  # noqa: BLE001 - pickletools raises all kinds on bytes that are no pickle
        return Scan(frozenset(imports), False, count)
    return Scan(frozenset(imports), True, count)


def _step(
    name: str,
    argument: object,
    strings: list[str],
    memo: dict[int, str],
    imports: set[tuple[str, str]],
) -> None:
    if name in {"GLOBAL", "INST"}:
        module, _, attribute = str(argument).partition(" ")
        imports.add((module, attribute))
        strings.append("?")
    elif name == "STACK_GLOBAL":
        known = len(strings) >= 2 and "?" not in strings[-2:]
        imports.add((strings[-2], strings[-1]) if known else ("?", "?"))
        strings.append("?")
    elif name in {"MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"}:
        slot = int(argument) if isinstance(argument, int) else len(memo)
        memo[slot] = strings[-1] if strings else "?"
    elif name in {"GET", "BINGET", "LONG_BINGET"}:
        strings.append(memo.get(int(str(argument)), "?"))
    elif (isinstance(argument, str) and "UNICODE" in name) or name in {
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
    }:
        strings.append(str(argument))
    elif name not in {"PROTO", "FRAME", "STOP", "MARK"}:
        # Anything else puts something that is no string on the stack, or takes some off.
        strings.append("?")
    if len(strings) > 1024:
        del strings[:-64]


def names(imports: Iterable[str], *, at_most: int = 5) -> str:
    """A few of the imports, for a sentence."""
    listed = list(imports)
    more = len(listed) - at_most
    return ", ".join(listed[:at_most]) + (f" and {more} more" if more > 0 else "")
