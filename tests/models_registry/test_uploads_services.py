"""Uploads: what arrives is kept, what must not be kept is not."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.db import connections
from django.utils import timezone

from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound
from models_registry.models import Artifact, Upload, UploadState
from models_registry.services import artifacts, uploads
from models_registry.services.artifacts import DiskFull
from models_registry.services.upload_faults import (
    ChecksumMismatch,
    UploadBusy,
    UploadGone,
    UploadTooLarge,
    WrongOffset,
)
from models_registry.services.upload_files import (
    Checksum,
    append,
    upload_folder,
    upload_path,
    writing,
)
from tests import factories
from tests.factories import actor

pytestmark = pytest.mark.django_db
CONTENT = factories.tiny_onnx(0.25)


class Broken(io.BytesIO):
    """A sender that goes away after `good` bytes."""

    def __init__(self, data: bytes, good: int) -> None:
        super().__init__(data[:good])

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        if not piece:
            raise ConnectionResetError("the client went away")
        return piece


@pytest.fixture
def dana():
    return actor(factories.people().dana)


def create(dana, content: bytes = CONTENT, **fields) -> Upload:
    return uploads.create_upload(
        **{"filename": "model.onnx", "length": len(content), **fields}, actor=dana
    )


def send(dana, upload: Upload, data: bytes, offset: int = 0, **fields) -> Upload:
    return uploads.receive(
        upload_id=upload.pk, offset=offset, source=io.BytesIO(data), actor=dana, **fields
    )


def checksum(data: bytes, algorithm: str = "sha256") -> Checksum:
    return Checksum(algorithm, hashlib.new(algorithm, data).digest())


def test_a_file_in_two_chunks_is_stored_under_its_digest(dana) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    upload = create(dana, sha256=digest.upper())
    send(dana, upload, CONTENT[:100], checksum=checksum(CONTENT[:100], "sha1"))
    assert upload_path(upload.pk).stat().st_size == 100
    done = send(dana, upload, CONTENT[100:], 100, checksum=checksum(CONTENT[100:]))
    assert (done.state, done.offset, done.detected_format) == ("complete", len(CONTENT), "onnx")
    assert done.artifact is not None
    assert done.artifact.sha256 == digest
    assert Path(default_storage.path(done.artifact.storage_key)).read_bytes() == CONTENT
    assert not upload_path(upload.pk).exists()
    assert uploads.completed(upload_id=upload.pk, actor=dana).artifact == done.artifact


def test_a_broken_connection_keeps_what_arrived(dana) -> None:
    upload = create(dana)
    broken = Broken(CONTENT, 60)
    uploads.receive(upload_id=upload.pk, offset=0, source=broken, actor=dana)
    assert uploads.find_upload(upload_id=upload.pk, actor=dana).offset == 60
    assert send(dana, upload, CONTENT[60:], 60).state == UploadState.COMPLETE


def test_a_broken_connection_with_a_checksum_keeps_nothing(dana) -> None:
    upload = create(dana)
    with pytest.raises(ChecksumMismatch):
        uploads.receive(
            upload_id=upload.pk,
            offset=0,
            source=Broken(CONTENT, 60),
            actor=dana,
            checksum=checksum(CONTENT),
        )
    assert uploads.find_upload(upload_id=upload.pk, actor=dana).offset == 0


def test_the_file_is_the_truth_about_the_offset(dana) -> None:
    upload = create(dana)
    send(dana, upload, CONTENT[:10])
    # A process that was killed while it wrote has stored bytes that the row knows nothing of.
    with upload_path(upload.pk).open("ab") as file:
        file.write(CONTENT[10:30])
    assert uploads.find_upload(upload_id=upload.pk, actor=dana).offset == 30
    assert send(dana, upload, CONTENT[30:], 30).state == UploadState.COMPLETE


def test_an_upload_whose_process_died_before_the_last_check_is_completed_at_use(dana) -> None:
    upload = create(dana)
    upload_path(upload.pk).write_bytes(CONTENT)
    done = uploads.completed(upload_id=upload.pk, actor=dana)
    assert done.state == UploadState.COMPLETE
    assert done.artifact is not None


def test_refused_chunks_leave_the_upload_as_it_was(dana) -> None:
    upload = create(dana)
    send(dana, upload, CONTENT[:50])
    with pytest.raises(WrongOffset) as wrong:
        send(dana, upload, CONTENT[40:], 40)
    assert "50" in wrong.value.message
    with pytest.raises(ChecksumMismatch) as spoilt:
        send(dana, upload, CONTENT[50:], 50, checksum=checksum(b"other"))
    assert spoilt.value.status == 460
    with pytest.raises(Invalid) as beyond:
        send(dana, upload, CONTENT[50:] + b"more", 50)
    assert beyond.value.code == "beyond_length"
    assert uploads.find_upload(upload_id=upload.pk, actor=dana).offset == 50
    assert upload_path(upload.pk).read_bytes() == CONTENT[:50]


def test_a_file_that_is_not_what_was_announced_is_refused_and_removed(dana) -> None:
    upload = create(dana, sha256="0" * 64)
    with pytest.raises(Invalid) as refused:
        send(dana, upload, CONTENT)
    assert refused.value.code == "digest_mismatch"
    with pytest.raises(Invalid) as later:
        uploads.completed(upload_id=upload.pk, actor=dana)
    assert later.value.code == "upload_refused"
    assert not upload_path(upload.pk).exists()
    assert not Artifact.objects.exists()


def test_an_incomplete_upload_cannot_be_used(dana) -> None:
    upload = create(dana)
    send(dana, upload, CONTENT[:5])
    with pytest.raises(Conflict) as refused:
        uploads.completed(upload_id=upload.pk, actor=dana)
    assert refused.value.code == "upload_incomplete"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"length": 0}, "empty_file"),
        ({"length": 65 * 1024**3}, "upload_too_large"),
        ({"sha256": "abc"}, "bad_sha256"),
        ({"filename": ""}, "bad_filename"),
        ({"filename": "x" * 300 + ".pt"}, "bad_filename"),
        ({"filename": "a\x00b.pt"}, "bad_filename"),
        ({"filename": "report\u202exnno.exe"}, "bad_filename"),
        ({"filename": "../.."}, "bad_filename"),
    ],
)
def test_bad_announcements_are_refused(dana, fields, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        create(dana, **fields)
    assert refused.value.code == code
    assert not Upload.objects.exists()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("C:\\fakepath\\model.pt", "model.pt"),
        ("../../etc/passwd", "passwd"),
        ("模型 ñ 🚀.onnx", "模型 ñ 🚀.onnx"),
        ("x" * 255, "x" * 255),
    ],
)
def test_file_names_never_become_paths(dana, given: str, kept: str) -> None:
    upload = create(dana, filename=given)
    assert upload.filename == kept
    assert upload_path(upload.pk).parent == upload_folder()


def test_more_than_the_disk_has_is_refused_with_the_space_needed(dana, settings) -> None:
    settings.MAX_UPLOAD_BYTES = 2**62
    with pytest.raises(DiskFull) as refused:
        create(dana, length=2**60)
    assert refused.value.status == 507
    assert f"{2**60:,} bytes are needed" in refused.value.message
    assert not Upload.objects.exists()


def test_a_disk_that_fills_up_on_the_way_keeps_no_part_of_the_chunk(dana, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if os.system(f"mount -t tmpfs -o size=256k tmpfs {small} 2>/dev/null") != 0:
        pytest.skip("a small file system can only be mounted by root")
    try:
        path = small / "upload"
        path.write_bytes(b"kept")
        length = 1024**2
        with writing(path, "big.pt") as file, pytest.raises(DiskFull) as refused:
            append(file, "big.pt", length, 4, io.BytesIO(bytes(length - 4)), None)
        assert path.read_bytes() == b"kept"
        assert "bytes are needed" in refused.value.message
    finally:
        os.system(f"umount {small}")


def test_uploads_are_their_owners_own(dana) -> None:
    upload = create(dana)
    other = actor(factories.make_user("otto", "data_scientist"))
    acts = [
        lambda: send(other, upload, CONTENT),
        lambda: uploads.find_upload(upload_id=upload.pk, actor=other),
        lambda: uploads.completed(upload_id=upload.pk, actor=other),
        lambda: uploads.terminate_upload(upload_id=upload.pk, actor=other),
    ]
    for act in acts:
        with pytest.raises(NotFound):
            act()
    assert Upload.objects.count() == 1


def test_a_complete_upload_takes_no_more(dana) -> None:
    upload = create(dana)
    send(dana, upload, CONTENT)
    with pytest.raises(WrongOffset):
        send(dana, upload, b"more", len(CONTENT))
    assert uploads.completed(upload_id=upload.pk, actor=dana).state == UploadState.COMPLETE


def test_terminating_removes_row_and_bytes(dana) -> None:
    upload = create(dana)
    send(dana, upload, CONTENT[:10])
    path = upload_path(upload.pk)
    uploads.terminate_upload(upload_id=upload.pk, actor=dana)
    assert not path.exists()
    with pytest.raises(NotFound):
        uploads.find_upload(upload_id=upload.pk, actor=dana)


def test_expired_uploads_go_with_their_bytes_and_living_ones_stay(dana) -> None:
    old, fresh = create(dana), create(dana)
    send(dana, old, CONTENT[:10])
    send(dana, fresh, CONTENT[:10])
    old_path = upload_path(old.pk)
    Upload.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(UploadGone):
        uploads.find_upload(upload_id=old.pk, actor=dana)
    assert uploads.expire_uploads(now=timezone.now()) == 1
    assert not old_path.exists()
    assert send(dana, fresh, CONTENT[10:], 10).state == UploadState.COMPLETE


def test_bytes_that_no_row_knows_go_after_a_day() -> None:
    stray = upload_folder() / "11111111-1111-1111-1111-111111111111"
    stray.write_bytes(b"left behind")
    uploads.expire_uploads(now=timezone.now())
    assert stray.exists()
    uploads.expire_uploads(now=timezone.now() + timedelta(days=2))
    assert not stray.exists()


def test_only_one_request_writes_at_a_time(dana) -> None:
    upload = create(dana)
    path = upload_path(upload.pk)
    with (
        writing(path, "model.onnx"),
        pytest.raises(UploadBusy) as busy,
        writing(path, "model.onnx", wait=0.1),
    ):
        pytest.fail("two writers")
    assert busy.value.status == 423


def test_viewers_cannot_upload() -> None:
    with pytest.raises(NotAllowed):
        create(actor(factories.people().vic))


@pytest.mark.parametrize("header", ["", "md5 abc=", "sha256", "sha256 ?", "sha256 "])
def test_checksum_headers_that_are_not_understood(header: str) -> None:
    with pytest.raises(Invalid):
        Checksum.parse(header)
    good = base64.b64encode(hashlib.sha1(b"x").digest()).decode()
    assert Checksum.parse(f"sha1 {good}").algorithm == "sha1"


def test_garbage_goes_after_a_day_and_what_is_referred_to_stays(dana) -> None:
    upload = create(dana)
    kept = send(dana, upload, CONTENT).artifact
    stray = artifacts.store_bytes(b"nothing refers to this")
    assert kept is not None
    later = timezone.now() + timedelta(days=1, minutes=1)
    assert artifacts.collect_garbage() == 0
    assert artifacts.collect_garbage(now=later) == 1
    assert not default_storage.exists(stray.storage_key)
    assert artifacts.read_bytes(kept) == CONTENT
    # The same content again is simply stored again.
    assert artifacts.read_bytes(artifacts.store_bytes(b"nothing refers to this"))


def test_content_lost_from_the_storage_is_written_again_when_it_comes_again() -> None:
    first = artifacts.store_bytes(b"lost and found")
    Path(default_storage.path(first.storage_key)).unlink()
    with pytest.raises(CovenantError) as missing:
        artifacts.read_bytes(first)
    assert missing.value.code == "artifact_missing"
    again = artifacts.store_bytes(b"lost and found")
    assert again == first
    assert artifacts.read_bytes(again) == b"lost and found"


def test_too_large_says_the_limit(dana, settings) -> None:
    settings.MAX_UPLOAD_BYTES = 10
    with pytest.raises(UploadTooLarge) as refused:
        create(dana, length=11)
    assert refused.value.status == 413


@pytest.mark.django_db(transaction=True)
def test_two_senders_of_one_chunk_store_it_once() -> None:
    dana = actor(factories.people().dana)
    upload = create(dana)
    barrier, outcomes = threading.Barrier(2), []

    def run() -> None:
        barrier.wait(timeout=10)
        try:
            outcomes.append(send(dana, upload, CONTENT).state)
        except CovenantError as error:
            outcomes.append(error.code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert sorted(outcomes) == ["complete", "wrong_offset"]
    done = uploads.completed(upload_id=upload.pk, actor=dana)
    assert done.artifact is not None
    assert artifacts.read_bytes(done.artifact) == CONTENT
