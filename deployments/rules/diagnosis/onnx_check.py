"""Whether the files of a version are whole, are those that were signed, and hold a sound graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deployments.rules.diagnosis.findings import Finding
from models_registry.exporting.protocol import TensorSpec


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file of the version as it lies there: bytes and SHA-256 in hex, "" where unreadable."""

    size: int
    sha256: str
    link: bool = False


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that the graph refers to; `present` None when it is not there."""

    location: str
    needed: int
    present: int | None
    outside: bool = False


@dataclass(frozen=True, slots=True)
class GraphSeen:
    """What the sandbox read: `damaged` says why there is no graph, the rest is empty then.

    `checker` is what onnx.checker objects to, `loading` what ONNX Runtime does; "" for nothing.
    """

    damaged: str = ""
    checker: str = ""
    loading: str = ""
    runtime: str = ""
    opsets: Mapping[str, int] | None = None
    ir_version: int = 0
    nodes: int = 0
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    optional: tuple[str, ...] = ()
    foreign: tuple[tuple[str, str], ...] = ()
    data: tuple[DataFile, ...] = ()


def files(
    wanted: Mapping[str, str], seen: Mapping[str, FileSeen], *, on_node: bool
) -> list[Finding]:
    """The files against their signed digests; `wanted` and `seen` by name in the version's folder.

    `on_node` says whether they lie on the node or, not placed (any more), in the store.
    """
    found = list(_files(wanted, seen, on_node=on_node))
    if not found:
        total = sum(one.size for one in seen.values())
        found.append(Finding("digests_match", "good", {"files": len(seen), "bytes": total}))
    return found


def graph(seen: GraphSeen) -> list[Finding]:
    """The graph's own soundness."""
    if seen.damaged:
        return [Finding("onnx_damaged", "bad", {}, seen.damaged)]
    found = list(_data(seen))
    if seen.checker and not found:
        found.append(Finding("onnx_invalid", "bad", {}, seen.checker))
    if seen.loading and not found:
        found.append(Finding("onnx_not_loadable", "bad", {"runtime": seen.runtime}, seen.loading))
    if not found:
        data = {"nodes": seen.nodes, "runtime": seen.runtime}
        found.append(Finding("onnx_sound", "good", data))
    return found


def _files(
    wanted: Mapping[str, str], seen: Mapping[str, FileSeen], *, on_node: bool
) -> Iterator[Finding]:
    for name in sorted(set(wanted) - set(seen)):
        yield Finding("file_missing" if on_node else "stored_file_missing", "bad", {"name": name})
    for name in sorted(set(seen) - set(wanted)):
        yield Finding("file_unexpected", "warn", {"name": name})
    for name in sorted(set(seen) & set(wanted)):
        one = seen[name]
        if one.link:
            yield Finding("digest_differs", "bad", {"name": name, "found": "→", "signed": ""})
        elif one.sha256 and one.sha256 != wanted[name]:
            data = {"name": name, "found": one.sha256[:12], "signed": wanted[name][:12]}
            yield Finding("digest_differs", "bad", data, f"{one.sha256}\n{wanted[name]}")


def _data(seen: GraphSeen) -> Iterator[Finding]:
    for one in seen.data:
        if one.outside:
            yield Finding("external_data_outside", "bad", {"path": one.location})
        elif one.present is None:
            yield Finding("external_data_missing", "bad", {"path": one.location})
        elif one.present < one.needed:
            data = {"name": one.location, "present": one.present, "needed": one.needed}
            yield Finding("external_data_short", "bad", data)
