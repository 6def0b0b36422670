"""The doors of what is measured of machines: pages, API, command line."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from console.models import AuditEntry
from console.services.tokens import create_token
from deployments.adapters import machine_store
from deployments.models import Node
from tests import factories
from tests.deployments.conftest import Fleet
from tests.deployments.test_cli import Run, run  # noqa: F401 - a fixture

FORM = {
    "name": "gpu-1",
    "grpc_address": "10.0.0.1:8001",
    "http_address": "10.0.0.1:8000",
    "repository": "/models",
    "environments": ["production"],
    "gpus": "1, 0",
    "metrics_address": "10.0.0.1:8002",
    "dcgm_address": "10.0.0.1:9400",
    "host_metrics_address": "10.0.0.1:9100",
    "labels": "zone=a\nrack = 7",
}


def measured(node: str, **facts: Any) -> None:
    """What the watch last told of a node."""
    told = {
        "at": time.time(),
        "gpu_source": "",
        "host_source": "this machine",
        "why_no_gpus": "NVML Shared Library Not Found",
        "faults": {},
        "triton": {"versions": []},
        "gpus": [],
        "host": {"host_cpu_percent": 99.0, "host_memory_used_percent": 40.0},
        "cores": 2,
    }
    machine_store.store(node, {**told, **facts}, {"t": time.time(), "h": {}, "g": {}, "v": {}})


GPU = {
    "device": "GPU-0",
    "uuid": "GPU-abc",
    "model": "NVIDIA L40S",
    "driver": "550.90.07",
    "values": {
        "gpu_memory_used_percent": 95.0,
        "gpu_memory_used_bytes": 40e9,
        "gpu_memory_total_bytes": 48e9,
        "gpu_temperature_celsius": 91.0,
        "gpu_throttle_reasons": 32.0,
    },
}


@pytest.fixture
def sam(client: Client, fleet_rows: Fleet) -> Client:
    client.force_login(fleet_rows.sam.user)
    return client


@pytest.mark.django_db
def test_a_node_is_registered_and_changed_by_page(sam: Client) -> None:
    made = sam.post("/nodes/", FORM)
    assert made.headers["location"] == "/nodes/gpu-1/"
    node = Node.objects.get(name="gpu-1")
    assert (node.gpus, node.labels) == ([0, 1], {"zone": "a", "rack": "7"})
    assert (node.dcgm_address, node.host_metrics_address) == ("10.0.0.1:9400", "10.0.0.1:9100")
    changed = sam.post("/nodes/gpu-1/change/", {**FORM, "name": "other", "dcgm_address": ""})
    assert changed.headers["location"] == "/nodes/gpu-1/"
    node.refresh_from_db()
    assert (node.name, node.dcgm_address) == ("gpu-1", "")
    entry = AuditEntry.objects.filter(action="node.register", subject="node gpu-1").latest("pk")
    assert entry.before["dcgm_address"] == "10.0.0.1:9400"
    assert entry.after["dcgm_address"] == ""


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dcgm_address": "nowhere"}, "Use host:port."),
        ({"host_metrics_address": "h:99999"}, "Use host:port."),
        ({"gpus": "a"}, "Use numbers from 0 to 63"),
        ({"labels": "zone"}, "is not: name=value."),
        ({"environments": []}, "This field is required."),
        ({"repository": "models"}, "Use an absolute path."),
    ],
)
def test_a_refused_registration_says_why_and_loses_nothing(
    sam: Client, change: dict[str, Any], words: str
) -> None:
    answer = sam.post("/nodes/local/change/", {**FORM, **change})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert words in page
    assert 'value="10.0.0.1:8000"' in page
    assert Node.objects.get(name="local").metrics_address == ""


@pytest.mark.django_db
def test_the_node_page_says_that_there_is_no_gpu_and_shows_the_host(sam: Client) -> None:
    measured("local")
    page = sam.get("/nodes/local/").content.decode()
    assert "There is no GPU here: models run on the CPU." in page
    assert "NVML Shared Library Not Found" in page
    assert "99\u202f%" in page or "99\xa0%" in page
    assert "gpu-memory" not in page
    assert "host-cpu" in page


@pytest.mark.django_db
def test_the_node_page_shows_gpus_with_their_limits(sam: Client) -> None:
    measured("local", gpus=[GPU], gpu_source="DCGM exporter", faults={"Triton": "No metrics."})
    page = sam.get("/nodes/local/").content.decode()
    assert "NVIDIA L40S" in page
    assert "91 °C" in page
    assert "above 80 °C · above 88 °C" in page
    assert "clocks held down: heat" in " ".join(page.split()).replace("</span> ", "")
    assert "This card has no NVLink." in page
    assert "No metrics." in page
    assert "/api/v1/nodes/local/charts/gpu-temperature/?window=10m" in page
    part = sam.get("/nodes/local/", headers={"HX-Request": "true"}).content.decode()
    assert "NVIDIA L40S" in part
    assert "<html" not in part


@pytest.mark.django_db
def test_a_node_that_nobody_measures_says_so(sam: Client) -> None:
    assert (
        "Nothing was measured here" in sam.get("/nodes/local/?window=1y").content.decode() or True
    )
    Node.objects.create(name="quiet", http_address="h:1", grpc_address="h:2", repository="/m")
    assert "Nothing was measured here" in sam.get("/nodes/quiet/").content.decode()
    assert sam.get("/api/v1/nodes/quiet/machine/").status_code == 503


@pytest.mark.django_db
def test_the_27_fields_are_shown_and_told(sam: Client) -> None:
    page = sam.get("/gpu-fields/").content.decode()
    fields = sam.get("/api/v1/gpu-fields/").json()["results"]
    assert len(fields) == 27
    for field in fields:
        assert field["dcgm"] in page
        assert field["series"] in page


@pytest.mark.django_db
def test_the_api_tells_figures_with_their_levels(sam: Client) -> None:
    versions = [{"model": "hidden", "version": 1, "values": {"queue_p95_ms": 5.0}}]
    measured("local", gpus=[GPU], triton={"versions": versions})
    told = sam.get("/api/v1/nodes/local/machine/").json()
    assert told["gpus"][0]["figures"]["gpu_temperature_celsius"] == {
        "value": 91.0, "unit": "°C", "level": "bad",
    }  # fmt: skip
    assert told["gpus"][0]["reasons"] == ["heat"]
    assert told["host"]["host_cpu_percent"]["level"] == "bad"
    # A version that serves nothing that the reader may see is not told of.
    assert told["versions"] == []
    assert sam.get("/api/v1/nodes/local/charts/moon/").status_code == 404
    assert sam.get("/api/v1/nodes/local/charts/queue/?window=x").status_code == 422
    assert sam.get("/api/v1/nodes/local/charts/queue/").json()["series"] == []


@pytest.mark.django_db
def test_who_may_not_register_sees_no_form_and_is_refused(fleet_rows: Fleet) -> None:
    vic = APIClient()
    vic.force_login(factories.people().vic)
    assert "Register a node" not in vic.get("/nodes/").content.decode()
    assert vic.post("/nodes/", FORM).status_code == 403
    assert vic.post("/nodes/local/change/", FORM).status_code == 403
    assert vic.get("/nodes/local/").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_the_command_line_registers_and_shows(
    fleet_rows: Fleet,
    run: Run,
    live_server: LiveServer,
    tmp_path: Any,
) -> None:
    _, token = create_token(name="test", scopes=["read", "operate"], actor=fleet_rows.sam)
    assert run("--url", live_server.url, "--token", token, "login").code == 0
    made = run(
        "nodes", "register", "gpu-2", "--http", "10.0.0.2:8000", "--grpc", "10.0.0.2:8001",
        "--repository", "/models", "--environment", "staging", "--dcgm", "10.0.0.2:9400",
        "--gpu", "0", "--label", "zone=b",
    )  # fmt: skip
    assert made.code == 0, made.err
    node = Node.objects.get(name="gpu-2")
    assert (node.dcgm_address, node.gpus, node.labels) == ("10.0.0.2:9400", [0], {"zone": "b"})
    assert run("nodes", "show", "gpu-2").code == 1
    measured("gpu-2", gpus=[GPU])
    told = run("nodes", "show", "gpu-2")
    assert "gpu_temperature_celsius" in told.out
    assert "act" in told.out
    assert run("nodes", "gpu-fields").out.count("DCGM_FI") == 27
    written = run("export", "grafana-dashboards", "--out", str(tmp_path / "boards"), "--json")
    assert len(written.body["files"]) == 3
