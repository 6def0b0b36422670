"""Whole versions appear and disappear in a model repository, whatever interrupts."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from console.errors import Conflict, Invalid, Unavailable
from deployments.adapters import repository
from deployments.adapters.repository import FilePart, Placed, PresentVersion

CONFIG = FilePart.of_bytes("config.pbtxt", b'name: "fraud_detector"\n')
WARMUP = FilePart.of_bytes("warmup/features", b"\x00" * 40)
MODEL = FilePart.of_bytes("model.onnx", b"weights of version one" * 1000)
OTHER = FilePart.of_bytes("model.onnx", b"weights of version two" * 1000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "repository"


def place(root: Path, version: int = 1, model: FilePart = MODEL, **kwargs: object) -> Placed:
    given = {"config": [CONFIG, WARMUP], "triton_model": "fraud_detector", **kwargs}
    return repository.place(root, version=version, files=[model], **given)  # type: ignore[arg-type]


def tree(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}


def staged(root: Path) -> list[Path]:
    folder = root.parent / repository.STAGING
    return list(folder.iterdir()) if folder.exists() else []


def test_a_new_model_appears_whole(root: Path) -> None:
    assert place(root) == Placed(created_model=True, created_version=True)
    assert tree(root / "fraud_detector") == {"config.pbtxt", "warmup/features", "1/model.onnx"}
    assert repository.config_text(root, "fraud_detector") == 'name: "fraud_detector"\n'
    assert repository.present(root) == (PresentVersion("fraud_detector", 1),)
    assert staged(root) == []


def test_placing_again_changes_nothing(root: Path) -> None:
    place(root)
    before = (root / "fraud_detector/1/model.onnx").stat()
    assert place(root) == Placed(created_model=False, created_version=False)
    assert (root / "fraud_detector/1/model.onnx").stat() == before


def test_the_config_of_a_model_that_is_there_is_left_alone(root: Path) -> None:
    place(root)
    before = (root / "fraud_detector/config.pbtxt").stat()
    assert place(root, version=2, model=OTHER) == Placed(False, True)
    assert (root / "fraud_detector/config.pbtxt").stat() == before
    assert [found.version for found in repository.present(root)] == [1, 2]
    changed = FilePart.of_bytes("config.pbtxt", b'name: "fraud_detector" max_batch_size: 4\n')
    with pytest.raises(Conflict) as caught:
        place(root, version=3, config=[changed])
    assert caught.value.code == "config_differs"
    assert (root / "fraud_detector/config.pbtxt").stat() == before
    assert not (root / "fraud_detector/3").exists()


def test_a_file_that_is_not_what_was_signed_never_appears(root: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "model.onnx"
    damaged.write_bytes(b"damaged")
    signed = hashlib.sha256(b"as signed").hexdigest()
    with pytest.raises(Invalid) as caught:
        place(root, model=FilePart("model.onnx", damaged, signed, 7))
    assert caught.value.code == "digest_mismatch"
    assert tree(root) == set()
    assert staged(root) == []


def test_a_version_that_holds_other_files_is_refused(root: Path) -> None:
    place(root)
    with pytest.raises(Conflict) as caught:
        place(root, model=OTHER)
    assert caught.value.code == "files_differ"
    (root / "fraud_detector/1/extra.bin").write_bytes(b"by hand")
    with pytest.raises(Conflict, match=r"extra\.bin does not belong there"):
        place(root)


def test_a_full_disk_is_told_with_the_space_needed(root: Path) -> None:
    huge = FilePart("model.onnx", b"", "0" * 64, 1 << 60)
    with pytest.raises(Unavailable, match=r"1,099,511,627,840 MiB are needed") as caught:
        place(root, model=huge)
    assert caught.value.code == "disk_full"
    assert not caught.value.retryable
    assert tree(root) == set()


def test_a_cancelled_placement_leaves_nothing(root: Path) -> None:
    def cancel(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place(root, progress=cancel)
    assert tree(root) == set()
    assert staged(root) == []


def test_progress_counts_every_byte(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    place(root, progress=lambda done, total: seen.append((done, total)))
    total = CONFIG.size + WARMUP.size + MODEL.size
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_two_attempts_at_once_place_one_version(root: Path) -> None:
    start = threading.Barrier(4)
    results: list[Placed] = []

    def attempt() -> None:
        start.wait(5)
        results.append(place(root))

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sum(result.created_version for result in results) == 1
    assert len(results) == 4
    assert staged(root) == []
    repository.verify(root, "fraud_detector", 1, [MODEL])


def test_a_version_set_aside_can_come_back_or_go(root: Path) -> None:
    place(root)
    place(root, version=2, model=OTHER)
    aside = repository.set_aside(root, "fraud_detector", 1)
    assert aside is not None
    assert [found.version for found in repository.present(root)] == [2]
    repository.put_back(aside)
    repository.verify(root, "fraud_detector", 1, [MODEL])
    assert repository.remove_version(root, "fraud_detector", 1)
    assert not repository.remove_version(root, "fraud_detector", 1)
    assert staged(root) == []


def test_a_model_goes_only_without_versions(root: Path) -> None:
    place(root)
    with pytest.raises(Conflict) as caught:
        repository.remove_model(root, "fraud_detector")
    assert caught.value.code == "versions_present"
    repository.remove_version(root, "fraud_detector", 1)
    assert repository.remove_model(root, "fraud_detector")
    assert not repository.remove_model(root, "fraud_detector")
    assert list(root.iterdir()) == []


def test_old_leftovers_are_cleaned_and_young_ones_kept(root: Path) -> None:
    place(root)
    old, young = root.parent / "staging/old", root.parent / "staging/young"
    for folder in (old, young):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"half")
    os.utime(old, (1000, 1000))
    os.utime(young, (5000, 5000))
    assert repository.clean(root, older_than_s=600, now=5100) == 1
    assert staged(root) == [young]


@pytest.mark.parametrize("path", ["../evil", "/etc/passwd", "a/../../b", "..\\b", ""])
def test_no_path_leads_out(root: Path, path: str) -> None:
    with pytest.raises(Invalid) as caught:
        place(root, model=FilePart.of_bytes(path, b"x"))
    assert caught.value.code == "invalid_name"


@pytest.mark.parametrize("name", ["Fraud", "a/b", "..", "", "1st"])
def test_names_are_checked(root: Path, name: str) -> None:
    with pytest.raises(Invalid):
        place(root, triton_model=name)
    with pytest.raises(Invalid):
        repository.set_aside(root, name, 1)


def test_a_stored_file_that_is_gone_is_told(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    missing = FilePart("model.onnx", tmp_path / "gone.onnx", "0" * 64, 1)
    with pytest.raises(Unavailable, match=r"gone\.onnx") as caught:
        place(root, model=missing)
    assert caught.value.code == "source_unreadable"
    assert tree(root) == set()


def test_a_repository_that_is_no_folder_says_so(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    root.write_bytes(b"a file")
    with pytest.raises(Unavailable) as caught:
        place(root)
    assert caught.value.code == "repository_unwritable"
