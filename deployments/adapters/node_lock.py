"""One hand at a time on a node's model repository, whatever processes work on that machine."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from console.errors import Unavailable

LOOK_EVERY_S = 0.1


@contextmanager
def exclusive(root: Path, *, wait_s: float, check: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of the repository at `root`; the kernel frees it when the holder dies.

    `check` is called while waiting and may raise. Raises Unavailable (retryable) after `wait_s`.
    """
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        file = (root.parent / "repository.lock").open("a")
    except OSError as fault:
        raise Unavailable(
            f"The model repository {root} cannot be used: {fault}.",
            code="repository_unwritable",
            hint="Check the folder's owner and its disk.",
            retryable=False,
        ) from fault
    deadline = time.monotonic() + wait_s
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                check()
                if time.monotonic() >= deadline:
                    raise Unavailable(
                        f"Another job works on the model repository {root}.",
                        code="node_busy",
                        hint="It is tried again by itself.",
                    ) from None
                time.sleep(LOOK_EVERY_S)
        yield
