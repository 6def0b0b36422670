"""The tus protocol over HTTP, and over a real ASGI server that is killed on the way."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from console.services.tokens import create_token
from console.stack import process
from console.stack.process import Command
from models_registry.models import Upload
from tests import factories
from tests.models_registry.api import Caller
from tests.stack import wait_until

TUS = {"tus_resumable": "1.0.0"}
CHUNK = "application/offset+octet-stream"
CONTENT = factories.tiny_onnx(0.5)
MIB = 1024**2


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def dana(db: None) -> Caller:
    return Caller(factories.people().dana)


def begin(caller: Caller, length: int = len(CONTENT), name: str = "model.onnx", **headers):
    metadata = f"filename {encoded(name)}"
    return caller.post(
        "/uploads/", **TUS, upload_length=str(length), upload_metadata=metadata, **headers
    )


def path_of(created) -> str:
    return created["Location"].removeprefix("/api/v1")


def patch(caller: Caller, path: str, data: bytes, offset: int = 0, **headers):
    return caller.send(
        "PATCH", path, data, CHUNK, **{**TUS, "upload_offset": str(offset), **headers}
    )


def test_options_says_what_the_server_can(dana: Caller) -> None:
    for caller in (dana, Caller()):
        answer = caller.options("/uploads/")
        assert answer.status_code == 204
        assert answer["Tus-Version"] == answer["Tus-Resumable"] == "1.0.0"
        assert "checksum" in answer["Tus-Extension"].split(",")
        assert "termination" in answer["Tus-Extension"].split(",")
        assert int(answer["Tus-Max-Size"]) > 0


def test_create_send_ask_and_finish(dana: Caller) -> None:
    created = begin(dana, name="模型.onnx")
    assert created.status_code == 201
    assert created["Upload-Offset"] == "0"
    assert created["Upload-Expires"].endswith("GMT")
    path = path_of(created)
    first = patch(dana, path, CONTENT[:100])
    assert (first.status_code, first["Upload-Offset"]) == (204, "100")
    asked = dana.head(path, **TUS)
    assert asked.status_code == 200
    assert (asked["Upload-Offset"], asked["Upload-Length"]) == ("100", str(len(CONTENT)))
    assert asked["Cache-Control"] == "no-store"
    assert base64.b64decode(asked["Upload-Metadata"].split()[1]).decode() == "模型.onnx"
    last = patch(dana, path, CONTENT[100:], 100)
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert (last.status_code, last["Upload-Sha256"]) == (204, digest)
    shown = dana.get(path + "/").json()
    assert (shown["state"], shown["sha256"], shown["detected_format"]) == (
        "complete",
        digest,
        "onnx",
    )


def test_creation_with_the_first_bytes(dana: Caller) -> None:
    created = dana.send(
        "POST", "/uploads/", CONTENT, CHUNK, **TUS,
        upload_length=str(len(CONTENT)), upload_metadata=f"filename {encoded('m.onnx')}",
    )  # fmt: skip
    assert created.status_code == 201
    assert created["Upload-Offset"] == str(len(CONTENT))


def test_a_checksum_that_differs_is_460(dana: Caller) -> None:
    path = path_of(begin(dana))
    wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    answer = patch(dana, path, CONTENT, upload_checksum=f"sha256 {wrong}")
    assert (answer.status_code, answer.json()["code"]) == (460, "checksum_mismatch")
    right = base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()
    assert patch(dana, path, CONTENT, upload_checksum=f"sha256 {right}").status_code == 204


def test_refusals_have_the_protocols_statuses(dana: Caller) -> None:
    path = path_of(begin(dana))
    other = Caller(factories.make_user("otto", "data_scientist"))
    unknown = "/uploads/11111111-1111-1111-1111-111111111111"
    plain = dana.send("PATCH", path, b"x", "text/plain", **TUS, upload_offset="0")
    garbled = dana.post("/uploads/", **TUS, upload_length="1", upload_metadata="filename ???")
    cases = [
        (patch(dana, path, CONTENT, 7), 409, "wrong_offset"),
        (patch(dana, path, CONTENT, tus_resumable="0.2.1"), 412, "tus_version"),
        (plain, 415, "wrong_content_type"),
        (patch(dana, path, CONTENT, upload_offset="-1"), 422, "bad_header"),
        (patch(dana, path, CONTENT, upload_checksum="md5 x"), 422, "bad_checksum_header"),
        (patch(dana, path, CONTENT + b"more"), 422, "beyond_length"),
        (patch(dana, unknown, CONTENT), 404, "upload_not_found"),
        (patch(other, path, CONTENT), 404, "upload_not_found"),
        (dana.delete(unknown, **TUS), 404, "upload_not_found"),
        (begin(dana, length=65 * 1024**3), 413, "upload_too_large"),
        (begin(dana, length=0), 422, "empty_file"),
        (begin(dana, name="x" * 300), 422, "bad_filename"),
        (dana.post("/uploads/", **TUS), 422, "bad_header"),
        (garbled, 422, "bad_metadata"),
        (begin(Caller(factories.people().vic)), 403, "not_allowed"),
    ]  # fmt: skip
    for answer, status, code in cases:
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer["Content-Type"] == "application/problem+json"
        assert answer["Tus-Resumable"] == "1.0.0"
    assert dana.head(path, tus_resumable="2.0.0")["Tus-Version"] == "1.0.0"
    assert begin(Caller()).status_code in (401, 403)
    assert dana.head(path, **TUS)["Upload-Offset"] == "0"


def test_termination(dana: Caller) -> None:
    path = path_of(begin(dana))
    assert dana.delete(path, **TUS).status_code == 204
    assert dana.head(path, **TUS).status_code == 404
    assert not Upload.objects.exists()


class Server:
    """A uvicorn of our own on the test database, that may be killed and started again."""

    def __init__(self, environment: dict[str, str], port: int, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v1"
        self._command = Command(
            argv=[
                sys.executable, "-m", "uvicorn", "console.asgi:application", "--host",
                "127.0.0.1", "--port", str(port), "--log-level", "warning",
            ],
            env=environment,
        )  # fmt: skip
        self._log = folder / "web.log"
        self.start()

    def start(self) -> None:
        self.child = process.spawn(self._command, self._log)
        wait_until("web", self._is_up, self.child, self._log)

    def kill(self) -> None:
        os.kill(self.child.pid, signal.SIGKILL)
        self.child.wait(timeout=10)

    def memory(self) -> int:
        return psutil.Process(self.child.pid).memory_info().rss

    def _is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/uploads/", timeout=2).status_code in (401, 403, 405)
        except httpx.HTTPError:
            return False


def test_a_killed_web_process_loses_nothing_and_memory_stays_flat(
    process_environment: dict[str, str], free_port: Callable[[], int], tmp_path: Path
) -> None:
    length = 112 * MIB
    block = os.urandom(MIB)
    whole = hashlib.sha256(block * (length // MIB)).hexdigest()
    token, clear = create_token(
        name="ci", scopes=["read", "write"], actor=factories.actor(factories.people().dana)
    )
    assert token.user.username == "dana"
    server = Server(process_environment, free_port(), tmp_path)
    headers = {"Authorization": f"Token {clear}", "Tus-Resumable": "1.0.0"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as client:
        created = client.post(
            "/uploads/",
            headers={
                "Upload-Length": str(length),
                "Upload-Metadata": f"filename {encoded('big.bin')},sha256 {encoded(whole)}",
            },
        )
        assert created.status_code == 201, created.text
        path = created.headers["Location"].removeprefix("/api/v1")
        before = server.memory()

        def sent_until_killed():
            for number in range(length // MIB):
                if number == 48:
                    server.kill()
                yield block

        chunk = {"Content-Type": CHUNK, "Upload-Offset": "0"}
        with pytest.raises(httpx.HTTPError):
            client.patch(path, content=sent_until_killed(), headers=chunk)
        server.start()
        kept = int(client.head(path).headers["Upload-Offset"])
        assert 8 * MIB < kept <= 50 * MIB
        peaks = []

        def rest():
            data = block[kept % MIB :]
            position = kept
            while position < length:
                yield data
                position += len(data)
                data = block
                peaks.append(server.memory())

        chunk["Upload-Offset"] = str(kept)
        done = client.patch(path, content=rest(), headers=chunk)
        assert done.status_code == 204, done.text
        assert done.headers["Upload-Sha256"] == whole
        # Refused at once, with an answer that arrives although the body was on its way.
        late = client.patch(path, content=bytes(4 * MIB), headers={**chunk, "Upload-Offset": "1"})
        assert (late.status_code, late.json()["code"]) == (409, "wrong_offset")
        assert max(peaks) - min(before, peaks[0]) < 50 * MIB
    process.stop(server.child, signal.SIGTERM, seconds=8)
