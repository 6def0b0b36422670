"""Who answered which request, in Redis, for as long as an outcome of it may count.

A request whose answer is not kept is not counted as answered either, so that losing Redis makes
an experiment slower and never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console import live


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """`answered_at` is in epoch seconds; `experiment` is its id."""

    request_id: str
    experiment: str
    version: int
    answered_at: float


def remember(environment: str, answers: Sequence[KeptAnswer], *, seconds: int) -> list[bool]:
    """Keep answers for so long; says of each whether its request id was new.

    Raises redis.RedisError.
    """
    pipe = live.connection().pipeline(transaction=False)
    for one in answers:
        value = f"{one.experiment} {one.version} {one.answered_at:.3f}"
        pipe.set(_key(environment, one.request_id), value, ex=seconds, nx=True)
    return [bool(kept) for kept in pipe.execute()]


def recall(environment: str, request_ids: Sequence[str]) -> dict[str, KeptAnswer]:
    """The answers that are known. Raises redis.RedisError."""
    if not request_ids:
        return {}
    found = live.connection().mget([_key(environment, one) for one in request_ids])
    texts = found if isinstance(found, list) else []
    answers = {}
    for request_id, text in zip(request_ids, texts, strict=False):
        if text:
            experiment, version, at = str(text).split(" ")
            answers[request_id] = KeptAnswer(request_id, experiment, int(version), float(at))
    return answers


def _key(environment: str, request_id: str) -> str:
    return f"covenant:answered:{environment}:{request_id}"
