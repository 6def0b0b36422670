"""A real Prometheus in a folder of its own, that scrapes what a test names."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from console.stack import process
from tests import stack

PROGRAM = "prometheus"


@contextmanager
def running_prometheus(folder: Path, targets: list[str]) -> Iterator[str]:
    """Its address, once it is ready; `targets` are host:port with `/metrics`, each second."""
    program = shutil.which(PROGRAM)
    assert program is not None, "prometheus is missing: apt-get install prometheus"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = "".join(f"      - {target}\n" for target in targets)
    scraping = (
        "scrape_configs:\n  - job_name: tests\n    static_configs:\n    - targets:\n" + jobs
        if targets
        else ""
    )
    config = folder / "prometheus.yml"
    config.write_text(f"global:\n  scrape_interval: 1s\n{scraping}")
    port = stack.free_port()
    arguments = (
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    command = process.Command(arguments, env=dict(os.environ))
    child = process.spawn(command, folder / "prometheus.log")
    address = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        try:
            return httpx.get(f"{address}/-/ready", timeout=1).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        stack.wait_until("Prometheus", is_ready, child, folder / "prometheus.log")
        yield address
    finally:
        process.stop(child, signal.SIGTERM, seconds=5)
