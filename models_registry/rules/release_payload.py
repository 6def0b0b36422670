"""The release document that approvals sign: one version for one environment, by its digests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from console.errors import FieldError, Invalid
from console.rules.canonical import JsonValue, canonical_bytes, loads_strict, pointer_of

API_VERSION = "covenant/v1"
KIND = "Release"

_FIELDS = (
    "apiVersion",
    "kind",
    "release",
    "model",
    "version",
    "environment",
    "digests",
    "requested_by",
    "requested_at",
)
FILES = ("source", "onnx", "config", "report", "contract")
WEIGHTS = "onnx_data"
"""The digest that a release has only where the model's weights lie beside its graph.

Absent otherwise, never null: releases that were signed before there was such a file stay as they
are, and every release has exactly one spelling.
"""
_HEX = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z")
_TEXTS = {
    "release": re.compile(r"[0-9A-Za-z_-]{1,64}"),
    "model": re.compile(r"[a-z][a-z0-9_]{1,62}"),
    "environment": re.compile(r"[A-Za-z0-9_-]{1,40}"),
    "requested_by": re.compile(r"[^\x00-\x1f\x7f]{1,254}"),
}


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 in hex of what was validated.

    `contract` is None where none is asked for, `onnx_data` where the ONNX file is the whole model.
    """

    source: str
    onnx: str
    config: str
    report: str
    contract: str | None = None
    onnx_data: str | None = None

    def named(self) -> dict[str, str | None]:
        """Digests by name, as the document has them."""
        names = (*FILES, WEIGHTS) if self.onnx_data is not None else FILES
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class ReleasePayload:
    """What an approval is about. `release` is the release's id, `requested_by` a user name."""

    release: str
    model: str
    version: int
    environment: str
    digests: Digests
    requested_by: str
    requested_at: datetime


def canonical(payload: ReleasePayload) -> bytes:
    """The exact bytes to sign (RFC 8785); raises `Invalid` (`invalid_release`) when it is wrong."""
    if payload.requested_at.tzinfo is None:
        raise _invalid([FieldError("/requested_at", "has no time zone")])
    data = canonical_bytes(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "release": payload.release,
            "model": payload.model,
            "version": payload.version,
            "environment": payload.environment,
            "digests": payload.digests.named(),
            "requested_by": payload.requested_by,
            "requested_at": time_text(payload.requested_at),
        }
    )
    parse(data)
    return data


def parse(data: bytes) -> ReleasePayload:
    """The release in signed bytes. Strict: every field, no other, and in canonical form.

    Raises `Invalid`: `invalid_json` or `invalid_release` with a pointer for each fault.
    """
    body = loads_strict(data)
    if not isinstance(body, dict):
        raise _invalid([FieldError("", "is not an object")])
    faults = _faults(body)
    if not faults and canonical_bytes(body) != data:
        faults.append(FieldError("", "is not in canonical form (RFC 8785)"))
    if faults:
        raise _invalid(faults)
    return _typed(body)


def time_text(moment: datetime) -> str:
    """RFC 3339 in UTC, with microseconds where there are any: 2026-05-01T12:00:00Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Inverse of `time_text`; raises `ValueError`."""
    if not _TIME.fullmatch(text):
        raise ValueError("is not a UTC time such as 2026-05-01T12:00:00Z")
    return datetime.fromisoformat(text)


def _typed(body: dict[str, Any]) -> ReleasePayload:
    return ReleasePayload(
        release=body["release"],
        model=body["model"],
        version=body["version"],
        environment=body["environment"],
        digests=Digests(**body["digests"]),
        requested_by=body["requested_by"],
        requested_at=parse_time(body["requested_at"]),
    )


def _faults(body: dict[str, JsonValue]) -> list[FieldError]:
    faults = [FieldError(pointer_of(name), "is missing") for name in _FIELDS if name not in body]
    faults += [
        FieldError(pointer_of(name), "is not a known field") for name in body if name not in _FIELDS
    ]
    if faults:
        return faults
    if body["apiVersion"] != API_VERSION:
        faults.append(FieldError("/apiVersion", f"is not {API_VERSION}"))
    if body["kind"] != KIND:
        faults.append(FieldError("/kind", f"is not {KIND}"))
    for name, pattern in _TEXTS.items():
        value = body[name]
        if not isinstance(value, str) or not pattern.fullmatch(value):
            faults.append(FieldError(pointer_of(name), f"does not fit {pattern.pattern}"))
    version = body["version"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        faults.append(FieldError("/version", "is not a whole number from 1"))
    faults += _digest_faults(body["digests"])
    try:
        parse_time(str(body["requested_at"]))
    except ValueError as error:
        faults.append(FieldError("/requested_at", str(error)))
    return faults


def _digest_faults(digests: JsonValue) -> list[FieldError]:
    if not isinstance(digests, dict) or set(digests) - {WEIGHTS} != set(FILES):
        return [FieldError("/digests", f"does not have exactly {', '.join(FILES)}")]
    faults: list[FieldError] = []
    for name, value in digests.items():
        if value is None and name == "contract":
            continue
        if not isinstance(value, str) or not _HEX.fullmatch(value):
            fault = "is not a SHA-256 digest of 64 lowercase hex digits"
            faults.append(FieldError(pointer_of("digests", name), fault))
    return faults


def _invalid(faults: list[FieldError]) -> Invalid:
    first = faults[0]
    return Invalid(
        f"The release document cannot be used: {first.pointer or 'it'} {first.detail}.",
        code="invalid_release",
        hint="Fetch the release's payload again; it must be signed exactly as it is given.",
        errors=tuple(faults),
    )
