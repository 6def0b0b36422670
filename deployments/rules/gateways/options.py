"""What may stand in a gateway's options, by product: names and places, never a secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from console.errors import FieldError, Invalid

_HOST_NAME = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")
_PATH = re.compile(r"/[^\x00-\x1f]{1,300}\Z")

Check = Callable[[object], bool]


def parse_options(product: str, options: object, environments: Collection[str]) -> dict[str, Any]:
    """The options of a gateway, checked; what is None is left out.

    `environments` are those that it listens for. Raises Invalid with a pointer for each fault.
    """
    if not isinstance(options, Mapping):
        raise _invalid([FieldError("/options", "Give an object.")])
    known = _OPTIONS[product]
    given = {key: value for key, value in options.items() if value is not None}
    faults = []
    for key, value in given.items():
        if key not in known:
            words = f"{product} has no such option. Known: {', '.join(known) or 'none'}."
            if key in ("token", "password", "secret"):
                words = "Name where the token lies (token_file or token_env), not the token."
            faults.append(FieldError(f"/options/{key}", words))
        elif not known[key](value):
            faults.append(FieldError(f"/options/{key}", _WANTED[key]))
    for key in ("hosts", "hostnames", "sections"):
        if key in known and isinstance(given.get(key), Mapping):
            faults += [
                FieldError(f"/options/{key}/{name}", "It does not listen for this environment.")
                for name in given[key]
                if name not in environments
            ]
    if product == "kubernetes" and "parent" not in given:
        faults.append(FieldError("/options/parent", _WANTED["parent"]))
    if len(environments) > 1:
        faults += _not_told_apart(product, given, environments)
    if faults:
        raise _invalid(faults)
    return given


def parse_admin_url(product: str, url: str) -> str:
    """The address at which a gateway is managed, without a slash at its end. Raises Invalid."""
    parts = urlsplit(url.strip())
    wanted = {"envoy": "its admin address", "kong": "its Admin API", "kubernetes": "its API server"}
    words = ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        words = f"Use http:// or https:// and a host: {wanted[product]}."
    elif parts.username or parts.password:
        words = "Name where a token lies in the options, not in the address."
    elif parts.query or parts.fragment:
        words = "Leave out what follows ? or #."
    if words:
        raise Invalid(
            "The gateway's address is not valid.",
            code="invalid_address",
            errors=(FieldError("/admin_url", words),),
        )
    return url.strip().rstrip("/")


def _not_told_apart(
    product: str, given: Mapping[str, Any], environments: Collection[str]
) -> list[FieldError]:
    if product == "envoy":
        return []
    keys = ("hosts",) if product == "kong" else ("sections", "hostnames")
    named: set[str] = set()
    for key in keys:
        if isinstance(given.get(key), Mapping):
            named |= set(given[key])
    if not (missing := sorted(set(environments) - named)):
        return []
    return [
        FieldError(
            f"/options/{keys[0]}",
            f"It listens for several environments and tells them apart by {' or '.join(keys)}: "
            f"{', '.join(missing)} has none.",
        )
    ]


def _invalid(faults: list[FieldError]) -> Invalid:
    return Invalid(
        "The gateway's options are not valid.", code="invalid_option", errors=tuple(faults)
    )


def _names(pattern: re.Pattern[str]) -> Check:
    def check(value: object) -> bool:
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and pattern.match(name) for name in value.values()
        )

    return check


def _parent(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and set(value) <= {"name", "namespace"}
        and isinstance(value.get("name"), str)
        and _names(_OBJECT_NAME)(value)
    )


def _text(pattern: re.Pattern[str]) -> Check:
    return lambda value: isinstance(value, str) and bool(pattern.match(value))


def _flag(value: object) -> bool:
    return isinstance(value, bool)


_REACHED: Mapping[str, Check] = {
    "token_file": _text(_PATH),
    "token_env": _text(re.compile(r"[A-Z][A-Z0-9_]{1,80}\Z")),
    "ca_file": _text(_PATH),
}
_OPTIONS: Mapping[str, Mapping[str, Check]] = {
    "envoy": {"access_log": _text(_PATH)},
    "kong": {**_REACHED, "hosts": _names(_HOST_NAME), "functions": _flag},
    "kubernetes": {
        **_REACHED,
        "namespace": _text(_OBJECT_NAME),
        "parent": _parent,
        "sections": _names(_OBJECT_NAME),
        "hostnames": _names(_HOST_NAME),
        "backend_rewrites": _flag,
    },
}
_WANTED: Mapping[str, str] = {
    "access_log": "Give a file's whole path.",
    "token_file": "Give a file's whole path.",
    "token_env": "Give the name of an environment variable.",
    "ca_file": "Give a file's whole path.",
    "hosts": "Give a host name for each environment.",
    "hostnames": "Give a host name for each environment.",
    "sections": "Give the name of the Gateway's listener for each environment.",
    "functions": "Give true or false.",
    "backend_rewrites": "Give true or false.",
    "namespace": "Give a namespace.",
    "parent": "Give the Gateway's name, and its namespace where that is another one.",
}
