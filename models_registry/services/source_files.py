"""Further files of a version's source: uploads under the names that the main file calls them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from console.actors import Actor
from console.errors import Conflict, FieldError, Invalid
from models_registry.adapters import formats
from models_registry.exporting import protocol
from models_registry.models import Artifact
from models_registry.services import uploads

MAX_FILES = 64
POINTER = "/data_uploads"


def check_number(data_upload_ids: Sequence[uuid.UUID], source_format: str) -> None:
    """Raise Invalid for more files than are taken, or with a source that names no other file."""
    if len(data_upload_ids) > MAX_FILES:
        raise _invalid(
            f"{len(data_upload_ids)} data files are given; at most {MAX_FILES} are taken.",
            "Save the model with one data file (onnx.save_model(…, all_tensors_to_one_file=True)), "
            "or upload a zip archive.",
        )
    if data_upload_ids and source_format != formats.ONNX:
        raise _invalid(
            "Only an .onnx file keeps its weights in other files; this one is something else.",
            "Leave the data files out, or upload the .onnx file that belongs to them.",
        )


def beside(data_upload_ids: Sequence[uuid.UUID], actor: Actor) -> dict[str, Artifact]:
    """The content of complete uploads by their file names, in the order of the names.

    Raises Invalid for a name that stands twice or that the sandbox uses itself; what
    `uploads.completed` raises.
    """
    found: dict[str, Artifact] = {}
    for upload_id in data_upload_ids:
        upload = uploads.completed(upload_id=upload_id, actor=actor)
        if upload.artifact is None:
            raise Conflict(f"{upload.filename} is not complete.", code="upload_incomplete")
        name = upload.filename
        if name in found:
            raise _invalid(
                f"Two data files are called {name}.",
                "The .onnx file refers to each by its name: upload each once.",
            )
        if name in protocol.OWN_FILES or name.startswith("."):
            raise _invalid(
                f"A data file cannot be called {name}.",
                "Save the model again with another location, such as model.onnx.data.",
            )
        found[name] = upload.artifact
    return dict(sorted(found.items()))


def _invalid(message: str, hint: str) -> Invalid:
    return Invalid(
        message, code="invalid_data_files", hint=hint, errors=(FieldError(POINTER, message),)
    )
