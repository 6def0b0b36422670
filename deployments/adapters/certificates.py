"""A listener's certificate and key, read from files: a pair that belongs together, or why not.

No fault ever quotes what stands in a file: a path may name one that is none of ours.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from console.errors import Unavailable

MOST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Pair:
    """PEM texts of a chain and its key, and until when the first certificate is valid."""

    chain: str
    private_key: str = field(repr=False)
    not_after: datetime
    names: tuple[str, ...]


def stamp(certificate_file: str, key_file: str) -> tuple[tuple[int, int, int], ...]:
    """What changes when one of the files does: inode, size and time of each; zeros for none."""
    return tuple(_stat(path) for path in (certificate_file, key_file))


def read_pair(certificate_file: str, key_file: str) -> Pair:
    """The pair in these files. Raises Unavailable `bad_certificate` with what is wrong of it."""
    chain, private = _read(certificate_file), _read(key_file)
    try:
        certificates = x509.load_pem_x509_certificates(chain)
    except ValueError as error:
        raise _bad(certificate_file, "holds no certificate in PEM form") from error
    try:
        key = serialization.load_pem_private_key(private, password=None)
    except (ValueError, TypeError) as error:
        raise _bad(key_file, "holds no private key in PEM form without a password") from error
    form = (
        serialization.Encoding.DER,
        serialization.PublicFormat.SubjectPublicKeyInfo,
    )
    leaf = certificates[0]
    if leaf.public_key().public_bytes(*form) != key.public_key().public_bytes(*form):
        raise _bad(key_file, f"does not belong to the certificate in {certificate_file}")
    plain = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    texts = [one.public_bytes(serialization.Encoding.PEM).decode() for one in certificates]
    return Pair("".join(texts), plain.decode(), leaf.not_valid_after_utc, _names(leaf))


def _names(leaf: x509.Certificate) -> tuple[str, ...]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(found.value.get_values_for_type(x509.DNSName))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _bad(path, f"cannot be read ({error.strerror})") from error
    if len(content) > MOST_BYTES:
        raise _bad(path, f"is larger than {MOST_BYTES // 1024} KiB")
    return content


def _stat(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _bad(path: str, what: str) -> Unavailable:
    return Unavailable(
        f"{path} {what}.",
        code="bad_certificate",
        hint="Put a certificate chain and its key there, as PEM; the last good pair serves on.",
        retryable=False,
    )
