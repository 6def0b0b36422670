"""Logs of services: each a file that cannot fill the disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

LARGEST = 16 * 1024 * 1024


def cap(path: Path, largest: int = LARGEST) -> bool:
    """When the log has grown over `largest` bytes, keep a copy beside it and empty it.

    The service goes on writing to the same open file, which appends. Lines that are written
    between copy and cut are lost; that is the price of asking nothing of the services.
    """
    try:
        if path.stat().st_size <= largest:
            return False
        shutil.copyfile(path, path.with_suffix(".log.1"))
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    return True
