"""Streams behind the compressors that joblib and tar know, inflated piece by piece."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from typing import IO, Any, cast

from models_registry.exporting.pickle_walk import Reader


def is_tar(head: bytes) -> bool:
    """Whether 512 bytes are the header of a tar archive, by its checksum."""
    if len(head) < 512 or not any(head):
        return False
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


class Plain(io.RawIOBase):
    """A reader as the file object that decompressors take."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what comes next."""
        data = self._reader.chunk(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Inflated(io.RawIOBase):
    """A zlib stream, as joblib writes it, inflated piece by piece."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._inflate = zlib.decompressobj()

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; 0 at the end of the stream."""
        while not self._inflate.eof:
            packed = self._inflate.unconsumed_tail or self._reader.chunk(65_536)
            data = self._inflate.decompress(packed, len(buffer))
            if data or not packed:
                buffer[: len(data)] = data
                return len(data)
        return 0


def unpacked(reader: Reader, head: bytes) -> IO[bytes] | None:
    """The stream behind a compressor that joblib or tar know; None when there is none."""
    if head.startswith(b"\x1f\x8b"):
        return _Tolerant(gzip.GzipFile(fileobj=Plain(reader)))
    if head.startswith(b"BZh"):
        return _Tolerant(bz2.BZ2File(Plain(reader)))
    if head.startswith((b"\xfd7zXZ\x00", b"\x5d\x00\x00")):
        return _Tolerant(lzma.LZMAFile(cast(IO[bytes], Plain(reader))))
    if head.startswith(b"ZF0x"):  # joblib before 0.10: the inflated size in 19 characters
        reader.exactly(21)
        if reader.peek(1) == b" ":
            reader.exactly(1)
        return _Tolerant(_Inflated(reader))
    if len(head) > 2 and head[0] == 0x78 and int.from_bytes(head[:2]) % 31 == 0:
        return _Tolerant(_Inflated(reader))
    return None


class _Tolerant(io.BufferedReader):
    """Ends where the packed data is damaged: whoever opens the file will find that too."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw, 65_536)

    def read(self, size: int | None = -1) -> bytes:
        """As usual; b"" behind damage."""
        try:
            return super().read(size)
        except (OSError, EOFError, zlib.error, lzma.LZMAError):
            return b""
