"""Archives from strangers: names, sizes, links and damage, none of which leaves the folder."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from models_registry.exporting import archives
from models_registry.exporting.archives import MIB, Bounds
from models_registry.exporting.protocol import Refused


def _zip(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as archive:
        warnings.simplefilter("ignore")  # a name twice is the point
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


def _tar(
    *members: tuple[str, bytes, bytes], mode: str = "w", form: int = tarfile.GNU_FORMAT
) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, kind, data in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            info.size = len(data) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def _encrypted() -> bytes:
    data = bytearray(_zip(("model.onnx", b"x" * 40)))
    data[6] |= 1  # general purpose flags, in the local header
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1  # and in the directory
    return bytes(data)


def _lying_size() -> bytes:
    """A zip whose directory and header declare 10 bytes of what inflates to 4 MiB."""
    data = bytearray(_zip(("model.onnx", bytes(4 * MIB)), method=zipfile.ZIP_DEFLATED))
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 10)
    struct.pack_into("<I", data, 22, 10)
    return bytes(data)


def _zip64_lie() -> bytes:
    """An end record that claims 2^40 bytes of directory."""
    end = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, 1 << 40, 0)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, 0, 1)
    last = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return b"PK\x03\x04" + bytes(40) + end + locator + last


def _negative_tar() -> bytes:
    """A member of a negative size (base 256), with which a reader goes back for ever."""
    data = bytearray(_tar(("model.onnx", tarfile.REGTYPE, b"")))
    data[124:136] = b"\xff" * 11 + b"\x00"
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


REG = tarfile.REGTYPE


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (lambda: _zip(("../../tmp/PWNED", b"x")), "archive_unsafe"),
        (lambda: _zip(("/etc/cron.d/x", b"x")), "archive_unsafe"),
        (lambda: _zip(("..\\..\\x", b"x")), "archive_unsafe"),
        (lambda: _zip(("C:\\x", b"x")), "archive_unsafe"),
        (lambda: _zip(("a", b"1"), ("a", b"2")), "archive_unsafe"),
        (lambda: _zip(("a", b"1"), ("a/b", b"2")), "archive_unsafe"),
        (lambda: _zip(("a/b", b"1"), ("a", b"2")), "archive_unsafe"),
        (lambda: _zip(("n" * 300, b"x")), "archive_unsafe"),
        (lambda: _zip(*[(f"{n}", b"") for n in range(20_001)]), "archive_too_large"),
        (lambda: _zip(("big", bytes(9 * MIB)), method=zipfile.ZIP_LZMA), "archive_too_large"),
        (_encrypted, "archive_encrypted"),
        (_lying_size, "archive_damaged"),
        (_zip64_lie, "archive_too_large"),
        (lambda: _tar(("../../../tmp/PWNED", REG, b"x")), "archive_unsafe"),
        (lambda: _tar(("x" * 400 + "/../../../y", REG, b"x")), "archive_unsafe"),  # GNU long name
        (lambda: _tar(("é/../../y", REG, b"x"), form=tarfile.PAX_FORMAT), "archive_unsafe"),
        (lambda: _tar(("n" * 300, REG, b"x")), "archive_unsafe"),
        (lambda: _tar(("link", tarfile.SYMTYPE, b"")), "archive_unsafe"),
        (lambda: _tar(("link", tarfile.LNKTYPE, b"")), "archive_unsafe"),
        (lambda: _tar(("null", tarfile.CHRTYPE, b"")), "archive_unsafe"),
        (lambda: _tar(("disk", tarfile.BLKTYPE, b"")), "archive_unsafe"),
        (lambda: _tar(("pipe", tarfile.FIFOTYPE, b"")), "archive_unsafe"),
        (lambda: _tar(("a", REG, b"1"), ("a", REG, b"2")), "archive_unsafe"),
        (lambda: _tar(("big", REG, bytes(9 * MIB)), mode="w:gz"), "archive_too_large"),
        (lambda: gzip.compress(b"no tar" * 9_999), "archive_damaged"),
        (_negative_tar, "archive_unsafe"),
        (lambda: b"neither", "archive_damaged"),
    ],
)
def test_what_is_out_of_bounds_is_refused(
    data: Callable[[], bytes], code: str, tmp_path: Path
) -> None:
    path = tmp_path / "source"
    path.write_bytes(data())

    with pytest.raises(Refused) as caught:
        archives.extract(path, tmp_path / "into", Bounds(members=30_000, total_bytes=8 * MIB))

    assert caught.value.refusal.code == code, caught.value
    outside = [found for found in tmp_path.rglob("*") if found != path]
    assert all(found.is_relative_to(tmp_path / "into") for found in outside)
    assert not any(found.is_symlink() or found.is_fifo() for found in outside)


def test_names_that_differ_in_case_are_two_files(tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes(_zip(("Net.py", b"1"), ("net.py", b"2"), ("a/./b", b"3")))

    files = archives.extract(path, tmp_path / "into", Bounds())

    assert {file.name: file.read_bytes() for file in files} == {
        "Net.py": b"1",
        "net.py": b"2",
        "b": b"3",
    }


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.xz"])
def test_an_archive_cut_anywhere_is_refused_or_read(kind: str, tmp_path: Path) -> None:
    members = [(f"m/{number}.bin", random.Random(number).randbytes(4_000)) for number in range(5)]
    mode = {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz"}.get(kind, "")
    if kind == "zip":
        whole = _zip(*members, method=zipfile.ZIP_DEFLATED)
    else:
        whole = _tar(*[(name, REG, data) for name, data in members], mode=mode)
    path = tmp_path / "source"
    for number in range(20):
        path.write_bytes(whole[: random.Random(number).randrange(1, len(whole))])
        into = tmp_path / str(number)
        try:
            read = archives.extract(path, into, Bounds())
        except Refused:
            continue
        assert {file.stat().st_size for file in read} <= {4_000}
