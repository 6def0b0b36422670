"""Envoy as our own child; its bootstrap only says where ADS is, from which the rest comes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from console.env import ROOT
from console.stack import web
from console.stack.errors import ProgramMissing
from console.stack.process import Command

VENV = ROOT / ".venv-triton"
NODE_ID = "embedded"
NODE_CLUSTER = "covenant"

# Upper bounds of the latency histograms' buckets, ms, for whoever else reads Envoy's statistics:
# the collector reads the bins below them, and so knows thresholds of contracts without a restart.
LATENCY_BOUNDS_MS: tuple[float, ...] = (
    *(0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200),
    *(250, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 5000, 10000),
)


def find(venv: Path = VENV) -> Path:
    """The installed Envoy. Raises ProgramMissing with the next step."""
    for site in venv.glob("lib/python3*/site-packages"):
        program = site / "envoy" / "_bin" / "envoy"
        if program.is_file():
            os.chmod(program, 0o755)
            return program
    raise ProgramMissing(
        f"Envoy is missing in {venv}. Run `make setup`, or set COVENANT_GATEWAY=none."
    )


def histogram_settings(bounds_ms: Iterable[float]) -> list[dict[str, Any]]:
    """Envoy's `stats_config.histogram_bucket_settings` for the clusters' latencies."""
    buckets = sorted({float(bound) for bound in bounds_ms})
    return [{"match": {"prefix": "cluster."}, "buckets": buckets}]


def bootstrap(
    *,
    admin_port: int,
    ads_port: int,
    node_id: str = NODE_ID,
    bounds_ms: Iterable[float] = LATENCY_BOUNDS_MS,
) -> dict[str, Any]:
    """The bootstrap document: node, admin address, the ADS cluster, statistics each second."""
    http2 = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    ads_source = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "15s"}
    return {
        "node": {"id": node_id, "cluster": NODE_CLUSTER},
        "admin": {"address": _address(admin_port)},
        # Fallback and open-circuit answers come from a listener inside the gateway.
        "bootstrap_extensions": [
            {
                "name": "envoy.bootstrap.internal_listener",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.bootstrap"
                    ".internal_listener.v3.InternalListener"
                },
            }
        ],
        "dynamic_resources": {
            "ads_config": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "grpc_services": [
                    {
                        "envoy_grpc": {
                            "cluster_name": "ads",
                            # Envoy's own back-off goes up to 30 s; a control plane that is back
                            # should be found at once.
                            "retry_policy": {
                                "retry_back_off": {"base_interval": "0.1s", "max_interval": "1s"}
                            },
                        }
                    }
                ],
                "set_node_on_first_message_only": True,
            },
            "lds_config": ads_source,
            "cds_config": ads_source,
        },
        "static_resources": {
            "clusters": [
                {
                    "name": "ads",
                    "type": "STATIC",
                    "connect_timeout": "1s",
                    "typed_extension_protocol_options": {
                        http2: {
                            "@type": f"type.googleapis.com/{http2}",
                            "explicit_http_config": {
                                "http2_protocol_options": {
                                    "connection_keepalive": {"interval": "5s", "timeout": "3s"}
                                }
                            },
                        }
                    },
                    "load_assignment": {
                        "cluster_name": "ads",
                        "endpoints": [
                            {"lb_endpoints": [{"endpoint": {"address": _address(ads_port)}}]}
                        ],
                    },
                }
            ]
        },
        "stats_flush_interval": "1s",
        "stats_config": {"histogram_bucket_settings": histogram_settings(bounds_ms)},
    }


def server(
    program: Path, folder: Path, document: dict[str, Any], *, concurrency: int = 2
) -> Command:
    """Envoy with this bootstrap, written to `folder`/bootstrap.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bootstrap.json"
    draft = folder / ".bootstrap.json"
    draft.write_text(json.dumps(document, indent=1))
    draft.replace(path)
    return Command(
        argv=[
            str(program),
            "-c",
            str(path),
            # Two Envoys on one machine would else clash over the hot restart's shared memory.
            "--use-dynamic-base-id",
            "--concurrency",
            str(concurrency),
            "--log-level",
            "warning",
        ],
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TMPDIR": str(folder)},
        cwd=folder,
        death_signal=signal.SIGTERM,
    )


def is_ready(admin_port: int) -> bool:
    """Whether Envoy says LIVE: it has had its first configuration."""
    return web.get(f"http://127.0.0.1:{admin_port}/ready") == (200, b"LIVE\n")


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
