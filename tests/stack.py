"""Real Postgres and Valkey for one test run, and real Triton and Envoy on request.

Started by the code of the embedded stack in a temporary COVENANT_HOME. They die with the test
process. `TEST_DATABASE_URL` and `TEST_REDIS_URL` replace them.
"""

from __future__ import annotations

import atexit
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from console import env
from console.stack import envoy, postgres, process, triton, valkey

READY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RunningTriton:
    """A real Triton with an empty repository; addresses are host:port."""

    http: str
    grpc: str
    metrics: str
    repository: Path
    key: str
    log: Path
    pid: int


@dataclass(frozen=True, slots=True)
class RunningEnvoy:
    """A real Envoy that was given a bootstrap; `admin` is host:port."""

    admin: str
    log: Path
    process: subprocess.Popen[bytes]


def provide() -> None:
    """Start the databases and set the environment before Django reads it.

    The controller of a parallel run starts Postgres for all. Each worker has a Valkey of its own,
    since published messages know no database number, and a home of its own, since the files under
    it belong to one database: collecting garbage would take those of another for unreferenced.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    # Playwright's event loop lives in the test's thread, and Django would refuse the ORM there.
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        for name in [name for name in os.environ if name.startswith("COVENANT_")]:
            del os.environ[name]
        _set_up_home()
        _provide_postgres()
    else:
        _set_up_home()
    _provide_valkey(worker or "main")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_port_base() -> int:
    """A COVENANT_PORT_BASE whose whole range is free, below the ephemeral ports."""
    for _ in range(200):
        base = random.SystemRandom().randrange(20000, 31000, 40)
        if all(_is_free(base + offset) for offset in range(env.HIGHEST_OFFSET + 1)):
            return base
    raise RuntimeError("no free range of ports between 20000 and 31000")


def wait_until(
    what: str, check: Callable[[], bool], child: subprocess.Popen[bytes], log: Path
) -> None:
    """Wait for `check`; fail with the end of the log when the child ends or time is over."""
    deadline = time.monotonic() + READY_SECONDS
    while not check():
        if child.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{what} did not get ready (exit {child.poll()}):\n{tail}")
        time.sleep(0.02)


def start_triton(folder: Path, key: str = "") -> tuple[RunningTriton, subprocess.Popen[bytes]]:
    """Start a Triton whose files lie under `folder`; its repository key is made where none is."""
    programs = triton.find()
    http, grpc, metrics = free_port(), free_port(), free_port()
    key = key or secrets.token_urlsafe(16)
    repository = folder / "repository"
    command = triton.server(
        programs,
        backends=triton.build_backends(programs, folder),
        repository=repository,
        http=http,
        grpc=grpc,
        metrics=metrics,
        key=key,
    )
    log = folder / "triton.log"
    child = process.spawn(command, log)
    wait_until("Triton", lambda: triton.is_ready(http), child, log)
    running = RunningTriton(
        http=f"127.0.0.1:{http}",
        grpc=f"127.0.0.1:{grpc}",
        metrics=f"127.0.0.1:{metrics}",
        repository=repository,
        key=key,
        log=log,
        pid=child.pid,
    )
    return running, child


def start_envoy(folder: Path, document: dict[str, object], *, wait: bool = True) -> RunningEnvoy:
    """Start an Envoy with this bootstrap, which must name an admin port."""
    admin = document["admin"]["address"]["socket_address"]["port_value"]  # type: ignore[index]
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "envoy.log"
    child = process.spawn(envoy.server(envoy.find(), folder, document, concurrency=1), log)
    if wait:
        wait_until("Envoy", lambda: envoy.is_ready(admin), child, log)
    return RunningEnvoy(admin=f"127.0.0.1:{admin}", log=log, process=child)


def _set_up_home() -> None:
    home = Path(tempfile.mkdtemp(prefix="covenant-tests-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    home.chmod(0o711)
    os.environ["COVENANT_HOME"] = str(home)
    os.environ["COVENANT_PORT_BASE"] = str(free_port_base())


def _provide_postgres() -> None:
    os.environ.pop("DATABASE_URL", None)
    home = Path(os.environ["COVENANT_HOME"])
    os.environ["COVENANT_SECRET_KEY"] = env.kept_secret(home, "secret_key")
    os.environ["COVENANT_SIGNING_KEY"] = str(_signing_key(home))
    if given := os.environ.get("TEST_DATABASE_URL"):
        os.environ["DATABASE_URL"] = given
        return
    folder = home / "postgres"
    programs = postgres.find(folder)
    password = env.kept_secret(home, "postgres_password")
    postgres.prepare(programs, folder, password=password, createdb=True)
    port = free_port()
    log = home / "log" / "postgres.log"
    command = postgres.server(programs, folder, port=port, durable=False)
    child = process.spawn(command, log)
    atexit.register(process.stop, child, command.death_signal, seconds=10)
    wait_until("Postgres", lambda: postgres.is_ready(port), child, log)
    os.environ["DATABASE_URL"] = f"postgresql://covenant:{password}@127.0.0.1:{port}/covenant"


def _signing_key(home: Path) -> Path:
    """The installation's own key, as an installation with a database of its own names it."""
    path = home / "signing_key.pem"
    if not path.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(pem)
        draft.replace(path)
    return path


def _provide_valkey(name: str) -> None:
    if given := os.environ.get("TEST_REDIS_URL"):
        os.environ["REDIS_URL"] = given
        return
    home = Path(os.environ["COVENANT_HOME"])
    port, password = free_port(), secrets.token_urlsafe(16)
    log = home / "log" / f"valkey-{name}.log"
    command = valkey.server(
        valkey.find(), home / f"valkey-{name}", port=port, password=password, durable=False
    )
    child = process.spawn(command, log)
    atexit.register(process.stop, child, command.death_signal, seconds=10)
    wait_until("Valkey", lambda: valkey.is_ready(port, password), child, log)
    os.environ["REDIS_URL"] = f"redis://:{password}@127.0.0.1:{port}/0"


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    _set_up_home()
    _provide_postgres()
    _provide_valkey("main")
    print(f"export TEST_DATABASE_URL={os.environ['DATABASE_URL']}")
    print(f"export TEST_REDIS_URL={os.environ['REDIS_URL']}", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
