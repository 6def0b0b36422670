"""`python -m console.stack [--report DESCRIPTOR] [SERVICE …]`: the embedded stack's supervisor."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time

from console import env
from console.stack.errors import StackError
from console.stack.services import build
from console.stack.supervisor import Supervisor


def main(arguments: list[str]) -> int:
    """Supervise until asked to stop. Progress goes to the log and, until all is up, to the
    descriptor that the waiting command gave."""
    parser = argparse.ArgumentParser(prog="console.stack")
    parser.add_argument("--report", type=int)
    parser.add_argument("services", nargs="*")
    options = parser.parse_args(arguments)
    listener = os.fdopen(options.report, "w") if options.report is not None else None

    def report(line: str) -> None:
        nonlocal listener
        print(time.strftime("%Y-%m-%dT%H:%M:%S"), line.strip(), flush=True)
        if listener is not None:
            try:
                print(line, file=listener, flush=True)
            except BrokenPipeError:
                listener = None

    def stop_listening() -> None:
        nonlocal listener
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.close()
            listener = None

    try:
        config = env.load()
        # Others may pass through, since Postgres runs as another user; they may not look around.
        config.home.mkdir(parents=True, exist_ok=True, mode=0o711)
        Supervisor(build(config, options.services), config.home, report).run(stop_listening)
    except (env.ConfigError, StackError) as error:
        report(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
