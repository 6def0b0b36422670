"""kill -9 of each part of the running stack, while callers call: what failed, and how long it took.

    .venv/bin/python -m benchmarks.faults

Processes are ended by the process id that the stack itself reports; the supervisor restarts them.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.demo_stack import CONFIG, ENVIRONMENT, GATEWAY, MODEL, person, report, set_split
from console.stack.control import status
from deployments.cli.client import Client, CliError
from deployments.demo.story import INPUTS, OUTPUTS
from deployments.demo.traffic import Caller

LIMIT_SECONDS = 60


def pid_of(service: str) -> int:
    """The process id of a running service, once it has one."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        for one in status(CONFIG)["services"]:
            if one["name"] == service and one["pid"] and one["state"] == "ready":
                return int(one["pid"])
        time.sleep(0.1)
    raise SystemExit(f"{service} does not run.")


def wait(what: str, done: Callable[[], bool]) -> float:
    """Seconds until `done`; SystemExit after a minute."""
    started = time.monotonic()
    while time.monotonic() - started < LIMIT_SECONDS:
        try:
            if done():
                return time.monotonic() - started
        except CliError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{what} did not happen within {LIMIT_SECONDS} s.")


def kill_while_calling(service: str, healed: Callable[[], bool]) -> None:
    """Kill one service under 100 calls a second and report what callers saw until it healed."""
    pid = pid_of(service)
    with Caller(GATEWAY, MODEL, rate=100, limit_seconds=90) as caller:
        time.sleep(2)
        os.kill(pid, signal.SIGKILL)
        wait(f"{service} gone", lambda: not Path(f"/proc/{pid}").exists())
        took = wait(f"recovery of {service}", healed)
        time.sleep(2)
    failed = [answer for answer in caller.tally.answers if answer.status != 200]
    span = max(a.at for a in failed) - min(a.at for a in failed) if failed else 0.0
    report(
        "fault",
        killed=service,
        healed_after_s=round(took, 1),
        calls=len(caller.tally.answers),
        failed=len(failed),
        failing_for_s=round(span, 2),
    )


def kill_worker_in(
    client: Client, kind: str, worker: str, ask: Callable[[], str], *, after: float = 0.0
) -> None:
    """Kill the worker `after` seconds into a job of this kind, and wait for the job's end."""
    job_id = ask()
    wait(f"{kind} running", lambda: client.get(f"/jobs/{job_id}/")["state"] != "queued")
    time.sleep(after)
    killed = time.monotonic()
    os.kill(pid_of(worker), signal.SIGKILL)
    wait(
        f"{kind} resumed",
        lambda: (
            (job := client.get(f"/jobs/{job_id}/"))["attempt"] > 1
            or job["state"] not in ("queued", "running")
        ),
    )
    resumed = time.monotonic() - killed
    job = client.wait_for_job(job_id, timeout=120)
    report(
        "worker killed",
        kind=kind,
        resumed_after_s=round(resumed, 1),
        ended_after_s=round(time.monotonic() - killed, 1),
        state=job["state"],
        attempts=job["attempt"],
    )


def kill_workers(sam: Client, dana: Client) -> None:
    """Kill the worker in an export, a validation, a deploy, an unload and a rollback."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "deployments.demo.checkpoints", folder], check=True, timeout=120
        )
        upload = dana.upload(Path(folder) / "fraud_detector_v1.pt")
    made = {}

    def export() -> str:
        made.update(
            dana.post(
                f"/models/{MODEL}/versions/",
                {"upload": upload["id"], "inputs": INPUTS, "outputs": OUTPUTS},
            )
        )
        return str(made["job"])

    def validate() -> str:
        version = f"/models/{MODEL}/versions/{made['number']}/"
        wait("validation asked for", lambda: bool(dana.get(version)["validate_job"]))
        return str(dana.get(version)["validate_job"])

    def unload() -> str:
        running = sam.get("/deployments/", model=MODEL, environment=ENVIRONMENT, version=2)
        deployment = running["results"][0]["id"]
        gone = sam.request("DELETE", f"/deployments/{deployment}/", json={"reason": "Benchmark."})
        return str(gone.json()["placements"][0]["job"])

    def deploy() -> str:
        releases = sam.get(f"/models/{MODEL}/releases/", version=2, environment=ENVIRONMENT)
        release = next(r for r in releases["results"] if r["state"] == "approved")
        return str(sam.post("/deployments/", {"release": release["id"]})["placements"][0]["job"])

    def roll_back() -> str:
        set_split(sam, {"1": 50, "2": 50})
        body = {"reason": "Benchmark.", "to": 1}
        return str(sam.post(f"/endpoints/{ENVIRONMENT}/{MODEL}/rollback/", body)["job"])

    kill_worker_in(dana, "export", "export", export, after=1)
    kill_worker_in(dana, "validate", "export", validate, after=1)
    kill_worker_in(sam, "unload", "node.local", unload)
    kill_worker_in(sam, "deploy", "node.local", deploy, after=0.3)
    kill_worker_in(sam, "rollback", "control", roll_back)
    node = sam.get("/nodes/local/")
    left = [row for row in node["loaded"] if row["drift"]]
    report("repository", drift=left, staging=_staged())


def _staged() -> list[str]:
    staging = CONFIG.home / "triton" / "staging"
    return sorted(path.name for path in staging.iterdir()) if staging.exists() else []


def main() -> None:
    client = person("sam")
    set_split(client, {"1": 100})
    path = f"/endpoints/{ENVIRONMENT}/{MODEL}/"

    def pages_answer() -> bool:
        return bool(client.get(path)["split"])

    # Each time another split: the same one again would need no acknowledgement.
    splits = itertools.cycle(({"1": 99, "2": 1}, {"1": 100}))

    def split_acknowledged() -> bool:
        return set_split(client, next(splits))["state"] == "applied"

    def node_ready() -> bool:
        return bool(client.get("/nodes/local/")["state"] == "ready") and _serves()

    kill_while_calling("valkey", pages_answer)
    kill_while_calling("postgres", pages_answer)
    kill_while_calling("gateway", split_acknowledged)
    set_split(client, {"1": 100})
    kill_while_calling("collect", pages_answer)
    kill_while_calling("web", pages_answer)
    kill_while_calling("triton", node_ready)
    kill_while_calling("envoy", _serves)
    kill_workers(client, person("dana"))


def _serves() -> bool:
    with Caller(GATEWAY, MODEL, rate=50, threads=1, limit_seconds=2) as caller:
        time.sleep(0.3)
    return bool(caller.tally.answers) and caller.tally.failed == 0


if __name__ == "__main__":
    main()
