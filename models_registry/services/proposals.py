"""What a person is spared from typing: inputs and outputs, read from an upload in the sandbox."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from console.actors import Actor, require
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
