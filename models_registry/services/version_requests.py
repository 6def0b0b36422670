"""What a person asks of a new version, checked before anything is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from django.conf import settings

from console.errors import FieldError, Invalid
from models_registry.adapters import formats
from models_registry.exporting.protocol import TensorSpec
from models_registry.models import ModelClass
from models_registry.rules import opsets, tensors, tuning

SYNONYMS: Mapping[str, str] = {
    "pt2": formats.TORCH_EXPORT,
    "state_dict": formats.TORCH_STATE_DICT,
    "zip": formats.ONNX_ARCHIVE,
}
NAMES_ITS_INPUTS = formats.NAMES_ITS_INPUTS
MAX_NOTES = 4000
MAX_DOCUMENT_BYTES = 1024**2


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """A checked request; `tuning` holds only what was set by hand."""

    source_format: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    opset: int
    target: str
    model_class: str
    module_entry: str
    module_arguments: dict[str, Any]
    tuning: dict[str, Any]
    notes: str

    def fingerprint(self, *parts: str) -> str:
        """Hex that is the same for the same request (and `parts`), so that it has one effect."""
        body = [
            self.source_format, self.opset, self.target, self.model_class, self.module_entry,
            self.module_arguments, self.tuning, self.notes,
            [spec.to_json() for spec in (*self.inputs, *self.outputs)], list(parts),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def check_request(
    *,
    source_format: str,
    inputs: Sequence[Mapping[str, Any]],
    outputs: Sequence[Mapping[str, Any]],
    opset: int,
    target: str,
    model_class: str,
    module_entry: str,
    module_arguments: Mapping[str, Any] | None,
    chosen: Mapping[str, Any] | None,
    notes: str,
) -> VersionRequest:
    """Everything that can be told without the file. Raises Invalid with pointers.

    An empty `target` is the site's own (COVENANT_TRITON_RELEASE).
    """
    if model_class not in ModelClass.values:
        raise _invalid(
            "/model_class",
            f"There is no model class {model_class}.",
            "Use one of " + ", ".join(ModelClass.values) + ".",
        )
    wanted = target.strip() or default_target()
    if wanted not in opsets.TRITON:
        raise _invalid(
            "/target",
            f"Triton release “{wanted[:40]}” is not in the table of what each release loads.",
            f"Choose one of {', '.join(opsets.TRITON)}.",
            code="target_unknown",
        )
    if refusal := opsets.refusal(wanted, {"": opset}, 0):
        raise _invalid("/opset", refusal.message, refusal.hint, code=refusal.code)
    if len(notes) > MAX_NOTES:
        raise _invalid("/notes", f"The notes are longer than {MAX_NOTES} characters.", "")
    arguments = dict(module_arguments or {})
    if len(json.dumps(arguments)) > MAX_DOCUMENT_BYTES:
        raise _invalid("/module_arguments", "The module's arguments are larger than 1 MiB.", "")
    asked = SYNONYMS.get(source_format.strip().lower(), source_format.strip().lower())
    if asked and not is_taken(asked):
        raise _invalid(
            "/source_format",
            f"The format {source_format[:40]} is not taken.",
            "Formats are " + ", ".join(sorted(formats.ACCEPTED)) + ", or leave it out.",
            code="unsupported_format",
        )
    checked_inputs = parse_tensors(inputs, "/inputs")
    return VersionRequest(
        source_format=asked,
        inputs=checked_inputs,
        outputs=parse_tensors(outputs, "/outputs"),
        opset=opset,
        target=wanted,
        model_class=model_class,
        module_entry=module_entry.strip()[:200],
        module_arguments=arguments,
        tuning=_tuning(chosen or {}, checked_inputs, model_class),
        notes=notes.strip(),
    )


def default_target() -> str:
    """The Triton release that the site's nodes run, unless a version names another."""
    return str(settings.CONFIG.triton_release)


def detect(path: Path) -> formats.Detected:
    """What a file is, by its content; a pickled module is taken where the site allows it."""
    detected = formats.sniff(path)
    if detected.format == formats.TORCH_PICKLED_MODULE and settings.CONFIG.allow_pickled_modules:
        return replace(detected, accepted=True, needs_code=True)
    return detected


def is_taken(detected: str) -> bool:
    """Whether files of a format become versions on this site."""
    allowed = settings.CONFIG.allow_pickled_modules
    return detected in formats.ACCEPTED or (detected == formats.TORCH_PICKLED_MODULE and allowed)


def check_content(request: VersionRequest, detected: formats.Detected, *, has_code: bool) -> str:
    """The format, once the content is known. Raises Invalid when the two do not go together."""
    if not detected.accepted:
        raise _invalid("/upload", detected.reason, detected.hint, code=detected.format)
    if request.source_format and request.source_format != detected.format:
        raise _invalid(
            "/source_format",
            f"The file was announced as {request.source_format}, but its content is "
            f"{detected.label}.",
            "Leave the format out, or upload the file that was meant.",
            code="format_mismatch",
        )
    if detected.needs_code and not has_code:
        raise _invalid(
            "/code_upload",
            f"The source of the module is missing: a {detected.label} file cannot be opened "
            "without it.",
            "Upload the module's .py file (or a zip of its package) as well and name the class, "
            "for example net.py:FraudNet.",
            code="module_source_missing",
        )
    if not request.inputs and detected.format not in NAMES_ITS_INPUTS:
        raise _invalid(
            "/inputs",
            f"A {detected.label} file does not say what its inputs are.",
            'Describe each one, for example {"name": "features", "dtype": "FP32", '
            '"dims": ["batch", 10]}.',
            code="inputs_missing",
        )
    if detected.format not in NAMES_ITS_INPUTS:
        _check_names_for_export(request)
    return detected.format


def _check_names_for_export(request: VersionRequest) -> None:
    """PyTorch's exporters keep names of digits alone for values that have none."""
    for place, specs in (("inputs", request.inputs), ("outputs", request.outputs)):
        for index, spec in enumerate(specs):
            if spec.name.isdecimal():
                raise _invalid(
                    f"/{place}/{index}/name",
                    f"The name {spec.name} is a number: no exported graph can have it.",
                    "Give it a name with a letter, for example features.",
                    code="invalid_tensor",
                )


def parse_tensors(documents: Sequence[Mapping[str, Any]], pointer: str) -> tuple[TensorSpec, ...]:
    """`rules.tensors.parse` with its fault as an Invalid."""
    try:
        return tensors.parse(documents, pointer=pointer)
    except tensors.SpecError as error:
        raise _invalid(
            error.pointer,
            f"{error.pointer} cannot be used: {error.detail}.",
            "Each tensor has a name, a dtype such as FP32, and dims such as [batch, 10].",
            code="invalid_tensor",
        ) from error


def tuning_choice(chosen: Mapping[str, Any]) -> tuning.TuningChoice:
    """What was set by hand as the rule's own type; `chosen` has been checked before."""
    sizes = chosen.get("preferred_batch_sizes")
    return tuning.TuningChoice(
        **{**chosen, "preferred_batch_sizes": tuple(sizes) if sizes is not None else None}
    )


def _tuning(
    chosen: Mapping[str, Any], inputs: tuple[TensorSpec, ...], model_class: str
) -> dict[str, Any]:
    given = {name: value for name, value in chosen.items() if value is not None}
    faults = []
    known = {field.name for field in fields(tuning.TuningChoice)}
    for name, value in given.items():
        if name not in known:
            faults.append(FieldError(f"/tuning/{name}", "is not a setting"))
        elif name in ("response_cache", "warmup"):
            if not isinstance(value, bool):
                faults.append(FieldError(f"/tuning/{name}", "is not true or false"))
        elif name == "preferred_batch_sizes":
            if not isinstance(value, list) or not all(_is_whole(size) for size in value):
                faults.append(FieldError(f"/tuning/{name}", "is not a list of whole numbers"))
        elif not _is_whole(value):
            faults.append(FieldError(f"/tuning/{name}", "is not a whole number"))
    if faults:
        raise Invalid(
            f"The tuning cannot be used: {faults[0].pointer} {faults[0].detail}.",
            code="invalid_tuning",
            hint="Settings are " + ", ".join(sorted(known)) + ".",
            errors=tuple(faults),
        )
    # Whether the graph can be batched is known after the export; until then it is believed.
    first = inputs[0].dims[:1] if inputs else ()
    dims = ("batch", 1) if not inputs or (first and first[0] in tuning.BATCH_NAMES) else (1,)
    probe = (tuning.Tensor("input", "FP32", dims),)
    facts = tuning.TuningFacts("probe", probe, probe, model_class)
    try:
        tuning.plan(facts, tuning_choice(given))
    except Invalid as error:
        inner = tuple(FieldError(f"/tuning{e.pointer}", e.detail) for e in error.errors)
        raise Invalid(error.message, code=error.code, hint=error.hint, errors=inner) from error
    return given


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _invalid(pointer: str, message: str, hint: str, *, code: str = "invalid_input") -> Invalid:
    return Invalid(message, code=code, hint=hint, errors=(FieldError(pointer, message),))
