"""A caller of the API, signed in as somebody, for tests."""

from __future__ import annotations

import base64
from typing import Any

from django.test import Client

from console.models import User

PREFIX = "/api/v1"


class Caller:
    """One person's calls; every method gives the response."""

    def __init__(self, user: User | None = None, *, token: str = "") -> None:
        headers = {"authorization": f"Token {token}"} if token else {}
        self._client = Client(headers=headers)
        if user is not None:
            self._client.force_login(user)

    def get(self, path: str, **headers: str) -> Any:
        return self._client.get(PREFIX + path, headers=_named(headers))

    def head(self, path: str, **headers: str) -> Any:
        return self._client.head(PREFIX + path, headers=_named(headers))

    def options(self, path: str) -> Any:
        return self._client.options(PREFIX + path)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._client.post(
            PREFIX + path, body if body is not None else {}, "application/json",
            headers=_named(headers),
        )  # fmt: skip

    def patch(self, path: str, body: Any, **headers: str) -> Any:
        return self._client.patch(PREFIX + path, body, "application/json", headers=_named(headers))

    def delete(self, path: str, **headers: str) -> Any:
        return self._client.delete(PREFIX + path, headers=_named(headers))

    def send(self, method: str, path: str, data: bytes, content_type: str, **headers: str) -> Any:
        return self._client.generic(
            method, PREFIX + path, data, content_type, headers=_named(headers)
        )

    def upload(self, data: bytes, filename: str = "model.onnx") -> str:
        """Upload a file by tus in one chunk; gives its id."""
        name = base64.b64encode(filename.encode()).decode()
        created = self.post(
            "/uploads/",
            tus_resumable="1.0.0",
            upload_length=str(len(data)),
            upload_metadata=f"filename {name}",
        )
        assert created.status_code == 201, created.content
        path = created["Location"].removeprefix(PREFIX)
        sent = self.send(
            "PATCH", path, data, "application/offset+octet-stream",
            tus_resumable="1.0.0", upload_offset="0",
        )  # fmt: skip
        assert sent.status_code == 204, sent.content
        return path.rsplit("/", 1)[-1]


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
