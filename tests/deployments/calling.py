"""Callers of an endpoint through a real gateway."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

BODY = {"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 10], "data": [1.0] * 10}]}


def infer(url: str, model: str, user: str = "u1", body: Any = None) -> httpx.Response:
    """One request."""
    return httpx.post(
        f"{url}/v2/models/{model}/infer", json=body or BODY, headers={"x-user-id": user}, timeout=5
    )


@dataclass
class Load:
    """`with Load(url, model) as load:` calls without a pause, as another person each time."""

    url: str
    model: str
    answers: list[tuple[float, int, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __enter__(self) -> Load:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._call, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _call(self) -> None:
        with httpx.Client(timeout=5) as client:
            count = 0
            while not self._stop.is_set():
                count += 1
                try:
                    answer = client.post(
                        f"{self.url}/v2/models/{self.model}/infer",
                        json=BODY,
                        headers={"x-user-id": f"user-{count}"},
                    )
                except httpx.HTTPError as error:
                    self.errors.append(repr(error))
                    continue
                version = answer.headers.get("x-model-version", "")
                self.answers.append((time.monotonic(), answer.status_code, version))

    @property
    def statuses(self) -> Counter[int]:
        return Counter(status for _, status, _ in self.answers)

    @property
    def versions(self) -> Counter[str]:
        return Counter(version for _, _, version in self.answers)
