"""Pickles, told by what they would import; nothing is unpickled here."""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zlib
from typing import IO, Final

from models_registry.adapters.formats.detected import (
    CATBOOST,
    LIGHTGBM,
    SKLEARN,
    TORCH_PICKLED_MODULE,
    TORCH_STATE_DICT,
    TORCHSCRIPT,
    WAY_OUT,
    XGBOOST,
    Detected,
    taken,
    unknown,
)
from models_registry.exporting import archives, pickles

_FAMILIES: Final = {
    SKLEARN: "scikit-learn",
    LIGHTGBM: "LightGBM",
    XGBOOST: "XGBoost",
    CATBOOST: "CatBoost",
}
_NAMED: Final = re.compile(rb"\b(sklearn|lightgbm|xgboost|catboost)\.")
# Ways to functions that a model may name and the sandbox judges; every other one is refused here.
_LEFT_TO_THE_SANDBOX: Final = frozenset({"functools", "operator"})
_PROTOCOL_0: Final = re.compile(
    rb"\(?[lpd0-9\n(]{0,8}[ci][A-Za-z_][\w.]{0,80}\n[A-Za-z_]\w{0,80}\n"
)
# torch.save before 1.6 wrote a pickle of this number first (torch.serialization.MAGIC_NUMBER).
TORCH_LEGACY: Final = bytes.fromhex("8a0a6cfc9c46f9206aa85019")


def looks_like_pickle(head: bytes) -> bool:
    """Protocol 2 and later say so in their first bytes; 0 and 1 begin with an import."""
    if head[:1] == b"\x80" and len(head) > 2 and 2 <= head[1] <= 5:
        return head[2] != 0  # no opcode; the length of a safetensors header may begin like this
    return _PROTOCOL_0.match(head) is not None


def of_torch(scan: pickles.Scan) -> Detected:
    """What torch.save wrote: weights, or an object that only code can bring back."""
    if scan.dangerous:
        return unsafe(scan)
    if not scan.complete:
        return Detected(
            "torch_damaged",
            "Damaged torch file",
            "The file was made by torch.save, but its index cannot be read to the end.",
            "It is probably cut off: save it again and upload it once more.",
        )
    if any(module.startswith("__torch__") for module, _ in scan.imports):
        return taken(TORCHSCRIPT, "TorchScript", "A TorchScript archive (torch.jit.save).")
    if scan.unexpected and scan.holds_module:
        return Detected(
            TORCH_PICKLED_MODULE,
            "Pickled torch module",
            "The file holds a whole Python object (torch.save(model)); loading it would run code: "
            f"{pickles.names(scan.unexpected)}.",
            "Save only the weights with torch.save(model.state_dict(), …) and upload them with the "
            "module's source, or save TorchScript with torch.jit.save.",
        )
    return taken(
        TORCH_STATE_DICT,
        "State dict",
        "Weights saved by torch.save; the architecture is not in the file, so the module's source "
        "must come with it.",
    )


def unsafe(scan: pickles.Scan) -> Detected:
    """A pickle that reaches the system."""
    return Detected(
        "unsafe_pickle",
        "Unsafe pickle",
        f"Loading this file would run commands: {pickles.names(scan.dangerous)}.",
        "Do not open this file. Get the weights from a source you trust, saved as a state dict, "
        "safetensors or ONNX.",
    )


def torch_legacy(stream: IO[bytes]) -> Detected:
    """torch.save before 1.6: several pickles, one after the other."""
    stream.seek(0)
    scans = []
    for _ in range(4):  # magic number, protocol version, system information, then the object
        scans.append(pickles.scan(stream))
        if not scans[-1].complete:
            break
    imports = frozenset().union(*(scan.imports for scan in scans))
    whole = pickles.Scan(imports, len(scans) == 4 and scans[-1].complete, 0)
    return of_torch(whole)


def bare(stream: IO[bytes], head: bytes) -> Detected:
    """A pickle that stands alone: a model of a table, or anything."""
    stream.seek(0)
    return _told(pickles.scan(stream), head, "pickled")


def _told(scan: pickles.Scan, head: bytes, how: str) -> Detected:
    kind = _family(scan, head)
    reach = [name for name in scan.dangerous if name.split(".")[0] not in _LEFT_TO_THE_SANDBOX]
    if reach or (scan.dangerous and kind is None):
        return unsafe(scan)
    if kind is not None:
        label = _FAMILIES[kind]
        return taken(
            kind,
            label,
            f"A {how} model of {label}; it is opened in the sandbox, by a list of known classes.",
        )
    listed = pickles.names(sorted(f"{module}.{name}" for module, name in scan.imports))
    if "joblib" in scan.roots:
        reason = "A joblib file with arrays, but no estimator that is known here."
        return Detected("pickle", "joblib", reason, WAY_OUT, listed)
    reason = "A Python pickle of no model that is known here; loading it could run any code."
    return Detected("pickle", "Python pickle", reason, WAY_OUT, listed)


def _family(scan: pickles.Scan, head: bytes) -> str | None:
    """Whose estimator stands first: a booster carries parts of scikit-learn, and the other way."""
    present = scan.roots & set(_FAMILIES)
    first = _NAMED.search(head)
    if first is not None and (not scan.complete or first.group(1).decode() in present):
        return first.group(1).decode()
    return next((kind for kind in _FAMILIES if kind in present), None)


def compressed(head: bytes) -> Detected | None:
    """What joblib.dump(compress=…) writes, by the start of what is inside; None for other content.

    zlib (RFC 1950), gzip, bzip2, xz and the older lzma.
    """
    start = inflated(head)
    if start is None:
        return unknown() if head[:1] == b"x" else None
    if not looks_like_pickle(start):
        return None
    return _told(pickles.scan(io.BytesIO(start)), start, "compressed, pickled")


def inflated(head: bytes) -> bytes | None:
    """The beginning of what a compressor packed, at most 1 MiB; None when it cannot be read."""
    try:
        if head.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(head, archives.MIB)
        if head.startswith(b"BZh"):
            return bz2.BZ2Decompressor().decompress(head, archives.MIB)
        if head.startswith((b"\xfd7zXZ\x00", b"\x5d\x00\x00")):
            return lzma.LZMADecompressor(memlimit=128 * archives.MIB).decompress(head, archives.MIB)
        return zlib.decompressobj().decompress(head, archives.MIB)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        return None
