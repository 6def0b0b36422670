"""Runs the real supervisor over small real programs, told by JSON: `HOME_FOLDER SERVICES`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from console.stack.errors import StackError
from console.stack.process import Command
from console.stack.service import Service
from console.stack.supervisor import Supervisor


def service(told: dict[str, object]) -> Service:
    """A service whose `argv`, `after`, `ports`, `logs` (text that means ready) were told."""
    text = str(told.get("logs", ""))
    return Service(
        name=str(told["name"]),
        command=lambda: Command(argv=[str(part) for part in told["argv"]], env=dict(os.environ)),
        is_ready=lambda child: child.has_logged(text),
        after=tuple(told.get("after", ())),
        ports=tuple(told.get("ports", ())),
        one_shot=bool(told.get("one_shot", False)),
        stop_seconds=float(told.get("stop_seconds", 5)),
        ready_seconds=float(told.get("ready_seconds", 20)),
    )


def report(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    services = [service(told) for told in json.loads(sys.argv[2])]
    try:
        Supervisor(services, Path(sys.argv[1]), report).run(lambda: report("UP"))
    except StackError as error:
        report(f"ERROR {error}")
        sys.exit(1)
    report("ENDED")
