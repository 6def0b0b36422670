"""Grafana dashboards as data: which panels ask what.

Every query uses metrics that `/metrics` tells (see `exported.py`); a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OF_ENDPOINT: Final = 'environment=~"$environment",model=~"$model"'
OF_NODE: Final = 'node=~"$node"'


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: a title, queries with the words for their lines, Grafana's unit, a limit."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    limit: float | None = None
    kind: str = "timeseries"
    width: int = 8
    help: str = ""
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`variables` are (name, metric whose label of that name is offered)."""

    uid: str
    title: str
    about: str
    variables: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


def _rate(meaning: str = "", by: str = "version") -> str:
    of = f'{OF_ENDPOINT},meaning="{meaning}"' if meaning else OF_ENDPOINT
    return f"sum by ({by}) (rate(covenant_endpoint_requests_total{{{of}}}[$__rate_interval]))"


def _quantile(q: float) -> str:
    buckets = f"rate(covenant_endpoint_latency_seconds_bucket{{{OF_ENDPOINT}}}[$__rate_interval])"
    return f"histogram_quantile({q:g}, sum by (le, version) ({buckets}))"


def _placed(metric: str, more: str = "") -> str:
    return f"max by (version, node) ({metric}{{{OF_ENDPOINT}{more}}})"


def _gpu(metric: str) -> str:
    return f"{metric}{{{OF_NODE}}}"


VERSION: Final = "v{{version}}"
PLACED: Final = "v{{version}} on {{node}}"
GPU: Final = "{{node}} GPU {{gpu}}"

REQUESTS: Final = Panel("Requests", ((_rate(), VERSION),), "reqps")
ERRORS: Final = Panel(
    "Errors of the provider",
    ((f"{_rate('provider', 'environment, model')} / {_rate('', 'environment, model')}", "share"),),
    "percentunit",
    help="Answers that count against the provider by the contract's meaning, of all requests.",
)
P99: Final = Panel("Latency P99", ((_quantile(0.99), VERSION),), "s")
SHARE: Final = Panel(
    "Traffic that is wanted",
    ((f"covenant_version_traffic_ratio{{{OF_ENDPOINT}}}", VERSION),),
    "percentunit",
    most=1,
)
QUEUE: Final = Panel(
    "Queue P95",
    ((_placed("covenant_version_queue_seconds", ',quantile="0.95"'), PLACED),),
    "s",
    limit=0.1,
)
COMPUTE: Final = Panel(
    "Execution P95",
    ((_placed("covenant_version_compute_seconds", ',quantile="0.95"'), PLACED),),
    "s",
    limit=0.05,
)
BATCHES: Final = Panel(
    "Batch efficiency",
    ((_placed("covenant_version_batch_efficiency"), PLACED),),
    help="Inferences in one execution: near 1 under load, dynamic batching is not effective.",
)
DRIFT: Final = Panel(
    "Feature drift",
    ((f"covenant_model_feature_drift_score{{{OF_ENDPOINT}}}", VERSION),),
    limit=0.3,
)
ENTROPY: Final = Panel(
    "Output entropy",
    ((f"covenant_model_output_entropy{{{OF_ENDPOINT}}}", VERSION),),
    limit=0.5,
)
GPU_MEMORY: Final = Panel(
    "GPU memory",
    ((_gpu("covenant_gpu_memory_used_ratio"), GPU),),
    "percentunit",
    limit=0.97,
    most=1,
)
GPU_LOAD: Final = Panel(
    "GPU utilisation", ((_gpu("covenant_gpu_utilization_ratio"), GPU),), "percentunit", most=1
)
GPU_HEAT: Final = Panel(
    "GPU temperature", ((_gpu("covenant_gpu_temperature_celsius"), GPU),), "celsius", limit=88
)
NVLINK: Final = Panel(
    "NVLink", ((_gpu("covenant_gpu_nvlink_utilization_ratio"), GPU),), "percentunit", limit=0.8
)

ENDPOINT_VARIABLES: Final = (
    ("environment", "covenant_endpoint_requests_total"),
    ("model", "covenant_endpoint_requests_total"),
)
NODE_VARIABLES: Final = (("node", "covenant_node_up"),)

ENDPOINTS: Final = Dashboard(
    "covenant-endpoints",
    "Covenant: endpoints",
    "What callers get from each version of an endpoint, and the promise.",
    ENDPOINT_VARIABLES,
    (
        Row(
            "Promise",
            (
                Panel(
                    "Error budget left",
                    ((f"min(covenant_endpoint_budget_remaining_ratio{{{OF_ENDPOINT}}})", "left"),),
                    "percentunit",
                    kind="gauge",
                    limit=0.25,
                    width=6,
                    most=1,
                ),
                Panel(
                    "Alerts that fire",
                    ((f"sum(covenant_alerts_firing{{{OF_ENDPOINT}}}) or vector(0)", "alerts"),),
                    kind="stat",
                    width=6,
                ),
                Panel(
                    "Open incidents",
                    ((f"sum(covenant_incidents_open{{{OF_ENDPOINT}}}) or vector(0)", "incidents"),),
                    kind="stat",
                    width=6,
                ),
                Panel(
                    "Objective",
                    ((f"covenant_objective_target_ratio{{{OF_ENDPOINT}}}", "{{objective}}"),),
                    "percentunit",
                    kind="stat",
                    width=6,
                ),
            ),
        ),
        Row("Traffic", (REQUESTS, ERRORS, SHARE)),
        Row(
            "Latency at the gateway",
            (
                Panel("P50", ((_quantile(0.5), VERSION),), "s"),
                Panel("P95", ((_quantile(0.95), VERSION),), "s"),
                P99,
            ),
        ),
        Row("Triton", (QUEUE, COMPUTE, BATCHES)),
        Row("Model", (DRIFT, ENTROPY)),
    ),
)

MACHINES: Final = Dashboard(
    "covenant-machines",
    "Covenant: machines",
    "GPUs and hosts of the nodes.",
    NODE_VARIABLES,
    (
        Row(
            "Nodes",
            (
                Panel("Reached", ((_gpu("covenant_node_up"), "{{node}}"),), kind="stat", width=12),
                Panel(
                    "Age of what was booked",
                    (("time() - covenant_collector_booked_timestamp_seconds", "{{source}}"),),
                    "s",
                    limit=60,
                    width=12,
                ),
            ),
        ),
        Row("GPUs", (GPU_MEMORY, GPU_LOAD, GPU_HEAT)),
        Row(
            "GPUs: power and clocks",
            (
                Panel("Power", ((_gpu("covenant_gpu_power_watts"), GPU),), "watt"),
                Panel("SM clock", ((_gpu("covenant_gpu_sm_clock_hertz"), GPU),), "hertz"),
                Panel(
                    "Slowed down",
                    (
                        (_gpu("covenant_gpu_thermal_throttled_ratio"), f"{GPU} by heat"),
                        (_gpu("covenant_gpu_power_throttled_ratio"), f"{GPU} by power"),
                    ),
                    "percentunit",
                    limit=0.1,
                ),
            ),
        ),
        Row(
            "GPUs: links and errors",
            (
                NVLINK,
                Panel(
                    "PCIe",
                    (
                        (_gpu("covenant_gpu_pcie_sent_bytes_per_second"), f"{GPU} sent"),
                        (_gpu("covenant_gpu_pcie_received_bytes_per_second"), f"{GPU} received"),
                    ),
                    "Bps",
                ),
                Panel(
                    "Errors",
                    (
                        (_gpu("covenant_gpu_xid_error"), f"{GPU} last XID"),
                        (_gpu("covenant_gpu_ecc_double_bit_errors"), f"{GPU} uncorrected"),
                        (_gpu("covenant_gpu_remapped_rows"), f"{GPU} remapped rows"),
                    ),
                ),
            ),
        ),
        Row(
            "Hosts",
            (
                Panel(
                    "CPU", ((_gpu("covenant_host_cpu_ratio"), "{{node}}"),), "percentunit", most=1
                ),
                Panel(
                    "Memory",
                    ((_gpu("covenant_host_memory_used_ratio"), "{{node}}"),),
                    "percentunit",
                    limit=0.96,
                    most=1,
                ),
                Panel(
                    "Disk of the models",
                    ((_gpu("covenant_host_disk_used_ratio"), "{{node}}"),),
                    "percentunit",
                    limit=0.95,
                    most=1,
                ),
            ),
        ),
    ),
)

CAUSES: Final = Dashboard(
    "covenant-causes",
    "Covenant: root cause",
    "Business, gateway, Triton and GPU of one endpoint on one axis of time: what moved first?",
    (*ENDPOINT_VARIABLES, *NODE_VARIABLES),
    (
        Row("1 Business and model", (REQUESTS, ERRORS, ENTROPY)),
        Row("2 Gateway", (P99, SHARE, DRIFT)),
        Row("3 Triton", (QUEUE, COMPUTE, BATCHES)),
        Row("4 GPU", (GPU_MEMORY, GPU_LOAD, GPU_HEAT)),
        Row(
            "5 Links and host",
            (
                NVLINK,
                Panel(
                    "Slowed by heat",
                    ((_gpu("covenant_gpu_thermal_throttled_ratio"), GPU),),
                    "percentunit",
                    limit=0.1,
                ),
                Panel(
                    "CPU of the host",
                    ((_gpu("covenant_host_cpu_ratio"), "{{node}}"),),
                    "percentunit",
                ),
            ),
        ),
    ),
)

DASHBOARDS: Final = (ENDPOINTS, MACHINES, CAUSES)
