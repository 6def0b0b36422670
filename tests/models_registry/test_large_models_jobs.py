"""An ONNX graph with its weights beside it, from the uploads to the signed release."""

from __future__ import annotations

import io
import shutil
import zipfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from console.errors import Invalid
from console.models import AuditEntry
from models_registry import tasks
from models_registry.adapters.bubblewrap import GIB
from models_registry.models import Artifact, ModelVersion, Upload, VersionFile, VersionState
from models_registry.rules import release_payload
from models_registry.services import (
    artifacts,
    exports,
    releases,
    sandbox_limits,
    sandboxed,
    source_files,
    versions,
)
from models_registry.services.release_checks import verify_release
from tests import factories
from tests.factories import actor
from tests.models_registry.api import Caller
from tests.models_registry.browsing import Visitor
from tests.models_registry.test_exporting_weights import parted

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/models/fraud_detector/versions/"


@pytest.fixture
def dana() -> Caller:
    return Caller(factories.people().dana)


@pytest.fixture
def files(tmp_path: Path) -> tuple[bytes, bytes]:
    """net.onnx and the weights.bin that it refers to."""
    source = parted(tmp_path / "up")
    return source.read_bytes(), source.with_name("weights.bin").read_bytes()


def test_several_uploads_become_one_signed_release(
    dana: Caller, files: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "INLINE_BYTES", 10_000)
    factories.make_model()
    graph, weights = files
    body = {
        "upload": dana.upload(graph, "net.onnx"),
        "data_uploads": [dana.upload(weights, "weights.bin")],
    }
    made = dana.post(URL, body)
    assert made.status_code == 201, made.content
    assert dana.post(URL, body).json()["number"] == 1
    other = {**body, "data_uploads": [dana.upload(weights + b"\0", "weights.bin")]}
    assert dana.post(URL, other).json()["number"] == 2

    version = ModelVersion.objects.get(number=1)
    entry = AuditEntry.objects.get(action="version.create", subject=str(version))
    weights_sha = artifacts.store_bytes(weights).sha256
    assert entry.after["beside"] == {"weights.bin": weights_sha}
    tasks.export_version(str(version.export_job_id))
    version.refresh_from_db()
    tasks.validate_version(str(version.validate_job_id))
    version.refresh_from_db()
    assert version.state == VersionState.VALIDATED, version.rejection
    assert version.onnx_data is not None
    assert version.facts["data_sha256"] == version.onnx_data.sha256

    shown = dana.get(f"{URL}1/").json()["files"]
    assert list(shown)[:2] == ["source", "data:weights.bin"]
    assert shown["data:weights.bin"]["sha256"] == weights_sha
    assert shown["onnx_data"]["sha256"] == version.onnx_data.sha256
    for name, filename in (("data:weights.bin", "weights.bin"), ("onnx_data", "model.onnx.data")):
        answer = dana.get(f"{URL}1/artifacts/{name}", accept="application/octet-stream")
        assert answer["Content-Disposition"] == f'attachment; filename="{filename}"'
        assert len(b"".join(answer.streaming_content)) == shown[name]["size"]

    # Nothing that a version refers to is garbage, however old.
    Upload.objects.all().delete()
    later = timezone.now() + timedelta(days=3)
    artifacts.collect_garbage(now=later)
    assert default_storage.exists(version.onnx_data.storage_key)
    assert Artifact.objects.filter(sha256=weights_sha).exists()

    release = releases.request_release(
        model=version.model,
        number=1,
        environment=factories.make_environment("staging"),
        actor=actor(factories.people().dana),
    )
    signed = release_payload.parse(bytes(release.payload)).digests
    assert signed.onnx_data == release.digests["onnx_data"] == version.onnx_data.sha256
    assert verify_release(release).onnx_data == version.onnx_data
    assert "ONNX weights" in Visitor(factories.people().sam).get(f"/releases/{release.pk}/")


def test_a_graph_alone_is_rejected_with_the_name_of_what_is_missing(
    dana: Caller, files: tuple[bytes, bytes]
) -> None:
    factories.make_model()
    dana.post(URL, {"upload": dana.upload(files[0], "net.onnx")})
    version = ModelVersion.objects.get()
    tasks.export_version(str(version.export_job_id))
    version.refresh_from_db()
    assert version.state == VersionState.REJECTED
    assert "weights.bin" in version.rejection
    job = dana.get(f"/jobs/{version.export_job_id}/").json()
    assert job["error"]["code"] == "external_data_missing"


@pytest.mark.parametrize(
    ("names", "main", "words"),
    [
        (["a.bin", "a.bin"], "onnx", "Two data files are called a.bin"),
        (["source"], "onnx", "cannot be called source"),
        (["operators"], "onnx", "cannot be called operators"),
        ([".hidden"], "onnx", "cannot be called .hidden"),
        (["a.bin"], "zip", "Only an .onnx file"),
        ([f"{number}.bin" for number in range(65)], "onnx", "at most 64"),
    ],
)
def test_data_files_that_cannot_lie_beside_a_graph_are_refused(
    files: tuple[bytes, bytes], names: list[str], main: str, words: str
) -> None:
    data = files[0] if main == "onnx" else _zip(files[0])
    uploads = [factories.make_upload(b"weights", name) for name in names]
    with pytest.raises(Invalid, match=words) as refused:
        versions.create_version(
            model=factories.make_model(),
            upload_id=factories.make_upload(data).pk,
            data_upload_ids=[upload.pk for upload in uploads],
            actor=actor(factories.people().dana),
        )
    assert refused.value.errors[0].pointer == source_files.POINTER
    assert not VersionFile.objects.exists()


def _zip(graph: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("net.onnx", graph)
    return buffer.getvalue()


def test_a_full_disk_is_told_with_figures_before_the_sandbox_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "weights"
    with weights.open("wb") as file:
        file.truncate(GIB)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(sandboxed.shutil, "disk_usage", lambda _: usage._replace(free=GIB))
    with pytest.raises(artifacts.DiskFull, match="3,288,334,336 bytes are needed and 1,073,741,8"):
        sandboxed.refuse_full_disk(tmp_path, {"source": weights})
    sandboxed.refuse_full_disk(tmp_path, {"source": Path(__file__)})


def test_a_sandbox_gets_room_for_the_model_and_not_the_machine(
    tmp_path: Path, settings: Any
) -> None:
    weights, small = tmp_path / "weights", tmp_path / "small"
    with weights.open("wb") as file:
        file.truncate(5 * GIB // 2)  # a hole: no disk is used
    small.write_bytes(b"\x08\x08")
    settings.CONFIG = _with_memory(settings.CONFIG, 100 * 1024)
    plain = sandbox_limits.limits_for({"source": small})
    assert (plain.memory_bytes, plain.wall_seconds) == (4 * GIB, 600.0)
    large = sandbox_limits.limits_for({"source": small, "beside/weights": weights})
    assert large.memory_bytes == pytest.approx(10.5 * GIB, rel=1e-6)
    assert (large.wall_seconds, large.file_bytes) == (1200.0, pytest.approx(5 * GIB))
    assert large.disk_bytes > 10 * GIB
    settings.CONFIG = _with_memory(settings.CONFIG, 2048)
    bounded = sandbox_limits.limits_for({"model.onnx": small, "model.onnx.data": weights})
    assert bounded.memory_bytes == 2 * GIB


def _with_memory(config: Any, mib: int) -> Any:
    return replace(config, sandbox_memory_mib=mib)
