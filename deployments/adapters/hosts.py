"""Machines: this very one by psutil, others as a node exporter tells of them."""

from __future__ import annotations

import ipaddress
import os
from collections import defaultdict

import psutil

from deployments.adapters import exposition
from deployments.adapters.exposition import Sample
from deployments.rules.fleet.hosts import Host

_NAMES = frozenset(
    {
        "node_cpu_seconds_total",
        "node_load1",
        "node_memory_MemTotal_bytes",
        "node_memory_MemAvailable_bytes",
        "node_filesystem_size_bytes",
        "node_filesystem_avail_bytes",
        "node_network_receive_bytes_total",
        "node_network_transmit_bytes_total",
    }
)
_NO_NETWORK = ("lo", "veth", "docker", "br-", "cali", "flannel", "cni", "virbr", "tun")
"""Interfaces whose bytes come a second time over another one, or stay on the machine."""


def is_own(address: str) -> bool:
    """Whether "host:port" is on this machine; names other than localhost are not looked up."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        wanted = ipaddress.ip_address(host)
    except ValueError:
        return False
    own = {one.address.partition("%")[0] for all_ in psutil.net_if_addrs().values() for one in all_}
    return wanted.is_loopback or str(wanted) in own


def read_own(repository: str) -> Host:
    """This machine as it is now; `repository` is the folder whose disk counts."""
    times = psutil.cpu_times()
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    idle = times.idle + getattr(times, "iowait", 0.0)
    memory = psutil.virtual_memory()
    network = [
        counted
        for name, counted in psutil.net_io_counters(pernic=True).items()
        if not name.startswith(_NO_NETWORK)
    ]
    disk_total, disk_free = _disk(repository)
    return Host(
        cores=psutil.cpu_count() or 0,
        load_1m=os.getloadavg()[0],
        cpu_busy_s=total - idle,
        cpu_total_s=total,
        memory_total=float(memory.total),
        memory_available=float(memory.available),
        disk_total=disk_total,
        disk_free=disk_free,
        received=float(sum(one.bytes_recv for one in network)),
        sent=float(sum(one.bytes_sent for one in network)),
    )


def read(text: str, repository: str) -> Host:
    """A machine from a node exporter's text. Raises Unavailable when the text is none."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for one in exposition.samples(text, _NAMES, what="the node exporter"):
        found[one.name].append(one)
    cpu = found["node_cpu_seconds_total"]
    idle = sum(one.value for one in cpu if one.labels.get("mode") in ("idle", "iowait"))
    total = sum(one.value for one in cpu if one.labels.get("mode") not in ("guest", "guest_nice"))
    mount = _mount_of(repository, found["node_filesystem_size_bytes"])
    return Host(
        cores=len({one.labels.get("cpu") for one in cpu}),
        load_1m=_only(found["node_load1"]),
        cpu_busy_s=total - idle if cpu else None,
        cpu_total_s=total if cpu else None,
        memory_total=_only(found["node_memory_MemTotal_bytes"]),
        memory_available=_only(found["node_memory_MemAvailable_bytes"]),
        disk_total=_at(found["node_filesystem_size_bytes"], mount),
        disk_free=_at(found["node_filesystem_avail_bytes"], mount),
        received=_network(found["node_network_receive_bytes_total"]),
        sent=_network(found["node_network_transmit_bytes_total"]),
    )


def _disk(folder: str) -> tuple[float | None, float | None]:
    """Size and free bytes of the disk that a folder is on, or would be on."""
    while folder not in ("", "/"):
        try:
            used = psutil.disk_usage(folder)
        except OSError:
            folder = os.path.dirname(folder)
        else:
            return float(used.total), float(used.free)
    return None, None


def _mount_of(folder: str, sizes: list[Sample]) -> str:
    """The mount point that a folder lies under: the longest that it begins with."""
    points = [one.labels.get("mountpoint", "") for one in sizes]
    fitting = [p for p in points if p and (f"{folder}/").startswith(p.rstrip("/") + "/")]
    return max(fitting, key=len, default="")


def _only(found: list[Sample]) -> float | None:
    return found[0].value if found else None


def _at(found: list[Sample], mount: str) -> float | None:
    return next((one.value for one in found if one.labels.get("mountpoint") == mount), None)


def _network(found: list[Sample]) -> float | None:
    taken = [one.value for one in found if not one.labels.get("device", "").startswith(_NO_NETWORK)]
    return sum(taken) if taken else None
