"""Refuse a file whose pickles would run code, before any framework opens it; nothing is run.

Pickles are found by content wherever they hide: bare, in zip and tar members, behind gzip, bz2,
xz or zlib, in numpy object arrays, in joblib's files behind raw arrays. Each is walked
(`pickle_walk`), and picklescan and modelscan judge what it would import:

- *dangerous*: either of them knows it as a way to commands, files, the network or more code; or its
  name is made up while the pickle runs; or it is on the short list below. Refused.
- *unknown*: neither harmless by picklescan's list nor dangerous. A scikit-learn pipeline consists
  of nothing else, so these pass; the sandbox is what holds them.

A list of bad names is never complete: this spares people obvious attacks, the walls stop the rest.
"""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from models_registry.exporting import archives, unpacking
from models_registry.exporting.pickle_walk import COMPUTED, JOBLIB_ARRAY, MIB, Budget, Reader, walk
from models_registry.exporting.pickles import names as listed
from models_registry.exporting.protocol import Refused

MAX_INFLATED: Final = 8 * 1024 * MIB
MAX_DEPTH: Final = 3
MAX_INNER_ARCHIVE: Final = 64 * MIB
MAX_CONFIG: Final = 64 * MIB
MAX_PICKLES: Final = 1_000

# torch.save before 1.6: five pickles, then raw storages (torch.serialization.MAGIC_NUMBER).
_TORCH_LEGACY: Final = 0x1950A86A20F9469CFC6C
_NAMED_PICKLE: Final = (".pkl", ".pickle", ".joblib", ".dill")
_HDF5: Final = b"\x89HDF\r\n\x1a\n"

# Ways to more code that both scanners let pass, or know under one of their names only.
_ALSO_DANGEROUS: Final = {
    "importlib": "*",
    "marshal": "*",
    "ctypes": "*",
    "codeop": "*",
    "multiprocessing": "*",
    "threading": "*",
    "_thread": "*",
    "signal": "*",
    "tempfile": "*",
    "zipimport": "*",
    "builtins": {"__import__", "globals", "locals", "vars", "setattr", "delattr", "input"},
    "types": {"FunctionType", "ModuleType", "MethodType"},
    "torch": {"load"},
    "torch.hub": "*",
    "torch.jit": {"load"},
    "torch.utils.cpp_extension": "*",
    "joblib": {"load"},
    "joblib.numpy_pickle": {"load", "load_temporary_memmap"},
    "numpy": {"load", "fromfile", "memmap", "save", "savetxt"},
    "pandas": {"read_pickle", "eval"},
    "dill": "*",
    "cloudpickle": {"load", "loads"},
}
_DANGEROUS_NAMES: Final = frozenset(
    ["__import__", "_load_from_bytes", "eval", "exec", "loads", "popen", "read_pickle", "system"]
)


@dataclass(slots=True)
class Findings:
    """What was found in one file.

    `imports` as (module, name); `pickles` counts the pickles that were read; `damaged` names those
    that could not be read to their end; `lambdas` counts Keras layers that carry Python code.
    `arrays` says that joblib's raw arrays were passed over, as joblib does and pickle does not.
    """

    imports: set[tuple[str, str]] = field(default_factory=set)
    pickles: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    lambdas: int = 0
    arrays: bool = True

    @property
    def dangerous(self) -> tuple[str, ...]:
        """Imports for which the file is refused, as module.name."""
        return dangerous(self.imports) if self.imports else ()


def refuse_unsafe(path: Path) -> None:
    """Raise `Refused` unless the file can be handed to its framework, in the sandbox.

    Codes: unsafe_pickle (names the imports), unsafe_lambda, pickle_damaged, archive_unsafe,
    archive_damaged, archive_too_large. A file without pickles costs a look at its first bytes.
    """
    found = scan(path)
    if bad := found.dangerous:
        raise Refused(
            "unsafe_pickle",
            f"Opening this file would run code: its pickle imports {listed(bad)}. "
            "It was not opened.",
            "A model needs none of this. Do not open the file elsewhere either. Get it from a "
            "source you trust, saved as weights alone (safetensors, a state dict) or as ONNX.",
        )
    if found.lambdas:
        raise Refused(
            "unsafe_lambda",
            f"The Keras model has {found.lambdas} Lambda layer(s): Python code in the file, "
            "which is not run.",
            "Replace the Lambda by built-in layers or keras.ops, or export the model to ONNX "
            "where it was trained (model.export(…, format='onnx')).",
        )
    if found.damaged:
        name, problem = next(iter(found.damaged.items()))
        where = f" in {name}" if name else ""
        raise Refused(
            "pickle_damaged",
            f"The pickle{where} cannot be read to its end ({problem}).",
            "It is probably cut off: save it again, compare its SHA-256, and upload it once more. "
            "What has millions of parts is better exported to ONNX where it was trained.",
        )


def scan(path: Path) -> Findings:
    """All pickles of a file and what they would import; `Refused` for unsound archives."""
    found = _scan(path, Findings())
    if JOBLIB_ARRAY in found.imports:
        # What joblib takes for numbers is more of the pickle to those who read it without joblib.
        plain = _scan(path, Findings(arrays=False)).imports
        found.imports |= {pair for pair in plain if COMPUTED not in pair}
    return found


def _scan(path: Path, found: Findings) -> Findings:
    budget = Budget(MAX_INFLATED)
    with path.open("rb") as stream:
        head = stream.read(512)
        if head.startswith(_HDF5):
            found.lambdas += _lambdas_of_hdf5(path)
            return found
        stream.seek(0)
        _look(Reader(stream, budget), "", 0, found, budget)
    if not head.startswith(b"PK\x03\x04") and not _zip_at_end(path):
        return found
    # A zip may follow something else, which pickle.load would take: both were or are looked at.
    _look_into_zip(path, 0, found, budget)
    return found


def dangerous(imports: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Those of the imports that picklescan, modelscan or the list above call dangerous, sorted."""
    # Heavy, and of no use to files without pickles.
    import modelscan.scanners  # noqa: F401 - before its tools: they import each other
    from modelscan.model import Model
    from modelscan.settings import DEFAULT_SETTINGS
    from modelscan.tools.picklescanner import scan_pickle_bytes as by_modelscan
    from picklescan.scanner import SafetyLevel
    from picklescan.scanner import scan_pickle_bytes as by_picklescan

    readings = {seen: pair for pair in imports for seen in _readings(*pair)}
    # One plain pickle of all imports: what is asked of the scanners is their judgement, not their
    # way of reading, which stops at the first array of a joblib file.
    plain = _pickle_of(readings)
    bad = {
        (item.module, item.name)
        for item in by_picklescan(io.BytesIO(plain), "imports").globals
        if item.safety is SafetyLevel.Dangerous
    }
    for issue in by_modelscan(Model("imports", io.BytesIO(plain)), DEFAULT_SETTINGS).issues:
        bad.add((issue.details.module, issue.details.operator))
    bad |= {pair for pair in readings if _is_also_dangerous(*pair)}
    asked = {readings[pair] for pair in bad if pair in readings}
    return tuple(sorted({_spoken(*pair) for pair in asked}))


def _spoken(module: str, name: str) -> str:
    return "a name made up while it runs" if module == COMPUTED else f"{module}.{name}"


def _is_also_dangerous(module: str, name: str) -> bool:
    if COMPUTED in (module, name) or name in _DANGEROUS_NAMES:
        return True
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        listed_names = _ALSO_DANGEROUS.get(".".join(parts[:length]))
        if listed_names == "*" or (length == len(parts) and listed_names and name in listed_names):
            return True
    return False


def _readings(module: str, name: str) -> set[tuple[str, str]]:
    """The import itself, and what a dotted name reaches: ("logging", "os.system") is os.system."""
    found = {(module, name)}
    parts = name.split(".")[:16]
    for start in range(len(parts)):
        found.add((parts[start], "*"))
        for end in range(start + 1, len(parts)):
            found.add((".".join(parts[start:end]), ".".join(parts[end:])))
    return found


def _pickle_of(imports: Iterable[tuple[str, str]]) -> bytes:
    """A pickle that imports just these (protocol 4)."""
    parts = [b"\x80\x04"]
    for pair in imports:
        for text in pair:
            data = text.encode("utf-8", "surrogatepass")
            parts.append(b"X" + struct.pack("<I", len(data)) + data)
        parts.append(b"\x930")
    return b"".join([*parts, b"N."])


# Where pickles hide.


def _look(reader: Reader, name: str, depth: int, found: Findings, budget: Budget) -> None:
    """Look at one stream from its start; archives inside are gone into, `MAX_DEPTH` deep."""
    head = reader.peek(512)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        if depth:  # the outermost is read from the file itself
            _look_into_zip(_kept(reader, name), depth, found, budget)
        return
    unpacked = unpacking.unpacked(reader, head)
    if unpacked is not None:
        _deeper(name, depth)
        _look(Reader(unpacked, budget), name, depth + 1, found, budget)
    elif unpacking.is_tar(head):
        _look_into_tar(reader, name, depth, found, budget)
    elif head.startswith(b"\x93NUMPY"):
        _look_into_npy(reader, name, found)
    else:
        _look_at_pickles(reader, name, found)


def _deeper(name: str, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Refused(
            "archive_unsafe",
            f"The file has archives within archives, more than {MAX_DEPTH} deep"
            + (f" ({name[:200]!r})." if name else "."),
            "Upload the model file itself, or one archive of plain files.",
        )


def _zip_at_end(path: Path) -> bool:
    try:
        return zipfile.is_zipfile(path)
    except (OSError, struct.error):
        return False


def _look_into_zip(source: Path | IO[bytes], depth: int, found: Findings, budget: Budget) -> None:
    with archives.open_zip(source) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            if info.filename.rpartition("/")[2] == "config.json":
                found.lambdas += _lambdas_of_zip(archive, info, budget)
                continue
            _deeper(info.filename, depth)
            with archive.open(info) as member:
                _look(Reader(member, budget), info.filename, depth + 1, found, budget)


def _look_into_tar(reader: Reader, name: str, depth: int, found: Findings, budget: Budget) -> None:
    _deeper(name, depth)
    stream = unpacking.Plain(reader)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for number, info in enumerate(archive):
                if number >= archives.MAX_MEMBERS:
                    raise Refused(
                        "archive_too_large",
                        f"The archive holds more than {archives.MAX_MEMBERS} files.",
                        "Upload the model file alone.",
                    )
                member = archive.extractfile(info) if info.isreg() else None
                if member is not None:
                    _look(Reader(member, budget), info.name, depth + 1, found, budget)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise Refused(
            "archive_damaged",
            f"The archive cannot be read ({error}).",
            "Make the archive again and upload it once more.",
        ) from error


def _look_into_npy(reader: Reader, name: str, found: Findings) -> None:
    """An array of Python objects is a pickle behind a header (numpy.lib.format)."""
    version = reader.exactly(8)[6] if len(reader.peek(8)) == 8 else 0
    width = 2 if version == 1 else 4
    if len(reader.peek(width)) < width:
        return
    length = int.from_bytes(reader.exactly(width), "little")
    if length > MIB or len(reader.peek(length)) < length:
        return
    kind = reader.exactly(length).partition(b"descr")[2].partition(b"fortran_order")[0]
    if b"O" in kind:
        _look_at_pickles(reader, name, found, certain=True)


def _look_at_pickles(reader: Reader, name: str, found: Findings, *, certain: bool = False) -> None:
    """One pickle, or several in a row. `certain`: these bytes are nothing but a pickle.

    Bytes of a tensor or a text can look like one for a while; then an import that they would make
    up, and an early end, mean nothing.
    """
    magic = _is_pickle(reader)
    certain = certain or (magic and not name) or (name.endswith(_NAMED_PICKLE) and magic)
    legacy = False
    for number in range(MAX_PICKLES):
        if (number and not _is_pickle(reader)) or (legacy and number == 5):
            return
        seen = walk(reader, arrays=found.arrays)
        sure = certain or (seen.complete and not name)
        imports = {pair for pair in seen.imports if sure or COMPUTED not in pair}
        found.pickles += bool(seen.complete or imports)
        found.imports |= imports
        if number == 0:
            legacy = seen.value == _TORCH_LEGACY
        if not seen.complete:
            if certain and (number == 0 or legacy):
                found.damaged[name] = seen.problem
            return


def _is_pickle(reader: Reader) -> bool:
    # The third byte is an opcode, and 0 is none: the length of a safetensors header can be 0x80.
    head = reader.peek(3)
    return len(head) == 3 and head[0] == 0x80 and head[1] <= 5 and head[2] != 0


def _kept(reader: Reader, name: str) -> IO[bytes]:
    """A zip inside an archive, in memory: its directory is at its end."""
    parts, size = [], 0
    while chunk := reader.chunk():
        size += len(chunk)
        if size > MAX_INNER_ARCHIVE:
            raise Refused(
                "archive_too_large",
                f"The file has an archive of more than {MAX_INNER_ARCHIVE // MIB} MiB inside "
                f"({name[:200]!r}).",
                "Upload that file itself.",
            )
        parts.append(chunk)
    return io.BytesIO(b"".join(parts))


# Keras: Python code in the description of a model.


def _lambdas_of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> int:
    with archive.open(info) as stream:
        text = stream.read(MAX_CONFIG + 1)
    budget.take(len(text))
    if len(text) > MAX_CONFIG:
        raise Refused(
            "archive_too_large",
            f"{info.filename[:200]!r} in the file is larger than {MAX_CONFIG // MIB} MiB.",
            "Describe the model without its weights: they belong into their own file.",
        )
    return _lambdas(text)


def _lambdas_of_hdf5(path: Path) -> int:
    import h5py  # heavy, and only for HDF5

    try:
        with h5py.File(path, "r") as file:
            text = file.attrs.get("model_config", "")
    except (OSError, RuntimeError, ValueError, KeyError):
        return 0  # whoever opens the file will say that it is damaged
    return _lambdas(text if isinstance(text, bytes) else str(text).encode())


def _lambdas(text: bytes) -> int:
    """Layers of a Keras configuration that carry marshalled Python code, however deep."""
    try:
        waiting = [json.loads(text)]
    except (ValueError, RecursionError):
        return 0
    count = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            count += str(value.get("class_name")) in {"Lambda", "__lambda__"}
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return count
