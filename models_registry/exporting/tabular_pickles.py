"""Open a pickled table model by an allow-list: what it may name is exact, everything else refuses.

A pickle is a program. Its only way to reach code is to name it, so each name is looked up here and
compared with the families below (docs/decisions/0006). Classes may be built, a handful of functions
that rebuild arrays may be called, a few more may be kept as values, nothing else exists. The names
were measured on what scikit-learn 1.9, LightGBM 4, XGBoost 3, CatBoost 1.2, numpy 1 and 2, scipy
and pandas really write. This is the inner wall: it runs in the sandbox only.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import warnings
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, cast

import joblib
import numpy as np
from joblib import numpy_pickle
from typing_extensions import override

from models_registry.exporting import tabular_names
from models_registry.exporting.harness import is_memory_error
from models_registry.exporting.module_source import Code
from models_registry.exporting.protocol import Refused
from models_registry.exporting.tabular_names import Named

_MAX_INFLATED: Final = 4 * 1024**3
_HINT: Final = (
    "Save the fitted model alone (joblib.dump(pipeline, …)) with transformers of scikit-learn, "
    "XGBoost, LightGBM or CatBoost. Where it needs classes of your own, upload their source with "
    "it; else export it to ONNX (skl2onnx) and upload that."
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The object, and what its age gives rise to say."""

    model: Any
    warnings: tuple[str, ...] = ()
    versions: tuple[str, ...] = field(default=())


def load(path: Path, code: Code | None = None) -> Loaded:
    """The object in a pickle or joblib file, compressed or not; `Refused` for anything unsafe."""
    with path.open("rb") as stream, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = _Unpickler(_inflated(stream), code).load()
        except (Refused, MemoryError):
            raise
        except Exception as error:
            if is_memory_error(error):
                raise MemoryError(str(error)) from error
            raise _damaged(error, _versions(caught)) from error
    versions = _versions(caught)
    return Loaded(model, tuple(_age(version) for version in versions), versions)


def _inflated(stream: IO[bytes]) -> IO[bytes]:
    """The pickle below one layer of the compressions that joblib writes, its size counted."""
    head = stream.read(6)
    stream.seek(0)
    openers: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
    for magic, opener in openers.items():
        if head.startswith(magic):
            return cast(IO[bytes], _Counted(opener(stream)))
    if head.startswith(b"\x5d\x00\x00"):  # .lzma, the older form
        return cast(IO[bytes], _Counted(lzma.open(stream)))
    if head[:1] == b"x" and int.from_bytes(head[:2]) % 31 == 0:
        data = zlib.decompressobj().decompress(stream.read(), _MAX_INFLATED)
        return io.BytesIO(data)
    return stream


class _Counted(io.BufferedIOBase):
    """A decompressed stream that ends the work when it gives more than any model needs."""

    def __init__(self, inner: Any) -> None:
        self._inner = io.BufferedReader(inner)
        self._count = 0

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        """At most `size` bytes."""
        return self._told(self._inner.read(size))

    @override
    def readinto(self, buffer: Any, /) -> int:
        """Fill `buffer`."""
        data = self.read(len(memoryview(buffer)))
        memoryview(buffer)[: len(data)] = data
        return len(data)

    @override
    def readline(self, size: int | None = -1, /) -> bytes:
        """One line."""
        return self._told(self._inner.readline(size))

    def peek(self, size: int = 0, /) -> bytes:
        """What comes next, kept for the next read."""
        return self._inner.peek(size)

    def _told(self, data: bytes) -> bytes:
        self._count += len(data)
        if self._count > _MAX_INFLATED:
            raise Refused(
                "archive_bomb",
                "The compressed model unpacks to more than 4 GiB.",
                "Save it again without compression.",
            )
        return data


class _Unpickler(numpy_pickle.NumpyUnpickler):  # type: ignore[misc]
    """joblib's unpickler, which is Python's own in Python, with every name looked up in the list.

    An array of objects is a pickle of its own inside the file: it is read by the same rules.
    """

    dispatch = numpy_pickle.NumpyUnpickler.dispatch.copy()

    def __init__(self, stream: IO[bytes], code: Code | None) -> None:
        super().__init__("", stream, ensure_native_byte_order=True)
        self._code = code
        self._callable: set[int] = set()
        self._kept: list[Any] = []

    @override
    def find_class(self, module: str, name: str, /) -> Any:
        """The object of that name where the list has it; `Refused` names what it has not."""
        if (module, name) == ("joblib.numpy_pickle", "NumpyArrayWrapper"):
            return self._may_be_called(_ArrayWrapper)
        named = tabular_names.look_up(module, name, self._code)
        if named is None:
            raise _refused(module, name)
        return self._may_be_called(named.value) if named.may_be_called else self._keep(named)

    def _may_be_called(self, value: Any) -> Any:
        self._callable.add(id(value))
        self._kept.append(value)
        return value

    def _keep(self, named: Named) -> Any:
        self._kept.append(named.value)
        return named.value

    @override
    def persistent_load(self, pid: Any) -> Any:
        """Nothing lies outside the file."""
        raise Refused("unsafe_pickle", "The pickle wants an object from outside the file.", _HINT)

    def _check(self, function: Any) -> None:
        if id(function) not in self._callable:
            kind = getattr(function, "__name__", type(function).__name__)
            raise Refused(
                "unsafe_pickle",
                f"The pickle calls {str(kind)[:80]}, which only data may name.",
                _HINT,
            )

    def load_reduce(self) -> None:
        """REDUCE: a call."""
        self._check(self.stack[-2])
        pickle._Unpickler.load_reduce(self)  # type: ignore[attr-defined]

    def load_newobj(self) -> None:
        """NEWOBJ: cls.__new__(cls, *args)."""
        self._check(self.stack[-2])
        pickle._Unpickler.load_newobj(self)  # type: ignore[attr-defined]

    def load_newobj_ex(self) -> None:
        """NEWOBJ_EX: with keyword arguments."""
        self._check(self.stack[-3])
        pickle._Unpickler.load_newobj_ex(self)  # type: ignore[attr-defined]

    def _instantiate(self, klass: Any, args: Any) -> None:
        """INST and OBJ: protocols 0 and 1."""
        self._check(klass)
        pickle._Unpickler._instantiate(self, klass, args)  # type: ignore[attr-defined]

    @override
    def load_build(self) -> None:
        """BUILD: state goes into instances, never into classes, functions or modules."""
        instance = self.stack[-2]
        own = getattr(instance, "__dict__", {})
        if isinstance(instance, type) or type(instance).__module__ in {"builtins", "types"}:
            kind = getattr(instance, "__name__", type(instance).__name__)
            raise Refused("unsafe_pickle", f"The pickle changes {str(kind)[:80]} itself.", _HINT)
        if "__setstate__" in own:  # put there by an earlier BUILD: it would be called now
            raise Refused("unsafe_pickle", "The pickle changes how an object is rebuilt.", _HINT)
        super().load_build()

    def inner(self) -> _Unpickler:
        """For a pickle inside this one, which joblib writes for an array of objects."""
        return type(self)(self.file_handle, self._code)

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.NEWOBJ[0]] = load_newobj
    dispatch[pickle.NEWOBJ_EX[0]] = load_newobj_ex
    dispatch[pickle.BUILD[0]] = load_build


class _ArrayWrapper(numpy_pickle.NumpyArrayWrapper):  # type: ignore[misc]
    """joblib's place-holder for an array whose bytes follow; no files beside, no subclasses."""

    @override
    def read(self, unpickler: Any, ensure_native_byte_order: bool) -> Any:
        """The array that follows in the file."""
        if not isinstance(self.dtype, np.dtype) or self.dtype.itemsize == 0:
            raise ValueError("an array has no usable data type")
        if any(not isinstance(size, int) or size < 0 for size in self.shape):
            raise ValueError("an array has no usable shape")
        if self.dtype.hasobject:
            return unpickler.inner().load()
        return self.read_array(unpickler, ensure_native_byte_order)


def _refused(module: str, name: str) -> Refused:
    if module.startswith("sklearn.externals") or tabular_names.has_moved(module):
        here = f"scikit-learn {tabular_names.installed()}"
        return Refused(
            "pickle_too_old",
            f"The file names {module[:80]}.{name[:80]}, which {here} does not have: it was saved "
            "by another release, probably one before 0.22.",
            f"Load it where it was made and save it again with {here} or a near one, or export "
            "it to ONNX there (skl2onnx).",
        )
    if module == "joblib.numpy_pickle_compat" or "NDArrayWrapper" in name:
        return Refused(
            "pickle_too_old",
            "The file was saved by a joblib before 0.10, with its arrays in other files.",
            "Load it where it was made and save it again with joblib.dump(model, path).",
        )
    return Refused(
        "unsafe_pickle",
        f"The pickle imports {module[:80]}.{name[:80]}, which is not among the classes of "
        "estimators, transformers and arrays that may be opened; nothing was run.",
        _HINT,
    )


def _damaged(error: Exception, versions: tuple[str, ...]) -> Refused:
    first = str(error).strip().partition("\n")[0][:200]
    if versions:
        return Refused(
            "pickle_too_old",
            f"The model was saved with scikit-learn {versions[0]} and cannot be opened by "
            f"{tabular_names.installed()}: {type(error).__name__}: {first}",
            f"Load it with scikit-learn {versions[0]} and save it again with "
            f"{tabular_names.installed()} or a near one, or export ONNX there (skl2onnx).",
        )
    return Refused(
        "pickle_damaged",
        f"The pickle cannot be read to its end: {type(error).__name__}: {first}",
        "It is probably cut off, or was written by a release that does not fit "
        f"scikit-learn {tabular_names.installed()} and joblib {joblib.__version__}: save it again "
        "and upload it once more.",
    )


def _versions(caught: list[warnings.WarningMessage]) -> tuple[str, ...]:
    """The releases of scikit-learn that saved what was loaded, oldest first."""
    seen = {
        str(getattr(entry.message, "original_sklearn_version", ""))
        for entry in caught
        if type(entry.message).__name__ == "InconsistentVersionWarning"
    }
    return tuple(sorted(seen - {""}))


def _age(version: str) -> str:
    return (
        f"The model was saved with scikit-learn {version} and opened with "
        f"{tabular_names.installed()}. Its answers are compared with those of the latter; save it "
        "again with a release near to this one to be sure that nothing changed in between."
    )
