"""Versions: numbered under the lock, refused with the place of the fault, written once."""

from __future__ import annotations

import io
import threading
import uuid
import zipfile
from typing import Any

import pytest
from django.db import connections

from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound
from console.models import AuditEntry, Job
from models_registry.models import (
    ModelAlias,
    ModelVersion,
    RegisteredModel,
    Upload,
    UploadState,
    VersionState,
)
from models_registry.rules import versions as rules
from models_registry.services import versions
from models_registry.services.sandboxed import ended
from tests import factories
from tests.factories import People, actor

pytestmark = pytest.mark.django_db
ONNX = factories.tiny_onnx(0.75)
FEATURES = {"name": "features", "dtype": "float32", "dims": ["batch", 10]}


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def model() -> RegisteredModel:
    return factories.make_model()


def torch_zip(*names: str) -> bytes:
    """A file that looks like torch's own, as far as anybody looks before the sandbox."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(f"model/{name}", b"\x80\x02}q\x00.")
    return buffer.getvalue()


def create(model: RegisteredModel, people: People, data: bytes = ONNX, **fields: Any):
    upload = factories.make_upload(data)
    return versions.create_version(
        model=model, upload_id=upload.pk, actor=actor(people.dana), **fields
    )


def test_a_version_and_its_export_job_are_written_together(model, people) -> None:
    version, job = create(model, people, notes=" first try ", tuning={"max_batch_size": 16})
    assert (version.number, version.state, version.source_format) == (1, "uploaded", "onnx")
    assert (job.kind, job.queue, job.subject) == ("export", "export", "fraud_detector v1")
    assert job.arguments == {"version": version.pk}
    assert version.export_job == job
    assert version.notes == "first try"
    assert version.target == "24.10"  # the site's own, which is the default here
    assert AuditEntry.objects.filter(action="version.create", subject=str(version)).exists()
    second, _ = create(model, people)
    assert second.number == 2


def test_the_same_request_twice_is_one_version(model, people) -> None:
    upload = factories.make_upload(ONNX)
    who = actor(people.dana)
    first = versions.create_version(model=model, upload_id=upload.pk, actor=who)
    again = versions.create_version(model=model, upload_id=upload.pk, actor=who)
    assert again == first
    other = versions.create_version(model=model, upload_id=upload.pk, opset=15, actor=who)
    assert other[0].number == 2
    newer = versions.create_version(model=model, upload_id=upload.pk, target="25.03", actor=who)
    assert (newer[0].number, newer[0].target) == (3, "25.03")
    assert Job.objects.count() == 3


@pytest.mark.parametrize(
    ("data", "fields", "code", "pointer"),
    [
        (b"plain text, no model", {}, "text", "/upload"),
        (b"\x89PNG\r\n\x1a\n rest", {}, "png", "/upload"),
        (ONNX[: len(ONNX) * 3 // 5], {}, "onnx_damaged", "/upload"),
        (bytes(64), {}, "unknown", "/upload"),
        (ONNX, {"source_format": "torchscript"}, "format_mismatch", "/source_format"),
        (ONNX, {"source_format": "tensorflow"}, "unsupported_format", "/source_format"),
        (torch_zip("data.pkl", "data/0"), {}, "module_source_missing", "/code_upload"),
        (torch_zip("data.pkl", "code/x.py"), {}, "inputs_missing", "/inputs"),
        (
            torch_zip("data.pkl", "code/x.py"),
            {"inputs": [{**FEATURES, "name": "0"}]},
            "invalid_tensor",
            "/inputs/0/name",
        ),
        (ONNX, {"opset": 99}, "opset_too_new", "/opset"),
        (ONNX, {"opset": 5}, "opset_too_old", "/opset"),
        (ONNX, {"target": "31.01"}, "target_unknown", "/target"),
        (ONNX, {"target": "24.04", "opset": 21}, "opset_too_new", "/opset"),
        (ONNX, {"model_class": "quantum"}, "invalid_input", "/model_class"),
        (ONNX, {"inputs": [{**FEATURES, "dtype": "float3"}]}, "invalid_tensor", "/inputs/0/dtype"),
        (ONNX, {"inputs": [FEATURES, FEATURES]}, "invalid_tensor", "/inputs/1/name"),
        (ONNX, {"tuning": {"speed": 1}}, "invalid_tuning", "/tuning/speed"),
        (ONNX, {"tuning": {"max_batch_size": "8"}}, "invalid_tuning", "/tuning/max_batch_size"),
        (ONNX, {"tuning": {"instance_count": 0}}, "invalid_tuning", "/tuning/instance_count"),
        (ONNX, {"notes": "x" * 5000}, "invalid_input", "/notes"),
    ],
)
def test_what_cannot_become_a_version_leaves_nothing(
    model, people, data: bytes, fields: dict[str, Any], code: str, pointer: str
) -> None:
    with pytest.raises(Invalid) as refused:
        create(model, people, data, **fields)
    assert refused.value.code == code
    assert [error.pointer for error in refused.value.errors] == [pointer]
    assert not ModelVersion.objects.exists()
    assert not Job.objects.exists()
    model.refresh_from_db()
    assert model.last_version_number == 0


def test_content_that_is_not_taken_is_dropped_and_its_next_use_says_why(model, people) -> None:
    upload = factories.make_upload(
        b"\x80\x02cos\nsystem\nq\x00X\x02\x00\x00\x00idq\x01\x85q\x02Rq\x03."
    )
    who = actor(people.dana)
    with pytest.raises(Invalid) as refused:
        versions.create_version(model=model, upload_id=upload.pk, actor=who)
    assert refused.value.code == "unsafe_pickle"
    assert refused.value.hint
    upload.refresh_from_db()
    assert (upload.state, upload.artifact) == (UploadState.REFUSED, None)
    with pytest.raises(Invalid) as again:
        versions.create_version(model=model, upload_id=upload.pk, actor=who)
    assert again.value.code == "upload_refused"


def test_uploads_that_cannot_be_used(model, people) -> None:
    who = actor(people.dana)
    with pytest.raises(NotFound):
        versions.create_version(model=model, upload_id=uuid.uuid4(), actor=who)
    foreign = factories.make_upload(ONNX, owner=people.ada)
    with pytest.raises(NotFound):
        versions.create_version(model=model, upload_id=foreign.pk, actor=who)
    unfinished = factories.make_upload(ONNX)
    Upload.objects.filter(pk=unfinished.pk).update(state=UploadState.RECEIVING, artifact=None)
    with pytest.raises(Conflict) as refused:
        versions.create_version(model=model, upload_id=unfinished.pk, actor=who)
    assert refused.value.code == "upload_incomplete"


def test_a_state_dict_comes_with_its_source(model, people) -> None:
    code = factories.make_upload(b"class FraudNet: ...", "net.py")
    version, _ = create(
        model,
        people,
        torch_zip("data.pkl", "data/0"),
        code_upload_id=code.pk,
        inputs=[FEATURES],
        module_entry="net.py:FraudNet",
        module_arguments={"width": 4},
    )
    assert version.source_format == "torch_state_dict"
    assert version.code == code.artifact
    assert version.inputs == [
        {"name": "features", "dtype": "FP32", "shape": [-1, 10], "dims": ["batch", ""]}
    ]


def test_only_people_with_a_part_in_the_model_create_versions(model, people) -> None:
    otto = factories.make_user("otto", "data_scientist")
    upload = factories.make_upload(ONNX, owner=otto)
    for user in (otto, people.vic, people.sam):
        with pytest.raises(NotAllowed):
            versions.create_version(model=model, upload_id=upload.pk, actor=actor(user))


def test_archiving(model, people) -> None:
    version = factories.make_version(model)
    ModelAlias.objects.create(model=model, name="champion", version=version)
    who = actor(people.dana)
    released = factories.make_release(factories.make_version(model)).version
    with pytest.raises(Conflict) as refused:
        versions.archive_version(version=released, reason="", actor=who)
    assert refused.value.code == "version_released"
    busy = factories.make_version(model, state=VersionState.EXPORTING)
    with pytest.raises(Conflict) as illegal:
        versions.archive_version(version=busy, reason="", actor=who)
    assert illegal.value.code == "illegal_move"
    for _ in range(2):
        archived = versions.archive_version(version=version, reason="old", actor=who)
        assert archived.state == VersionState.ARCHIVED
    assert not ModelAlias.objects.exists()
    assert AuditEntry.objects.filter(action="version.archive").count() == 1


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("failed", "validation_failed", "rejected"),
        ("failed", "opset_too_new", "rejected"),
        ("failed", "disk_full", "uploaded"),
        ("failed", "sandbox_unavailable", "uploaded"),
        ("cancelled", "", "uploaded"),
        ("errored", "internal_error", "uploaded"),
    ],
)
def test_what_an_ending_means_for_the_version(state: str, code: str, expected: str) -> None:
    version = factories.make_version(state=VersionState.EXPORTING)
    job = Job(
        kind="export",
        state=state,
        error_code=code,
        error_message="It failed.",
        error_hint="Mend it.",
        arguments={"version": version.pk},
    )
    ended(job, during=VersionState.EXPORTING)
    version.refresh_from_db()
    assert version.state == expected
    assert version.rejection == ("It failed. Mend it." if expected == "rejected" else "")


def test_the_moves_of_a_version_are_these_and_no_others() -> None:
    legal = {
        ("draft", "uploaded"),
        ("uploaded", "exporting"),
        ("uploaded", "validating"),
        ("uploaded", "archived"),
        ("exporting", "validating"),
        ("exporting", "rejected"),
        ("exporting", "uploaded"),
        ("validating", "validated"),
        ("validating", "rejected"),
        ("validating", "uploaded"),
        ("validated", "archived"),
        ("rejected", "archived"),
    }
    states = VersionState.values
    for before in states:
        for after in states:
            assert rules.may_move(before, after) == ((before, after) in legal)


@pytest.mark.django_db(transaction=True)
def test_two_at_once_get_two_numbers() -> None:
    people = factories.people()
    model = factories.make_model()
    uploads = [factories.make_upload(factories.tiny_onnx(x)) for x in (0.1, 0.2)]
    barrier, numbers = threading.Barrier(2), []

    def run(upload: Upload) -> None:
        barrier.wait(timeout=10)
        try:
            version, _ = versions.create_version(
                model=model, upload_id=upload.pk, actor=actor(people.dana)
            )
            numbers.append(version.number)
        except CovenantError as error:
            numbers.append(error.code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(upload,)) for upload in uploads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert sorted(numbers) == [1, 2]
