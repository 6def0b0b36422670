"""What a person is spared from typing: inputs and outputs, read from an upload in the sandbox."""

from __future__ import annotations

import fcntl
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from console.actors import Actor, require
from console.errors import TooMany
from models_registry.adapters import sandbox
from models_registry.adapters.bubblewrap import Limits
from models_registry.exporting import protocol
from models_registry.rules import tensors
from models_registry.services import artifacts, uploads
from models_registry.services.sandbox_limits import limits_for
from models_registry.services.sandboxed import operator_libraries
from models_registry.services.source_files import MAX_FILES
from models_registry.services.version_requests import detect
from models_registry.services.versions import content_of

LIMITS = Limits(wall_seconds=60, cpu_seconds=60)
AT_ONCE, WAIT_SECONDS = 2, 15.0
MAX_TENSORS, MAX_NOTES, MAX_NOTE = 2_000, 100, 1_000


def propose_inputs(
    *,
    upload_id: uuid.UUID,
    code_upload_id: uuid.UUID | None = None,
    sample_upload_id: uuid.UUID | None = None,
    module_entry: str = "",
    module_arguments: Mapping[str, Any] | None = None,
    actor: Actor,
) -> dict[str, Any]:
    """Inputs and outputs of an upload, as far as the file, a sample and trying it out tell.

    {"inputs": [...], "outputs": [...], "notes": [sentences]}, and "beside" with the names of the
    files that an .onnx file keeps its weights in; a file that cannot be read gives empty lists and
    says why. Takes seconds, a minute at most: the file is opened and run in the sandbox.
    Raises TooMany while others are looked into.
    """
    require(actor, "upload.create")
    given = {
        protocol.SOURCE: upload_id,
        protocol.CODE: code_upload_id,
        protocol.SAMPLE: sample_upload_id,
    }
    found = {
        name: uploads.completed(upload_id=wanted, actor=actor)
        for name, wanted in given.items()
        if wanted is not None
    }
    with ExitStack() as opened:
        opened.enter_context(_turn())
        files = {
            name: opened.enter_context(artifacts.local_path(content_of(upload)))
            for name, upload in found.items()
        }
        detected = detect(files[protocol.SOURCE])
        if not detected.accepted:
            return _nothing(f"{detected.reason} {detected.hint}")
        module = protocol.ModuleSource(module_entry.strip(), dict(module_arguments or {}))
        result = sandbox.run(
            "propose",
            protocol.ProposeRequest(detected.format, module).to_json(),
            workdir=opened.enter_context(artifacts.scratch_folder("propose")),
            files=files | operator_libraries(),
            limits=limits_for(files, base=LIMITS),
        )
    if result.refusal is not None:
        return _nothing(f"{result.refusal.message} {result.refusal.hint}")
    try:
        return _believed(result.answer)
    except (AttributeError, KeyError, TypeError, ValueError):
        return _nothing(
            "What was found cannot be read: something in the model wrote it instead. Look at what "
            "the module's source does while it is built."
        )


@contextmanager
def _turn() -> Iterator[None]:
    """One of the few proposals that are worked on at once on this machine.

    A web process waits for its sandbox, and each sandbox may use gigabytes. The lock belongs to the
    open file, so the system lets it go with its process. Raises TooMany (`proposals_busy`).
    """
    folder: Path = settings.CONFIG.home / "proposing"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        for number in range(AT_ONCE):
            with (folder / str(number)).open("a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        if time.monotonic() > deadline:
            raise TooMany(
                f"{AT_ONCE} other files are being looked into at the moment.",
                code="proposals_busy",
                retry_after=10,
                hint="Try again in a moment, or describe the inputs by hand.",
            )
        time.sleep(0.1)


def _believed(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer in its form, cut to what a form can hold: a module's code may have written it."""
    found: dict[str, Any] = {
        "notes": [str(note)[:MAX_NOTE] for note in answer["notes"][:MAX_NOTES]]
    }
    for side in ("inputs", "outputs"):
        specs = [protocol.TensorSpec.from_json(one) for one in answer[side][:MAX_TENSORS]]
        for spec in specs:
            if spec.dtype not in tensors.DTYPES or len(spec.shape) != len(spec.dims):
                raise ValueError(f"{spec.name} is no tensor")
        found[side] = [spec.to_json() for spec in specs]
    if "beside" in answer:
        found["beside"] = [str(name)[:MAX_NOTE] for name in answer["beside"][:MAX_FILES]]
    return found


def _nothing(note: str) -> dict[str, Any]:
    return {"inputs": [], "outputs": [], "notes": [note.strip()]}
