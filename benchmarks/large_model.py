"""A model above 2 GB, from the command line's upload to answers through Envoy: seconds and memory.

Writes an ONNX graph with seeded random weights beside it, uploads both by tus, waits for export and
validation, has it released to staging, deployed and called; then the same as one zip, up to its
validation. Memory is the highest RSS of the web process and of the export worker, and what the
sandbox said of itself. The files that it wrote are removed; the versions stay, the first one with
the traffic of its endpoint: give it a stack of its own (COVENANT_HOME, COVENANT_PORT_BASE).

    .venv/bin/python -m benchmarks.large_model --gib 2.2

Needs five times the model's size on the disk of COVENANT_HOME, and `manage.py seed_demo
--people-only` once.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper

from benchmarks.demo_stack import CONFIG, person, report
from benchmarks.faults import pid_of
from deployments.cli.client import Client

MODEL, ENVIRONMENT = "large_model", "staging"
GATEWAY = f"http://127.0.0.1:{CONFIG.ports.gateway_staging}"
WIDTH = 8192
LAYER_BYTES = WIDTH * WIDTH * 4
CALLS = 20
MIB = 1024**2
LIMIT_SECONDS = 3600


class Memory:
    """The highest resident memory of services while a step runs, looked at ten times a second."""

    def __init__(self, *services: str) -> None:
        self._processes = {name: psutil.Process(pid_of(name)) for name in services}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peaks = dict.fromkeys(services, 0)

    def __enter__(self) -> dict[str, int]:
        self._thread.start()
        return self.peaks

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(timeout=5)

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            for name, process in self._processes.items():
                family = [process, *process.children(recursive=True)]
                self.peaks[name] = max(self.peaks[name], _resident(family))


def _resident(family: list[psutil.Process]) -> int:
    """MiB of these processes that are ours: a sandbox is its own figure."""
    total = 0
    for process in family:
        try:
            if process.name() not in ("bwrap", "prlimit", "setpriv") and not _boxed(process):
                total += process.memory_info().rss
        except psutil.Error:
            continue
    return total // MIB


def _boxed(process: psutil.Process) -> bool:
    return any(parent.name() == "bwrap" for parent in process.parents())


@contextmanager
def step(name: str, *services: str, **figures: object) -> Iterator[dict[str, object]]:
    """Time a step and report it with the memory that services took meanwhile."""
    started = time.perf_counter()
    with Memory(*services) as peaks:
        yield figures
    seconds = round(time.perf_counter() - started, 1)
    report(name, seconds=seconds, peak_rss_mib=peaks, **figures)


def write_model(folder: Path, layers: int, seed: int) -> tuple[Path, Path]:
    """features FP32 [batch, 64] -> layers of 8192 x 8192 -> answer FP32 [batch, 16]; (graph, data).

    A layer's weights are the only ones in memory while they are written.
    """
    graph, data = folder / "model.onnx", folder / "model.onnx.data"
    rng = np.random.default_rng(seed)
    sizes = [64, *[WIDTH] * (layers + 1), 16]
    nodes, tensors = [], []
    with data.open("wb") as out:
        for number, (rows, columns) in enumerate(itertools.pairwise(sizes)):
            weights = rng.standard_normal((rows, columns), np.float32) / np.float32(rows**0.5)
            tensors.append(_external(f"w{number}", (rows, columns), out.tell(), data.name))
            weights.tofile(out)
            before = "features" if number == 0 else f"t{number - 1}"
            last = number == len(sizes) - 2
            nodes.append(helper.make_node("MatMul", [before, f"w{number}"], [f"m{number}"]))
            after = "answer" if last else f"t{number}"
            nodes.append(helper.make_node("Tanh", [f"m{number}"], [after]))
    inside = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 64])
    outside = helper.make_tensor_value_info("answer", TensorProto.FLOAT, ["batch", 16])
    built = helper.make_graph(nodes, "large", [inside], [outside], tensors)
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    graph.write_bytes(model.SerializeToString())
    return graph, data


def _external(name: str, shape: tuple[int, int], offset: int, location: str) -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    length = shape[0] * shape[1] * 4
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return tensor


def push(client: Client, name: str, files: list[Path]) -> dict[str, Any]:
    """Upload, export and validate; gives the version."""
    size = sum(path.stat().st_size for path in files)
    with step(f"{name}.upload", "web", mib=size // MIB):
        ids = [client.upload(path)["id"] for path in files]
    body: dict[str, Any] = {"upload": ids[0], "data_uploads": ids[1:]}
    made = client.post(f"/models/{MODEL}/versions/", body)
    for kind in ("export", "validate"):
        with step(f"{name}.{kind}", "web", "export") as figures:
            version = client.get(f"/models/{MODEL}/versions/{made['number']}/")
            job = client.wait_for_job(version[f"{kind}_job"], timeout=LIMIT_SECONDS)
            figures |= sandbox_of(job)
        if job["state"] != "succeeded":
            raise SystemExit(f"{kind}: {job['error']}")
    shown: dict[str, Any] = client.get(f"/models/{MODEL}/versions/{made['number']}/")
    return shown


def sandbox_of(job: dict[str, Any]) -> dict[str, object]:
    """What the job's log says of its sandbox: MiB allowed and used."""
    text = " ".join(line["text"] for line in job["lines"])
    allowed = re.search(r"may use ([\d.]+) GiB", text)
    used = re.search(r"and (\d+) MiB", text)
    return {
        "sandbox_peak_mib": int(used[1]) if used else None,
        "sandbox_limit_mib": round(float(allowed[1]) * 1024) if allowed else None,
    }


def deploy(number: int) -> None:
    """Release to staging, place on the node, call it through Envoy."""
    dana, sam = person("dana"), person("sam")
    release = dana.post(
        f"/models/{MODEL}/releases/", {"version": number, "environment": ENVIRONMENT}
    )
    with step("deploy", "web", "node.local", "triton"):
        made = sam.post("/deployments/", {"release": release["id"]})
        for placement in made["placements"]:
            job = sam.wait_for_job(placement["job"], timeout=LIMIT_SECONDS)
            if job["state"] != "succeeded":
                raise SystemExit(f"deploy: {job['error']}")
    rows = [[0.5] * 64]
    tensor = {"name": "features", "datatype": "FP32", "shape": [1, 64], "data": rows}
    times = []
    with httpx.Client(base_url=GATEWAY, timeout=60, trust_env=False) as caller:
        for _ in range(CALLS):
            started = time.perf_counter()
            answer = caller.post(f"/v2/models/{MODEL}/infer", json={"inputs": [tensor]})
            answer.raise_for_status()
            times.append((time.perf_counter() - started) * 1000)
    times.sort()
    report("calls", count=CALLS, p50_ms=round(times[CALLS // 2], 1), max_ms=round(times[-1], 1))


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--gib", type=float, default=2.2, help="Size of the weights, 0.3 to 16.")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--no-zip", action="store_true", help="Leave the zip archive out.")
    chosen = options.parse_args()
    size = min(max(chosen.gib, 0.3), 16.0)
    layers = max(1, round(size * 1024**3 / LAYER_BYTES))
    client = person("dana")
    if not client.get("/models/", q=MODEL)["results"]:
        client.post("/models/", {"name": MODEL, "description": "Measures large models."})
    folder = Path(tempfile.mkdtemp(prefix="large_model-"))
    try:
        graph, data = write_model(folder, layers, chosen.seed)
        version = push(client, "two_files", [graph, data])
        deploy(version["number"])
        if not chosen.no_zip:
            archive = folder / "model.zip"
            with zipfile.ZipFile(archive, "w") as packed:
                packed.write(graph, graph.name)
                packed.write(data, data.name)
            data.unlink()
            push(client, "zip", [archive])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
