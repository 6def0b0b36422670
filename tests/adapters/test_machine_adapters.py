"""DCGM, Triton's metrics, hosts and NVML, at the protocol of each."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc

from console.adapters.triton import TritonClient
from console.errors import Unavailable
from deployments.adapters import dcgm, exposition, hosts, repository, triton_metrics
from tests import stack
from tests.adapters.dcgm_double import Card, DcgmDouble, text_of
from tests.adapters.http_double import Answer, HttpDouble
from tests.adapters.onnx_models import place_scaled


def fetch(address: str, what: str = "an exporter") -> str:
    async def ask() -> str:
        async with httpx.AsyncClient(timeout=0.5) as client:
            return await exposition.fetch(client, address, what=what)

    return asyncio.run(ask())


def test_a_dcgm_exporter_is_read_over_http() -> None:
    with_parts = [Card(0), Card(10), Card(2, part="3"), Card(2, containers=("a", "b"))]
    double = DcgmDouble(*with_parts)
    try:
        gpus = dcgm.read(fetch(double.address))
    finally:
        double.http.go_away()
    assert [gpu.device for gpu in gpus] == ["GPU-0", "GPU-2", "GPU-2/3", "GPU-10"]
    assert (gpus[0].model, gpus[0].driver) == ("NVIDIA A100-SXM4-80GB", "550.90.07")
    assert gpus[0].raw["DCGM_FI_DEV_GPU_TEMP"] == 61
    # One card in two containers is one card.
    assert gpus[1].raw["DCGM_FI_DEV_FB_USED"] == 30_000


def test_what_a_card_does_not_support_is_left_out() -> None:
    card = Card(0)
    card.values |= {"DCGM_FI_DEV_GPU_TEMP": 2**62, "DCGM_FI_DEV_FB_USED": float("nan")}
    (gpu,) = dcgm.read(text_of([card]))
    assert "DCGM_FI_DEV_GPU_TEMP" not in gpu.raw
    assert "DCGM_FI_DEV_FB_USED" not in gpu.raw
    assert gpu.raw["DCGM_FI_DEV_FB_FREE"] == 50_000


@pytest.mark.parametrize(
    "text",
    ['DCGM_FI_DEV_GPU_TEMP{gpu="0" 61\n', 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} hot\n'],
)
def test_a_text_that_is_none_says_so(text: str) -> None:
    with pytest.raises(Unavailable) as caught:
        dcgm.read(text)
    assert caught.value.code == "metrics_unreachable"


@pytest.mark.parametrize("text", ["", "<html>sign in</html>", "some_metric 1\n"])
def test_a_text_without_gpus_has_none(text: str) -> None:
    assert dcgm.read(text) == []


def test_an_exporter_that_is_away_refuses_or_floods_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="No metrics of DCGM"):
        fetch(f"127.0.0.1:{stack.free_port()}", "DCGM")
    refusing = HttpDouble(lambda asked: Answer(503, b"no"))
    flood = HttpDouble(lambda asked: Answer(200, b"x" * (exposition.LONGEST + 1)))
    try:
        for double in (refusing, flood):
            with pytest.raises(Unavailable):
                fetch(f"127.0.0.1:{double.port}")
    finally:
        refusing.go_away()
        flood.go_away()


def test_a_real_triton_tells_percentiles_of_queue_and_model(triton: stack.RunningTriton) -> None:
    model = "measured_model"
    for number in (1, 2):
        place_scaled(triton.repository, model, number)
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        client.load(model)
        try:
            before, _ = triton_metrics.read(fetch(triton.metrics))
            inference = triton_grpc.InferenceServerClient(triton.grpc)
            given = triton_grpc.InferInput("features", [2, 4], "FP32")
            given.set_data_from_numpy(np.ones((2, 4), dtype=np.float32))
            for _ in range(25):
                inference.infer(model, [given], model_version="2")
            inference.close()
            after, gpus = triton_metrics.read(fetch(triton.metrics))
        finally:
            client.unload(model)
            for number in (1, 2):
                repository.remove_version(triton.repository, model, number)
            repository.remove_model(triton.repository, model)
    assert gpus == []
    grown = after.versions[(model, 2)].requests - before.versions[(model, 2)].requests
    assert grown == 25
    used = after.versions[(model, 2)]
    assert used.inferences - before.versions[(model, 2)].inferences == 50
    assert set(used.queue) == set(used.compute) == {0.5, 0.95, 0.99, 0.999}
    assert 0 < used.compute[0.5] <= used.compute[0.99] < 5e6
    assert after.versions[(model, 1)].requests == before.versions[(model, 1)].requests
    assert after.pinned_total


def test_triton_tells_of_gpus_in_the_order_of_their_uuids() -> None:
    text = (
        'nv_gpu_utilization{gpu_uuid="GPU-b"} 0.5\nnv_gpu_utilization{gpu_uuid="GPU-a"} 0.25\n'
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-a"} 1048576\n'
    )
    _, gpus = triton_metrics.read(text)
    assert [(one.device, one.uuid) for one in gpus] == [("GPU-0", "GPU-a"), ("GPU-1", "GPU-b")]
    assert gpus[0].raw == {"DCGM_FI_DEV_GPU_UTIL": 25.0, "DCGM_FI_DEV_FB_USED": 1.0}


def test_this_machine_is_read_as_the_kernel_tells(tmp_path: Path) -> None:
    host = hosts.read_own(str(tmp_path / "not" / "yet" / "there"))
    assert host.cores == os.cpu_count()
    assert host.memory_total == psutil.virtual_memory().total
    assert host.disk_total == psutil.disk_usage(str(tmp_path)).total
    assert host.cpu_busy_s is not None
    assert host.cpu_total_s is not None
    assert 0 < host.cpu_busy_s < host.cpu_total_s


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1:8001", True),
        ("localhost:8001", True),
        ("[::1]:8001", True),
        ("127.9.9.9:1", True),
        ("203.0.113.9:8001", False),
        ("gpu-1.example.com:8001", False),
    ],
)
def test_which_addresses_are_this_machine(address: str, own: bool) -> None:
    assert hosts.is_own(address) is own


NODE_EXPORTER = """
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 80
node_cpu_seconds_total{cpu="0",mode="user"} 15
node_cpu_seconds_total{cpu="0",mode="iowait"} 5
node_cpu_seconds_total{cpu="1",mode="idle"} 90
node_cpu_seconds_total{cpu="1",mode="user"} 10
node_load1 1.5
node_memory_MemTotal_bytes 6.4e+10
node_memory_MemAvailable_bytes 1.6e+10
node_filesystem_size_bytes{device="/dev/sda1",fstype="ext4",mountpoint="/"} 1e+11
node_filesystem_avail_bytes{device="/dev/sda1",fstype="ext4",mountpoint="/"} 5e+10
node_filesystem_size_bytes{device="/dev/sdb1",fstype="xfs",mountpoint="/data"} 4e+12
node_filesystem_avail_bytes{device="/dev/sdb1",fstype="xfs",mountpoint="/data"} 1e+12
node_network_receive_bytes_total{device="lo"} 999
node_network_receive_bytes_total{device="eth0"} 1000
node_network_transmit_bytes_total{device="eth0"} 500
"""


def test_a_node_exporter_is_read() -> None:
    host = hosts.read(NODE_EXPORTER, "/data/models")
    assert (host.cores, host.load_1m) == (2, 1.5)
    assert (host.cpu_busy_s, host.cpu_total_s) == (25, 200)
    assert (host.disk_total, host.disk_free) == (4e12, 1e12)
    assert (host.received, host.sent) == (1000, 500)
    assert hosts.read(NODE_EXPORTER, "/database").disk_total == 1e11
    assert hosts.read("", "/models").memory_total is None


READ = (
    "import json; from deployments.adapters.nvml import Nvml; n = Nvml(); "
    "print(json.dumps([[g.device, g.uuid, g.model, dict(g.raw)] for g in n.read()] or n.why_not))"
)


def read_nvml(folder: Path | None) -> object:
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder or "/nowhere")}
    done = subprocess.run(
        [sys.executable, "-c", READ],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_without_a_driver_there_are_no_gpus_and_it_says_why() -> None:
    assert read_nvml(None) == "NVML Shared Library Not Found"


# What NVML's C interface needs for two cards, the second of which has fallen off the bus; all
# else this library does not have, as older drivers do not.
LIBRARY = """
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } use_t;
#include <string.h>
int nvmlInitWithFlags(unsigned int f) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int r) { return "error"; }
int nvmlDeviceGetCount_v2(unsigned int *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **h) { *h = (void *)1; return i ? 15 : 0; }
int nvmlDeviceGetName(void *h, char *s, unsigned int n) { strncpy(s, "NVIDIA A10", n); return 0; }
int nvmlDeviceGetUUID(void *h, char *s, unsigned int n) { strncpy(s, "GPU-abc", n); return 0; }
int nvmlDeviceGetTemperature(void *h, int k, unsigned int *t) { *t = 66; return 0; }
int nvmlDeviceGetPowerUsage(void *h, unsigned int *p) { *p = 120500; return 0; }
int nvmlDeviceGetUtilizationRates(void *h, use_t *u) { u->gpu = 55; u->memory = 12; return 0; }
int nvmlDeviceGetMemoryInfo(void *h, memory_t *m)
{ m->total = 24ull << 30; m->free = 14ull << 30; m->used = 10ull << 30; return 0; }
int nvmlDeviceGetTotalEccErrors(void *h, int e, int c, unsigned long long *n) { return 3; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler builds the stand-in")
def test_nvml_gives_values_in_the_units_of_dcgm(tmp_path: Path) -> None:
    source = tmp_path / "nvml.c"
    source.write_text(LIBRARY)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, source], check=True, timeout=30)
    found = read_nvml(tmp_path)
    assert isinstance(found, list)
    ((device, uuid, model, raw),) = found
    assert (device, uuid, model) == ("GPU-0", "GPU-abc", "NVIDIA A10")
    assert raw == {
        "DCGM_FI_DEV_GPU_TEMP": 66,
        "DCGM_FI_DEV_POWER_USAGE": 120.5,
        "DCGM_FI_DEV_GPU_UTIL": 55,
        "DCGM_FI_DEV_MEM_COPY_UTIL": 12,
        "DCGM_FI_DEV_FB_TOTAL": 24 * 1024,
        "DCGM_FI_DEV_FB_FREE": 14 * 1024,
        "DCGM_FI_DEV_FB_USED": 10 * 1024,
    }
