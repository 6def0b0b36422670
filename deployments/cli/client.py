"""The CLI's way to the server: HTTP, problem documents and exit codes."""

from __future__ import annotations

import base64
import json
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

OK, REFUSED, USAGE, UNREACHABLE, GATE_FAILED = 0, 1, 2, 3, 4
CHUNK = 8 * 1024 * 1024
CHECK_SECONDS = 600
"""The last chunk is answered once the whole file was read again and its digest compared."""
JOB_ENDINGS = ("succeeded", "failed", "errored", "cancelled")


class CliError(Exception):
    """Ends the command with a message, a hint and an exit code."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int = REFUSED,
        hint: str = "",
        code: str = "",
        errors: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.message, self.exit_code, self.hint = message, exit_code, hint
        self.code, self.errors = code, errors


@dataclass(frozen=True, slots=True)
class Credentials:
    url: str
    token: str
    username: str = ""


def credentials_path() -> Path:
    """Where `covenant login` keeps the address and the token (mode 0600)."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "covenant" / "credentials.json"


def load_credentials() -> Credentials | None:
    path = credentials_path()
    if not path.exists():
        return None
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        return Credentials(body["url"], body["token"], body.get("username", ""))
    except (OSError, ValueError, KeyError) as error:
        raise CliError(
            f"{path} cannot be read: {error}.", exit_code=USAGE, hint="Run `covenant login` again."
        ) from error


def save_credentials(credentials: Credentials) -> Path:
    path = credentials_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IRUSR | stat.S_IWUSR)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(
            {"url": credentials.url, "token": credentials.token, "username": credentials.username},
            file,
        )
    return path


class Client:
    """One signed-in person's connection to one server."""

    def __init__(self, credentials: Credentials, *, timeout: float = 30) -> None:
        self.url = credentials.url.rstrip("/")
        headers = {"Accept": "application/json"}
        if credentials.token:
            headers["Authorization"] = f"Token {credentials.token}"
        self._http = httpx.Client(
            base_url=self.url + "/api/v1", headers=headers, timeout=timeout, trust_env=False
        )

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **params: Any) -> Any:
        return self.request("GET", path, params={k: v for k, v in params.items() if v}).json()

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.request("POST", path, json=body or {}, headers=headers).json()

    def put(
        self, path: str, body: Any, params: dict[str, str] | None = None, **headers: str
    ) -> httpx.Response:
        return self.request("PUT", path, json=body, params=params, headers=headers)

    def content(self, path: str) -> bytes:
        return self.request("GET", path).content

    def save(self, path: str, target: Path, params: dict[str, str]) -> int:
        """Write an answer of any size to a file as it arrives; gives its bytes."""
        try:
            with self._http.stream("GET", path, params=params) as response:
                if not response.is_success:
                    response.read()
                    raise _refusal(response)
                with target.open("wb") as file:
                    for chunk in response.iter_bytes():
                        file.write(chunk)
        except httpx.HTTPError as error:
            raise CliError(
                f"{self.url} cannot be reached: {error}.",
                exit_code=UNREACHABLE,
                hint="What has arrived is not the whole file.",
            ) from error
        return target.stat().st_size

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Call the API; raises CliError with the problem's words when it refuses."""
        try:
            response = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise CliError(
                f"{self.url} cannot be reached: {error}.",
                exit_code=UNREACHABLE,
                hint="Is the console running, and is the address right?",
            ) from error
        if response.is_success:
            return response
        raise _refusal(response)

    def upload(
        self, path: Path, *, filename: str = "", sha256: str = "", on_progress: Any = None
    ) -> dict[str, Any]:
        """Upload a file by tus 1.0.0, going on after a broken connection; gives the upload.

        `filename` is what the file is called there, its own name by default.
        """
        size = path.stat().st_size
        created = self.request(
            "POST",
            "/uploads/",
            content=b"",
            headers={
                "Tus-Resumable": "1.0.0",
                "Upload-Length": str(size),
                "Upload-Metadata": _metadata(filename or path.name, sha256),
            },
        )
        location = created.headers["Location"]
        address = httpx.URL(location).path.removeprefix("/api/v1")
        offset = 0
        with path.open("rb") as file:
            while offset < size:
                file.seek(offset)
                offset = self._send_chunk(address, offset, file.read(CHUNK))
                if on_progress:
                    on_progress(offset, size)
        return {"id": address.strip("/").rsplit("/", 1)[-1], "size": size}

    def _send_chunk(self, address: str, offset: int, chunk: bytes) -> int:
        headers = {
            "Tus-Resumable": "1.0.0",
            "Upload-Offset": str(offset),
            "Content-Type": "application/offset+octet-stream",
        }
        for attempt in range(5):
            try:
                answer = self.request(
                    "PATCH", address, content=chunk, headers=headers, timeout=CHECK_SECONDS
                )
                return int(answer.headers["Upload-Offset"])
            except CliError as error:
                if error.exit_code != UNREACHABLE or attempt == 4:
                    raise
            # The server says how much arrived; go on from there.
            time.sleep(2**attempt * 0.5)
            head = self.request("HEAD", address, headers={"Tus-Resumable": "1.0.0"})
            kept = int(head.headers["Upload-Offset"])
            if kept != offset:
                return kept
        return offset

    def wait_for_job(
        self, job_id: str, *, timeout: float = 900, on_change: Any = None
    ) -> dict[str, Any]:
        """Wait until the job has ended and give it; raises CliError when the time is over."""
        deadline = time.monotonic() + timeout
        seen: tuple[str, str] | None = None
        while time.monotonic() < deadline:
            job: dict[str, Any] = self.get(f"/jobs/{job_id}/")
            now = (job["state"], job["step"])
            if on_change and now != seen:
                on_change(job)
            seen = now
            if job["state"] in JOB_ENDINGS:
                return job
            time.sleep(0.2)
        raise CliError(
            f"Job {job_id} is not done after {timeout:.0f} s; it goes on.",
            hint=f"Follow it with `covenant jobs show {job_id}`.",
        )


def _metadata(filename: str, sha256: str) -> str:
    pairs = {"filename": filename, **({"sha256": sha256} if sha256 else {})}
    return ",".join(
        f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in pairs.items()
    )


def _refusal(response: httpx.Response) -> CliError:
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    unreachable = response.status_code in (502, 503) and not problem.get("code")
    return CliError(
        str(problem.get("detail") or f"The server answered {response.status_code}."),
        exit_code=UNREACHABLE if unreachable else REFUSED,
        hint=str(problem.get("hint") or ""),
        code=str(problem.get("code") or response.status_code),
        errors=tuple(
            (str(e.get("pointer", "")), str(e.get("detail", "")))
            for e in problem.get("errors") or []
            if isinstance(e, dict)
        ),
    )
