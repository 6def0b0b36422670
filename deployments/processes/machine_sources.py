"""What a machine is read from: Triton, a DCGM exporter or NVML, a node exporter or /proc."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx

from console.errors import Unavailable
from deployments.adapters import dcgm, exposition, hosts, triton_metrics
from deployments.adapters.nvml import Nvml
from deployments.rules.fleet.gpus import Gpu
from deployments.rules.fleet.hosts import Host
from deployments.rules.fleet.triton_numbers import TritonNumbers
from deployments.selectors.fleet.machines import Machine

TIMEOUT_S: Final = 1.5
TRITON: Final = "Triton"
DCGM: Final = "DCGM exporter"
NODE_EXPORTER: Final = "node exporter"
NVML: Final = "NVML"
THIS_MACHINE: Final = "this machine"

log = logging.getLogger(__name__)

T = TypeVar("T")
Faults = dict[str, str]
"""Source → why it does not answer."""


@dataclass(frozen=True, slots=True)
class MachineLook:
    """What one look at a machine read, and from where ("" for nowhere)."""

    triton: TritonNumbers
    gpus: list[Gpu]
    gpu_source: str
    host: Host | None
    host_source: str


def client() -> httpx.AsyncClient:
    """A client that waits for no connection of its own: what is slow is the exporter, then."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=200)
    return httpx.AsyncClient(timeout=httpx.Timeout(TIMEOUT_S), limits=limits)


class MachineSources:
    """Reads machines; what does not answer is missing, and said once."""

    def __init__(self) -> None:
        self._nvml = Nvml()
        # NVML is asked from one thread; the rest is files of /proc.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="machine")

    @property
    def why_no_nvml(self) -> str:
        """Why this machine has no GPUs by NVML; "" where it has, or nobody asked."""
        return self._nvml.why_not

    def close(self) -> None:
        """Give NVML and the thread back."""
        self._thread.submit(self._nvml.close)
        self._thread.shutdown(wait=False)

    async def read(
        self, http: httpx.AsyncClient, machine: Machine, *, own: bool, faults: Faults
    ) -> MachineLook:
        """All sources at once. `own` says that it is this machine; `faults` are kept up to date.

        GPUs come from the DCGM exporter where one is named, else from NVML on this machine, else
        from what Triton tells of them.
        """
        triton_text, dcgm_text, host_text = await asyncio.gather(
            *(
                self._fetch(http, faults, machine.name, source, address)
                for source, address in (
                    (TRITON, machine.metrics_address),
                    (DCGM, machine.dcgm_address),
                    (NODE_EXPORTER, machine.host_metrics_address),
                )
            )
        )
        numbers, seen = TritonNumbers(), list[Gpu]()
        if triton_text:
            read = await self._parsed(faults, TRITON, triton_metrics.read, triton_text)
            numbers, seen = read or (numbers, seen)
        gpus, gpu_source = await self._gpus(machine, own, faults, dcgm_text)
        if not gpu_source and seen:
            gpus, gpu_source = seen, TRITON
        host, host_source = None, ""
        if machine.host_metrics_address:
            host_source = NODE_EXPORTER
            if host_text:
                host = await self._parsed(
                    faults,
                    NODE_EXPORTER,
                    lambda text: hosts.read(text, machine.repository),
                    host_text,
                )
        elif own:
            host, host_source = await self._own(hosts.read_own, machine.repository), THIS_MACHINE
        return MachineLook(numbers, gpus, gpu_source, host, host_source)

    async def _gpus(
        self, machine: Machine, own: bool, faults: Faults, text: str
    ) -> tuple[list[Gpu], str]:
        if machine.dcgm_address:
            found = await self._parsed(faults, DCGM, dcgm.read, text) if text else None
            gpus, source = found or [], DCGM
        elif own:
            gpus = await self._own(self._nvml.read)
            source = NVML if gpus else ""
        else:
            gpus, source = [], ""
        # A machine may have several nodes, each with some of its GPUs.
        wanted = {f"GPU-{index}" for index in machine.gpus}
        return [one for one in gpus if not wanted or one.device.partition("/")[0] in wanted], source

    async def _fetch(
        self, http: httpx.AsyncClient, faults: Faults, node: str, source: str, address: str
    ) -> str:
        if not address:
            faults.pop(source, None)
            return ""
        try:
            text = await exposition.fetch(http, address, what=source)
        except Unavailable as error:
            if source not in faults:
                log.warning("node %s: %s", node, error.message)
            faults[source] = error.message
            return ""
        if faults.pop(source, None):
            log.info("node %s: %s answers again", node, source)
        return text

    @staticmethod
    async def _parsed(faults: Faults, source: str, read: Callable[[str], T], text: str) -> T | None:
        try:
            # A large text takes some ten milliseconds, which the event loop must not wait for.
            return await asyncio.to_thread(read, text)
        except Unavailable as error:
            faults[source] = error.message
        except ValueError as error:
            faults[source] = f"The {source} says something that cannot be read: {error}."
        return None

    async def _own(self, read: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, read, *args)
