"""Triton as our own child, from the Python package in a virtual environment of its own.

The package carries the server and its Python backend. Our `onnxruntime` backend, written in
Python, makes the very repository that a production Triton gets load here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from console.env import ROOT
from console.stack import web
from console.stack.errors import ProgramMissing
from console.stack.process import Command

VENV = ROOT / ".venv-triton"
BACKEND_SOURCE = ROOT / "deploy" / "triton" / "backends" / "onnxruntime"
KEY_NAME = "covenant-key"
RESTRICTED = "model-repository,shared-memory,trace,logging"
PYTHON = "3.11"
QUANTILES = "0.5:0.05,0.95:0.005,0.99:0.001,0.999:0.0001"
"""Quantiles of Triton's latency summaries, each with the error of rank that it may have."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The server, what it is built from, and the folder of libpython for its stubs."""

    server: Path
    site_packages: Path
    python_library: Path


def find(venv: Path = VENV) -> Programs:
    """The installed Triton. Raises ProgramMissing with the next step."""
    site = venv / "lib" / f"python{PYTHON}" / "site-packages"
    server = site / "pytriton" / "tritonserver" / "bin" / "tritonserver"
    if not server.is_file():
        raise ProgramMissing(
            f"Triton is missing ({server}). Run `make setup`, or set COVENANT_TRITON to the "
            "gRPC addresses of your own nodes, or to none."
        )
    return Programs(server, site, _libpython(venv))


def build_backends(programs: Programs, folder: Path) -> Path:
    """The backend directory under `folder`, built again only when its parts have changed."""
    target = folder / "backends"
    bundled = programs.site_packages / "pytriton" / "tritonserver"
    stub = bundled / "python_backend_stubs" / PYTHON / "triton_python_backend_stub"
    library = bundled / "backends" / "python" / "libtriton_python.so"
    model = BACKEND_SOURCE / "model.py"
    stamp = hashlib.sha256(
        model.read_bytes() + f"{stub.stat()}{library.stat()}".encode()
    ).hexdigest()
    if (target / ".stamp").is_file() and (target / ".stamp").read_text() == stamp:
        return target
    draft = folder / "backends.new"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    # The stub is looked for beside libtriton_python.so, and must be of our Python's version.
    shutil.copytree(bundled / "backends" / "python", draft / "python")
    shutil.copy2(stub, draft / "python")
    (draft / "onnxruntime").mkdir()
    shutil.copy2(model, draft / "onnxruntime")
    os.chmod(draft / "python" / stub.name, 0o755)
    os.chmod(programs.server, 0o755)
    (draft / ".stamp").write_text(stamp)
    draft.rename(target)
    return target


def server(
    programs: Programs,
    *,
    backends: Path,
    repository: Path,
    http: int,
    grpc: int,
    metrics: int,
    key: str,
) -> Command:
    """The server on 127.0.0.1 in explicit mode; loading and unloading need `key`.

    The key travels as HTTP header `covenant-key` or gRPC metadata
    `triton-grpc-protocol-covenant-key`.
    """
    repository.mkdir(parents=True, exist_ok=True)
    site = programs.site_packages
    return Command(
        argv=[
            str(programs.server),
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            "--model-control-mode=explicit",
            # Otherwise one broken or unloading version makes the whole server "not ready".
            "--strict-readiness=false",
            "--allow-http=true",
            "--http-address=127.0.0.1",
            f"--http-port={http}",
            "--http-thread-count=8",
            f"--http-restricted-api={RESTRICTED}:{KEY_NAME}={key}",
            "--grpc-address=127.0.0.1",
            f"--grpc-port={grpc}",
            f"--grpc-restricted-protocol={RESTRICTED}:{KEY_NAME}={key}",
            "--metrics-address=127.0.0.1",
            f"--metrics-port={metrics}",
            # Percentiles of the queue and of the model per version, of a sliding minute; without
            # them Triton tells means alone.
            "--metrics-config=summary_latencies=true",
            f"--metrics-config=summary_quantiles={QUANTILES}",
            "--exit-timeout-secs=5",
            "--backend-config=python,shm-default-byte-size=1048576",
            "--backend-config=python,stub-timeout-seconds=60",
        ],
        env={
            # The stub starts whatever python3 is first on PATH: the one with numpy below 2.
            "PATH": f"{site.parent.parent.parent / 'bin'}:{os.defpath}",
            "PYTHONPATH": str(site),
            "PYTHONUNBUFFERED": "1",
            "LD_LIBRARY_PATH": f"{site / 'nvidia_pytriton.libs'}:{programs.python_library}",
            "LC_ALL": "C.UTF-8",
            "HOME": str(repository.parent),
            "OMP_NUM_THREADS": "1",
        },
        cwd=repository.parent,
        death_signal=signal.SIGTERM,
    )


def is_ready(http: int) -> bool:
    """Whether the server answers that it is ready."""
    return web.status(f"http://127.0.0.1:{http}/v2/health/ready") == 200


def _libpython(venv: Path) -> Path:
    """Folder of libpython, which the stub is linked against."""
    name = f"libpython{PYTHON}.so.1.0"
    python = venv / "bin" / "python"
    done = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR') or '')"],
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    folders = [Path(done.stdout.strip() or "/usr/lib")]
    folders += [Path("/usr/lib"), *Path("/usr/lib").glob("*-linux-gnu"), Path("/usr/local/lib")]
    for folder in folders:
        if (folder / name).exists():
            return folder
    raise ProgramMissing(
        f"{name} is missing, which Triton's Python backend needs. "
        f"Install the package libpython{PYTHON}."
    )
