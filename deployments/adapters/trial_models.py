"""A model under a name of its own in a node's repository, to see whether Triton loads it.

It lies beside what serves and touches none of it. Files are linked where they can be, so that
gigabytes are not copied for a look. The caller holds the node's lock.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from console.adapters.triton import TritonClient
from console.errors import CovenantError, Unavailable

PREFIX = "covenant_diagnosis_"
"""How the names of trials begin; each has one of its own, so that its lines in a log are known."""

_NAME_FIELD = re.compile(r'^(\s*name\s*:\s*)(".*?"|\'.*?\')', re.MULTILINE)


@contextmanager
def placed(
    root: Path, name: str, *, config: str, beside: Mapping[str, Path | bytes], number: int
) -> Iterator[Path]:
    """The trial's folder while it lies in the repository; what was left of others goes first.

    `config` is taken as it is, but for the model's name; `beside` maps paths below the model's
    folder ("1/model.onnx", "warmup/x") to files or bytes. Raises Unavailable `disk_full` and
    `repository_unwritable`.
    """
    for left in root.glob(f"{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = root / name
    try:
        try:
            folder.mkdir(parents=True)
            (folder / str(number)).mkdir()
            (folder / "config.pbtxt").write_text(renamed(config, name), encoding="utf-8")
            for path, source in beside.items():
                _put(folder / path, source)
        except OSError as fault:
            raise Unavailable(
                f"The trial cannot be laid into the repository {root}: {fault.strerror}.",
                code="repository_unwritable",
                hint="Check the folder's owner and its disk.",
                retryable=False,
            ) from fault
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def outcome(triton: TritonClient, name: str, *, size_bytes: int) -> tuple[str, Any]:
    """Triton's words when it does not load the trial, "" when it does, and the completed config.

    It is unloaded again in any case. Raises Unavailable when Triton cannot be reached.
    """
    config = None
    try:
        triton.load(name, size_bytes=size_bytes)
        words = ""
        config = triton.config(name)
    except Unavailable as error:
        if error.retryable or error.code == "triton_key_refused":
            raise
        words = error.message
    except CovenantError as error:
        words = error.message
    finally:
        forget(triton)
    return words, config


def forget(triton: TritonClient) -> None:
    """Unload every trial, a killed attempt's too; no fault where Triton does not answer."""
    with suppress(CovenantError):
        for name in {entry.name for entry in triton.index() if entry.name.startswith(PREFIX)}:
            triton.unload(name)


def renamed(config: str, name: str) -> str:
    """The configuration under the trial's name, changed in nothing else: its faults are sought."""
    # The model's own name is the first field called so; those of tensors are inside of blocks.
    depth, found = 0, False
    done: list[str] = []
    for line in config.splitlines():
        its_name = not found and depth == 0 and _NAME_FIELD.match(line) is not None
        found = found or its_name
        depth += line.count("{") - line.count("}")
        done.append(_NAME_FIELD.sub(rf'\1"{name}"', line, count=1) if its_name else line)
    return "\n".join(done if found else [f'name: "{name}"', *done]) + "\n"


def _put(target: Path, source: Path | bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(source, bytes):
        target.write_bytes(source)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
