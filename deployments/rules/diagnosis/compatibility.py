"""Whether a graph and a node belong together: release, ONNX Runtime, CUDA, driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deployments.rules.diagnosis import releases
from deployments.rules.diagnosis.findings import Finding
from deployments.rules.diagnosis.onnx_check import GraphSeen
from models_registry.rules import contributed_operators, opsets


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node says of itself.

    `server` is Triton's own version ("2.51.0"), "" when it does not answer, and then `unreachable`
    is why. `embedded` is the Triton that comes with Covenant, whose ONNX Runtime is another one.
    `driver` is that of its GPUs, "" where there is none or it is not known.
    """

    server: str
    embedded: bool = False
    gpus: tuple[int, ...] = ()
    driver: str = ""
    unreachable: str = ""
    unreachable_code: str = "triton_unreachable"


def check(node: NodeFacts, graph: GraphSeen | None, *, target: str) -> list[Finding]:
    """What of the node's release keeps the graph from loading; `target` is what it was made for."""
    if node.unreachable:
        return [Finding(node.unreachable_code, "bad", {}, node.unreachable)]
    release = releases.of_server(node.server)
    tag = opsets.EMBEDDED if node.embedded else (release.tag if release else "")
    found = [*_release(node, release, target), *_driver(node, release)]
    if tag not in opsets.TRITON:
        return found
    runtime = opsets.runtime(tag)
    if graph is not None and not graph.damaged:
        found += _graph(graph, tag, runtime)
    if not any(one.verdict == "bad" for one in found):
        data = {
            "server": node.server,
            "runtime": runtime.version,
            "opset": runtime.opset,
            "ir_version": runtime.ir_version,
        }
        found.append(Finding("release_fits", "good", data))
    return found


def _release(
    node: NodeFacts, release: releases.TritonRelease | None, target: str
) -> Iterator[Finding]:
    if node.embedded:
        yield Finding("embedded_triton", "good", {"server": node.server})
        return
    if release is None:
        yield Finding("release_unknown", "unknown", {"server": node.server})
        return
    wanted = releases.of_tag(target)
    if wanted is not None and releases.is_older(release.server, wanted.server):
        yield Finding("release_older", "warn", {"release": release.tag, "target": target})


def _driver(node: NodeFacts, release: releases.TritonRelease | None) -> Iterator[Finding]:
    if not node.gpus:
        yield Finding("no_gpu", "good")
        return
    if not node.driver:
        yield Finding("driver_unknown", "unknown")
        return
    if release is None or node.embedded:
        return
    data = {"driver": node.driver, "release": release.tag, "cuda": release.cuda}
    floor = releases.driver_floor(release.cuda)
    if floor and releases.is_older(node.driver, floor):
        yield Finding("driver_too_old", "bad", {**data, "floor": floor})
    elif releases.is_older(node.driver, release.driver):
        yield Finding("driver_older", "warn", {**data, "shipped": release.driver})
    else:
        yield Finding("driver_fits", "good", data)


def _graph(graph: GraphSeen, tag: str, runtime: opsets.Runtime) -> Iterator[Finding]:
    found = graph.opsets or {}
    refusal = opsets.refusal(tag, dict(found), graph.ir_version)
    if refusal is not None:
        data: dict[str, object] = {"runtime": runtime.version}
        if refusal.code == "ir_version_too_new":
            data |= {"found": graph.ir_version, "most": runtime.ir_version}
        else:
            data |= {"found": found.get("", found.get("ai.onnx", 0)), "most": runtime.opset}
        yield Finding(refusal.code, "bad", data, refusal.message)
    yield from _operators(graph.foreign, runtime)


def _operators(foreign: Sequence[tuple[str, str]], runtime: opsets.Runtime) -> Iterator[Finding]:
    for domain, operator in foreign:
        if contributed_operators.has(runtime.version, domain, operator):
            continue
        # A custom library may bring it: ONNX Runtime's own word (step “ONNX integrity”) decides.
        data = {"operator": f"{domain}:{operator}", "runtime": runtime.version}
        verdict = "warn" if domain not in ("", contributed_operators.DOMAIN) else "bad"
        yield Finding("operator_unknown", verdict, data)  # type: ignore[arg-type]
