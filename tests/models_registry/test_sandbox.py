"""The walls of the sandbox, tried from inside by hostile module source and hostile graphs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from console.errors import Invalid, Unavailable
from models_registry.adapters import bubblewrap, sandbox
from models_registry.adapters import sandbox_leavings as leavings
from models_registry.adapters.sandbox import Event, Limits, SandboxResult
from models_registry.exporting.protocol import ExportRequest, TensorSpec
from tests.models_registry import model_files

MIB = 1 << 20
INPUTS = (TensorSpec("x", "FP32", (-1, 3), ("batch", "")),)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state dict: the only format whose module runs source that a person wrote."""
    path = tmp_path_factory.mktemp("weights") / "weights.pt"
    torch.save(torch.nn.Linear(3, 2).state_dict(), path)
    path.chmod(0o600)  # as private as an upload may be
    return path


@pytest.fixture
def run_code(weights: Path, tmp_path: Path) -> Callable[..., SandboxResult]:
    """Export `weights` with module source that does whatever `source` says when imported."""

    def run(source: str, **options: Any) -> SandboxResult:
        code = tmp_path / "code.py"
        code.write_text(source)
        return sandbox.run(
            "export",
            ExportRequest("torch_state_dict", INPUTS).to_json(),
            workdir=tmp_path / "box",
            files={"source": weights, "code": code},
            **({"limits": Limits(wall_seconds=60)} | options),
        )

    return run


@pytest.fixture
def run_loop(tmp_path: Path) -> Callable[..., SandboxResult]:
    """Export an ONNX graph whose inference never ends."""

    def run(**options: Any) -> SandboxResult:
        request = ExportRequest("onnx", (), inference_seconds=600).to_json()
        source = model_files.save(model_files.loop(forever=True), tmp_path)
        return sandbox.run(
            "export", request, workdir=tmp_path / "box", files={"source": source}, **options
        )

    return run


def _left_behind(folder: Path) -> Iterator[psutil.Process]:
    """Processes whose command line names a work folder of this test."""
    for process in psutil.process_iter(["cmdline"]):
        if str(folder) in " ".join(process.info["cmdline"] or []):
            yield process


LOOK_AROUND = """
import os, socket, pathlib
found = {"uid": os.getuid(), "roots": sorted(os.listdir("/")), "env": sorted(os.environ)}
for name, attempt in {
    "network": lambda: socket.create_connection(("127.0.0.1", 22), 1),
    "passwd": lambda: open("/etc/passwd").read(),
    "home": lambda: os.listdir(os.path.expanduser("~root")),
    "source": lambda: open("/box/in/source", "ab").write(b"x"),
    "programs": lambda: open("/box/app/models_registry/exporting/export.py", "a").write("x"),
    "python": lambda: open(os.__file__, "a").write("x"),
    "root": lambda: os.setuid(0),
}.items():
    try:
        attempt()
    except OSError as error:
        found[name] = error.errno
    else:
        found[name] = "possible"
pathlib.Path("MARKER").touch()
found["processes"] = sum(name.isdigit() for name in os.listdir("/proc"))
status = open("/proc/self/status").read()
found["capabilities"] = status.partition("CapEff:")[2].split()[0]
raise RuntimeError(repr(found))
"""


def test_module_source_sees_nothing_and_changes_nothing(
    run_code: Callable[..., SandboxResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVENANT_SECRET_KEY", "very secret")

    result = run_code(LOOK_AROUND.replace("MARKER", str(model_files.MARKER)))

    assert result.ending == "refused"
    assert result.refusal is not None
    assert result.refusal.code == "module_source_failed"
    found = eval(result.refusal.message.partition("RuntimeError: ")[2])
    assert "COVENANT_SECRET_KEY" not in found["env"]
    assert {"etc", "var", "sys", "srv"}.isdisjoint(found["roots"])
    assert found["uid"] not in {0, os.getuid()} or os.getuid() != 0
    assert int(found["capabilities"], 16) == 0
    assert found["processes"] <= 4
    for attempt in ("network", "passwd", "home", "source", "programs", "python", "root"):
        assert found[attempt] != "possible", attempt
    assert not model_files.MARKER.exists()


def test_a_private_file_is_readable_inside_and_stays_private(
    run_code: Callable[..., SandboxResult], weights: Path
) -> None:
    result = run_code(
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    def __init__(self): super().__init__(3, 2)\n"
    )

    assert result.ending == "ok", result
    assert weights.stat().st_mode & 0o777 == 0o600
    model = result.outputs["model.onnx"]
    assert model.stat().st_uid == os.geteuid()
    assert result.usage.peak_bytes > MIB


FORGE = """
import json, os
os.symlink("/etc/hostname", "model.onnx")
answer = {"outcome": "ok", "answer": {"sha256": "0"}}
open("result.json", "w").write(json.dumps(answer))
os._exit(0)
"""


def test_a_link_that_is_left_as_result_is_not_followed(
    run_code: Callable[..., SandboxResult],
) -> None:
    result = run_code(FORGE)

    assert result.ending == "crashed"
    assert result.outputs == {}
    assert result.refusal is not None
    assert result.refusal.code == "output_missing"
    assert "/" not in result.refusal.message  # no path of the machine


def test_a_crash_is_told_with_its_last_lines(run_code: Callable[..., SandboxResult]) -> None:
    source = "import os, sys\nprint('last words')\nsys.stdout.flush()\nos.kill(os.getpid(), 11)"

    result = run_code(source)

    assert result.ending == "crashed"
    assert "last words" in result.stderr_tail
    assert result.refusal is not None
    assert "SIGSEGV" in result.refusal.message
    with pytest.raises(Invalid, match="SIGSEGV"):
        result.raise_unless_ok()


def test_memory_is_bounded(run_code: Callable[..., SandboxResult]) -> None:
    source = "kept = []\nwhile True:\n    kept.append(bytearray(64 << 20))"

    result = run_code(source, limits=Limits(wall_seconds=60, memory_bytes=1024 * MIB))

    assert result.ending == "out_of_memory"
    assert result.usage.peak_bytes < 1200 * MIB


def test_a_flood_of_output_is_cut(run_code: Callable[..., SandboxResult]) -> None:
    result = run_code("for _ in range(4_000):\n    print('x' * 1000)\nraise SystemExit('enough')")

    assert result.ending == "refused"
    assert len(result.stderr_tail) <= 4_000


def test_disk_is_bounded(run_code: Callable[..., SandboxResult]) -> None:
    source = (
        "import time\nfor i in range(8):\n    open(f'f{i}', 'wb').write(bytes(4 << 20))\n"
        "time.sleep(30)"
    )

    result = run_code(source, limits=Limits(wall_seconds=60, disk_bytes=16 * MIB))

    assert result.refusal is not None
    assert result.refusal.code == "disk_limit"


def test_time_is_bounded_and_nothing_runs_on(
    run_loop: Callable[..., SandboxResult], tmp_path: Path
) -> None:
    result = run_loop(limits=Limits(wall_seconds=4))

    assert result.ending == "timed_out"
    assert result.refusal is not None
    assert "4 seconds" in result.refusal.message
    assert list(_left_behind(tmp_path)) == []


def test_processor_time_is_bounded(run_loop: Callable[..., SandboxResult]) -> None:
    result = run_loop(limits=Limits(wall_seconds=60, cpu_seconds=3))

    assert result.ending == "timed_out"


def test_cancel_ends_the_sandbox_within_two_seconds(
    run_loop: Callable[..., SandboxResult], tmp_path: Path
) -> None:
    trying = threading.Event()
    asked: list[float] = []
    running: list[bool] = []

    def on_event(event: Event) -> None:
        if event.step == "Trying the model":
            running.append(any(_left_behind(tmp_path)))
            trying.set()

    def cancelled() -> bool:
        if trying.is_set():
            asked.append(time.monotonic())
        return trying.is_set()

    result = run_loop(on_event=on_event, cancelled=cancelled)

    assert running == [True]
    assert result.ending == "cancelled"
    assert time.monotonic() - asked[0] < 2.0
    assert list(_left_behind(tmp_path)) == []
    with pytest.raises(Invalid) as caught:
        result.raise_unless_ok()
    assert caught.value.code == "cancelled"


def test_progress_only_rises(tmp_path: Path) -> None:
    events: list[Event] = []
    source = model_files.save(model_files.plain(), tmp_path)

    result = sandbox.run(
        "export",
        ExportRequest("onnx", ()).to_json(),
        workdir=tmp_path / "box",
        files={"source": source},
        on_event=events.append,
    )

    assert result.ending == "ok"
    shares = [event.progress for event in events]
    assert shares == sorted(shares)
    assert len(shares) >= 3


def test_without_bubblewrap_nothing_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = model_files.save(model_files.plain(), tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    bubblewrap._standing.cache_clear()
    try:
        with pytest.raises(Unavailable, match="bubblewrap") as caught:
            sandbox.run(
                "export",
                ExportRequest("onnx", ()).to_json(),
                workdir=tmp_path / "box",
                files={"source": source},
            )
    finally:
        bubblewrap._standing.cache_clear()

    assert "apt install bubblewrap" in caught.value.hint
    assert not caught.value.retryable


def test_an_unknown_file_name_is_a_fault_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="takes no file called"):
        sandbox.run("propose", {}, workdir=tmp_path / "box", files={"../etc": tmp_path})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"kind":"progress","progress":0.5,"step":"a"}', Event("progress", 0.5, "a")),
        (b'{"kind":"progress","progress":0.1,"step":"a"}', Event("progress", 0.2, "a")),
        (b'{"kind":"progress","progress":1e9,"step":"a\\u0000b"}', Event("progress", 1.0, "ab")),
        (b'{"kind":"progress","progress":NaN}', Event("progress", 0.2)),
        (b'{"kind":"log","line":"\\u001b[2Jx","level":"odd"}', Event("log", 0.2, line="[2Jx")),
        (b'{"kind":"progress","progress":"1"}', None),
        (b'{"kind":"other"}', None),
        (b"[1]", None),
        (b"no json", None),
        (b"[" * 5000, None),
    ],
)
def test_a_line_from_inside_is_cleaned(line: bytes, expected: Event | None) -> None:
    assert leavings.event(line, 0.2) == expected


def test_a_result_is_cleaned_before_anybody_stores_it(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b'{"a\\u0000": "b\\u0000", "c": ["\\ud800"]}')
    assert leavings.answer(path) == {"a": "b", "c": ["?"]}

    path.write_bytes(b'{"a": NaN}')
    assert leavings.answer(path) == {}

    path.write_bytes(b'{"a": ' + b"[" * 100_000)
    assert leavings.answer(path) == {}

    path.unlink()
    path.symlink_to("/etc/hostname")
    assert leavings.answer(path) == {}

    os.mkfifo(tmp_path / "pipe")
    assert leavings.answer(tmp_path / "pipe") == {}
