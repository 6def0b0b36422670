"""A new version: the upload, what can be read from it, and what a person has to add."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.actors import Actor, require
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, FieldError
from console.models import User
from models_registry.adapters import formats
from models_registry.forms import VersionForm
from models_registry.models import ModelVersion, RegisteredModel, Upload, VersionState
from models_registry.rules import tensors
from models_registry.selectors.catalog import find_model
from models_registry.selectors.versions import find_version, version_list
from models_registry.services.proposals import propose_inputs
from models_registry.services.uploads import completed
from models_registry.services.version_requests import is_taken
from models_registry.services.versions import create_version
from models_registry.views.refusals import REFUSED
from models_registry.views.tensor_rows import (
    TensorRow,
    rows_from,
    rows_of,
    with_faults,
    with_ranges,
)
from models_registry.views.version_words import FORMAT_WORDS


@require_http_methods(["GET", "POST"])
def create(request: HttpRequest, name: str) -> HttpResponse:
    """The form, and the version that it makes."""
    model, actor = find_model(name, user=user_of(request)), actor_of(request)
    require(actor, "version.create", model.team_id)
    before = _before(name, request.GET.get("from", ""), actor.user)
    form = VersionForm(request.POST or None, initial=_asked_of(before) if before else None)
    if not form.is_bound:
        begun = {"inputs": rows_of(before.inputs)} if before else None
        return _page(request, model, form, status=200, described=begun)
    inputs, outputs = rows_from(request.POST, "input"), rows_from(request.POST, "output")
    fault = None
    if form.is_valid():
        try:
            version, _job = create_version(
                model=model, **_arguments(form, inputs, outputs), actor=actor
            )
        except REFUSED as error:
            fault = error
            form.add_refusal(error)
        else:
            messages.success(request, _("%(version)s is being exported.") % {"version": version})
            return redirect("models_registry:version-detail", name, version.number)
    errors = fault.errors if fault else ()
    again: dict[str, Any] = {
        **_described(form, actor),
        "data_files": _data_files(form, actor),
        "inputs": with_faults(inputs, errors, "inputs"),
        "outputs": with_faults(outputs, errors, "outputs"),
        "inputs_fault": _whole(errors, "/inputs"),
        "outputs_fault": _whole(errors, "/outputs"),
    }
    return _page(request, model, form, status=422, described=again)


@require_POST
def inspect(request: HttpRequest, name: str) -> HttpResponse:
    """What the uploaded file says of itself; the part of the form that depends on it."""
    model, actor = find_model(name, user=user_of(request)), actor_of(request)
    require(actor, "upload.create")
    form = VersionForm(request.POST)
    form.is_valid()  # what is wrong is said when the version is created
    given = form.cleaned_data
    typed = rows_from(request.POST, "input")
    context: dict[str, Any] = {"model": model, **_fixed(), "inputs": typed}
    if given.get("upload") is None:
        if request.POST.get("upload"):
            context["problem"] = {"message": _("Upload the file again.")}
        return render(request, "models_registry/versions/_described.html", context)
    try:
        upload = completed(upload_id=given["upload"], actor=actor)
        found = propose_inputs(
            upload_id=upload.pk,
            code_upload_id=given.get("code_upload"),
            sample_upload_id=given.get("sample"),
            module_entry=given.get("module_entry", ""),
            module_arguments=given.get("module_arguments"),
            actor=actor,
        )
    except CovenantError as error:
        context["problem"] = error
    else:
        context |= {**_of_file(upload), "inspected": True, "notes": found["notes"]}
        context["code_missing"] = context["needs_code"] and given.get("code_upload") is None
        proposed = with_ranges(rows_of(found["inputs"]), typed)
        context["inputs"] = proposed or typed or _as_before(model, actor.user) or [TensorRow()]
        context["outputs"] = rows_of(found["outputs"])
        context["proposed"] = bool(proposed)
        context["beside"] = found.get("beside", [])
    return render(request, "models_registry/versions/_described.html", context)


def _before(name: str, asked: str, user: User) -> ModelVersion | None:
    """The version whose description the form begins with."""
    if not (asked.isdecimal() and len(asked) < 9):
        return None
    return find_version(name, int(asked), user=user)


def _asked_of(version: ModelVersion) -> dict[str, Any]:
    sizes = version.tuning.get("preferred_batch_sizes")
    return {
        "opset": version.opset,
        "target": version.target,
        "model_class": version.model_class,
        "module_entry": version.module_entry,
        "module_arguments": json.dumps(version.module_arguments)
        if version.module_arguments
        else "",
        "notes": version.notes,
        **version.tuning,
        **({"preferred_batch_sizes": ", ".join(map(str, sizes))} if sizes else {}),
    }


def _arguments(
    form: VersionForm, inputs: list[TensorRow], outputs: list[TensorRow]
) -> dict[str, Any]:
    given = form.cleaned_data
    return {
        "upload_id": given["upload"],
        "data_upload_ids": given["data_uploads"],
        "source_format": given["source_format"],
        "inputs": [row.document() for row in inputs],
        "outputs": [row.document() for row in outputs],
        "opset": given["opset"],
        "target": given["target"],
        "model_class": given["model_class"],
        "code_upload_id": given["code_upload"],
        "sample": given["sample"],
        "module_entry": given["module_entry"],
        "module_arguments": given["module_arguments"],
        "tuning": form.tuning(),
        "notes": given["notes"],
    }


def _page(
    request: HttpRequest,
    model: RegisteredModel,
    form: VersionForm,
    *,
    status: int,
    described: dict[str, Any] | None = None,
) -> HttpResponse:
    context = {"form": form, "model": model, **_fixed(), **(described or {})}
    return render(request, "models_registry/versions/create.html", context, status=status)


def _fixed() -> dict[str, Any]:
    return {"dtypes": list(tensors.DTYPES), "uploads_url": reverse("api:upload-list")}


def _described(form: VersionForm, actor: Actor) -> dict[str, Any]:
    """The file that the form names, when it is still there."""
    upload_id = form.cleaned_data.get("upload") if hasattr(form, "cleaned_data") else None
    if upload_id is None:
        return {}
    try:
        return _of_file(completed(upload_id=upload_id, actor=actor))
    except CovenantError as error:
        return {"problem": error}


def _data_files(form: VersionForm, actor: Actor) -> list[Upload]:
    """The files beside the model's that the form names, as far as they are still there."""
    found = []
    for given in dict.fromkeys(form["data_uploads"].value() or ()):
        try:
            found.append(completed(upload_id=uuid.UUID(given), actor=actor))
        except (CovenantError, ValueError):
            continue
    return found


def _of_file(upload: Upload) -> dict[str, Any]:
    detected = upload.detected_format
    return {
        "upload": upload,
        "detected": FORMAT_WORDS.get(detected, detected),
        "accepted": is_taken(detected),
        "needs_code": detected in formats.NEEDS_CODE or detected == formats.TORCH_PICKLED_MODULE,
    }


def _as_before(model: RegisteredModel, user: User) -> list[TensorRow]:
    """The inputs of the newest validated version: the next one mostly has the same."""
    validated = version_list(model.name, user=user, state=VersionState.VALIDATED)
    before = validated.order_by("-number").first()
    return rows_of(before.inputs) if before else []


def _whole(errors: tuple[FieldError, ...], pointer: str) -> str:
    return next((error.detail for error in errors if error.pointer == pointer), "")
