"""What hostile module source tries against the sandbox, and the verdict that each attempt gets."""

from __future__ import annotations

import json
import os
import platform
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from django.conf import settings

from models_registry.adapters import bubblewrap, sandbox, seccomp
from models_registry.adapters import sandbox_leavings as leavings
from models_registry.adapters.sandbox import Limits, SandboxResult
from models_registry.exporting.protocol import ExportRequest, TensorSpec

MIB = 1 << 20
INPUTS = (TensorSpec("x", "FP32", (-1, 3), ("batch", "")),)
MODULE = (
    "import torch\nclass Net(torch.nn.Linear):\n    def __init__(self): super().__init__(3, 2)\n"
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state dict: the only format whose module runs source that a person wrote."""
    path = tmp_path_factory.mktemp("weights") / "weights.pt"
    torch.save(torch.nn.Linear(3, 2).state_dict(), path)
    return path


@pytest.fixture
def run_code(weights: Path, tmp_path: Path) -> Callable[..., SandboxResult]:
    """Export `weights` with module source that does whatever `source` says when imported."""

    def run(source: str, **limits: Any) -> SandboxResult:
        code = tmp_path / "code.py"
        code.write_text(source)
        result = sandbox.run(
            "export",
            ExportRequest("torch_state_dict", INPUTS).to_json(),
            workdir=tmp_path / "box",
            files={"source": weights, "code": code},
            limits=Limits(**({"wall_seconds": 60} | limits)),
        )
        assert list(_left_behind(tmp_path)) == []
        assert {path.name for path in (tmp_path / "box").rglob("*") if path.is_file()} <= {
            "result.json",
            "model.onnx",
        }
        return result

    return run


def _left_behind(folder: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter(["cmdline"]):
        if str(folder) in " ".join(process.info["cmdline"] or []):
            yield process


def _code(result: SandboxResult) -> str:
    assert result.refusal is not None
    assert result.refusal.hint or result.ending == "refused"
    return result.refusal.code


PROBE = """
import ctypes, errno, json, os, socket, sys
found = {}
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *arguments):
    ctypes.set_errno(0)
    got = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    found[name] = errno.errorcode.get(ctypes.get_errno(), "done") if got < 0 else "done"
call("unshare a user namespace", 272, 0x10000000)
call("clone a user namespace", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("ptrace", 101, 0, 0, 0, 0)
call("process_vm_readv", 310, os.getpid(), 0, 0, 0, 0, 0)
call("io_uring_setup", 425, 1, 0)
call("bpf", 321, 0, 0, 0)
call("perf_event_open", 298, 0, 0, 0, 0, 0)
call("userfaultfd", 323, 1)
call("keyctl", 250, 0, -3, 0, 0, 0)
call("personality", 135, 0x0040000)
call("memfd_create", 319, 0, 0)
call("name_to_handle_at", 303, -100, 0, 0, 0, 0)
call("shmget", 29, 0, 4096, 0o600)
call("TIOCSTI", 16, 0, 0x5412, 0)
call("TIOCSTI in the low half", 16, 0, 0x100005412, 0)
call("mseal, a newer call", 462, 0, 0, 0)
call("personality, asked", 135, 0xFFFFFFFF)
for family in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"):
    try:
        socket.socket(getattr(socket, family), socket.SOCK_DGRAM)
        found[family] = "done"
    except OSError as error:
        found[family] = errno.errorcode[error.errno]
try:
    socket.socket(socket.AF_UNIX).connect(ABSTRACT)
    found["abstract socket"] = "done"
except OSError as error:
    found["abstract socket"] = errno.errorcode[error.errno]
try:
    os.kill(HOST_PID, 0)
    found["signal"] = "done"
except OSError as error:
    found["signal"] = errno.errorcode[error.errno]
for path in SECRETS:
    found[path] = os.path.exists(path)
def writable(path):
    try:
        open(path + "/probe", "w").close()
    except OSError:
        return False
    return True
found["writable"] = [p for p in ("/", "/dev", "/box", "/box/in", "/usr/local", "/run", "/root",
                                 "/proc/sys", "/box/app", "/tmp", "/dev/shm") if writable(p)]
found["kernel settings"] = os.listdir("/proc/sys")
found["descriptors"] = sorted({
    os.readlink("/proc/self/fd/" + name).partition(":")[0]
    for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)
})
found["status"] = {
    key: value.strip()
    for key, _, value in (line.partition(":") for line in open("/proc/self/status"))
    if key in ("CapEff", "CapPrm", "NoNewPrivs", "Seccomp", "Groups")
}
sys.stderr.write("FOUND " + json.dumps(found) + "\\n")
os._exit(3)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the probe calls by x86-64 numbers")
def test_the_kernel_refuses_what_no_model_needs(
    run_code: Callable[..., SandboxResult], tmp_path: Path
) -> None:
    home = str(settings.CONFIG.home)
    secrets = [home, str(Path.home() / ".ssh"), "/etc/passwd", "/var", "/run", "/sys", "/home"]
    abstract = f"\0covenant-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener, (tmp_path / "secret").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        listener.bind(abstract)
        listener.listen()
        source = (
            PROBE.replace("ABSTRACT", repr(abstract))
            .replace("HOST_PID", str(os.getppid()))
            .replace("SECRETS", repr(secrets))
        )
        result = run_code(source)

    assert result.ending == "crashed"
    line = next(row for row in result.stderr_tail.splitlines() if row.startswith("FOUND "))
    found = json.loads(line.removeprefix("FOUND "))
    status = found.pop("status")
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"], status["Groups"]) == ("1", "2", "")
    assert {path for path in secrets if found.pop(path)} == set()
    assert found.pop("writable") == ["/tmp", "/dev/shm"]
    assert found.pop("kernel settings") == []
    names = set(found.pop("descriptors"))
    assert {name for name in names if not name.startswith(("/tmp/", "/dev/null", "pipe"))} == set()
    refused = dict.fromkeys(found, "EPERM")
    refused |= dict.fromkeys(
        ("clone3", "io_uring_setup", "memfd_create", "mseal, a newer call"), "ENOSYS"
    )
    refused |= {name: "EAFNOSUPPORT" for name in found if name.startswith("AF_")}
    refused |= {"abstract socket": "ECONNREFUSED", "signal": "ESRCH", "personality, asked": "done"}
    assert found == refused


@pytest.mark.parametrize(
    ("source", "limits", "ending", "code"),
    [
        pytest.param(
            "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
            {},
            "refused",
            "process_limit",
            id="fork bomb",
        ),
        pytest.param(
            "import torch\ntorch.ones(1 << 40)", {}, "out_of_memory", "memory_limit", id="4 TB"
        ),
        pytest.param(
            "import mmap\nm = mmap.mmap(-1, 4 << 40)\nfor k in range(1 << 20):\n"
            "  m[k * 4096 * 256] = 1\n  m[k << 20:(k + 1) << 20] = bytes(1 << 20)",
            {"memory_bytes": 1 << 30},
            "out_of_memory",
            "memory_limit",
            id="shared memory that no limit of the kernel counts",
        ),
        pytest.param(
            "import os\nkept = []\nwhile True:\n  f = open('g', 'wb')\n  os.unlink('g')\n"
            "  f.write(bytes(64 << 20))\n  f.flush()\n  kept.append(f)",
            {"disk_bytes": 256 * MIB},
            "refused",
            "disk_limit",
            id="files without a name",
        ),
        pytest.param(
            "i = 0\nwhile True:\n  open(f'f{i}', 'w').close()\n  i += 1",
            {},
            "refused",
            "disk_limit",
            id="files without number",
        ),
        pytest.param(
            "i = 0\nwhile True:\n  open(f'/dev/shm/{i}', 'wb').write(bytes(32 << 20))\n  i += 1",
            {"tmp_bytes": 64 * MIB},
            "refused",
            "module_source_failed",
            id="files in memory",
        ),
        pytest.param(
            "open('model.onnx', 'wb').truncate(1 << 40)",
            {},
            "refused",
            "module_source_failed",
            id="a file of 1 TB that is a hole",
        ),
        pytest.param(
            "import os\nfor i in range(2_500):\n  os.mkdir('d' * 50)\n  os.chdir('d' * 50)\n"
            "os.symlink('/', 'root')\nos.chmod('.', 0)\nos._exit(1)",
            {},
            "crashed",
            "program_crashed",
            id="a tree too deep to remove",
        ),
        pytest.param(
            "import os\nos.remove('request.json')\nos.mkdir('result.json')\n"
            "os.mkdir('model.onnx')\nos.mkfifo('model.onnx/pipe')\nos._exit(0)",
            {},
            "crashed",
            "program_crashed",
            id="folders in place of files",
        ),
        pytest.param(
            "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(1000)\nos._exit(1)",
            {},
            "crashed",
            "program_crashed",
            id="a daemon",
        ),
        pytest.param(
            "import ctypes\nctypes.string_at(0)", {}, "crashed", "program_crashed", id="SIGSEGV"
        ),
    ],
)
def test_each_attack_ends_with_a_verdict(
    source: str,
    limits: dict[str, Any],
    ending: str,
    code: str,
    run_code: Callable[..., SandboxResult],
) -> None:
    result = run_code(source, **limits)

    assert (result.ending, _code(result)) == (ending, code), result
    assert result.usage.wall_seconds < 30


def test_as_an_ordinary_user_and_without_the_filter_models_still_run(
    run_code: Callable[..., SandboxResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    bubblewrap.available()
    program = bubblewrap.program()
    for standing in (
        bubblewrap._Standing("mapped", program, ""),
        bubblewrap._Standing("mapped", b"", "libseccomp cannot be loaded"),
    ):
        monkeypatch.setattr(bubblewrap, "_standing", lambda standing=standing: standing)

        assert run_code(MODULE).ending == "ok"


def test_where_libseccomp_is_missing_the_sandbox_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        seccomp, "build", lambda: seccomp.Filter(missing="libseccomp cannot be loaded")
    )
    bubblewrap._standing.cache_clear()
    try:
        assert bubblewrap.program() == b""
        assert "libseccomp cannot be loaded" in bubblewrap.weakness()
    finally:
        bubblewrap._standing.cache_clear()


def test_a_filter_that_the_kernel_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "build", lambda: seccomp.Filter(b"\xff" * 8))
    bubblewrap._standing.cache_clear()
    try:
        assert bubblewrap.program() == b""
        assert "the kernel takes no system call filter" in bubblewrap.weakness()
    finally:
        bubblewrap._standing.cache_clear()


def test_clearing_keeps_what_is_wanted_and_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    folder = tmp_path / "out"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    (folder / "link").symlink_to(outside)
    (folder / "result.json").write_text("{}")
    (folder / "model.onnx").mkdir()
    (folder / "a").chmod(0)

    leavings.clear(folder, keep=("result.json", "model.onnx"))

    assert [path.name for path in folder.iterdir()] == ["result.json"]
    assert (outside / "kept").exists()
