"""What a load test sends: the version's recorded sample, and the same rows in other batch sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.errors import Conflict

BATCHES = (1, 2, 4, 8, 16, 32)
# Above it building and reading JSON is measured instead of the model.
MOST_BYTES = 1024**2


@dataclass(frozen=True, slots=True)
class Payload:
    """A request body, how many rows it asks for, and how often it is sent beside the others."""

    body: str
    batch: int
    weight: float


def payloads(sample: Mapping[str, Any], *, pattern: str, max_batch: int) -> tuple[Payload, ...]:
    """The bodies of a load test from a sample as validation records it (a v2 request).

    `mixed` sends the sample's rows in batches up to `max_batch` (0: the model takes no batches), a
    batch of n a 1/n as often as a single row, as long as the body stays below 1 MiB. The other
    patterns send the sample as it was recorded. Raises Conflict (`no_sample`) when there is no
    request in it.
    """
    request = sample.get("request", sample)
    inputs = request.get("inputs") if isinstance(request, Mapping) else None
    if not isinstance(inputs, list) or not inputs:
        raise Conflict(
            "The version's recorded sample holds no request that could be sent.",
            code="no_sample",
            hint="Validate the version again with a sample of its inputs.",
        )
    recorded = Payload(_text(request), _rows(inputs) if max_batch else 1, 1.0)
    if pattern != "mixed" or max_batch < 2 or not all(_is_flat(one) for one in inputs):
        return (recorded,)
    made: list[Payload] = []
    for batch in BATCHES:
        if batch > max_batch or (made and batch * len(made[0].body) > MOST_BYTES):
            break
        body = _text({**request, "inputs": [_batched(one, batch) for one in inputs]})
        made.append(Payload(body, batch, 1 / batch))
    return tuple(made)


def _rows(inputs: Sequence[Mapping[str, Any]]) -> int:
    shape = inputs[0].get("shape") or [1]
    return max(int(shape[0]), 1)


def _is_flat(tensor: Mapping[str, Any]) -> bool:
    """Whether rows can be taken and repeated: a list of plain values, as many as the shape says."""
    shape, data = tensor.get("shape"), tensor.get("data")
    if not isinstance(shape, list) or not shape or not isinstance(data, list) or not data:
        return False
    return not isinstance(data[0], list) and len(data) == _count(shape)


def _batched(tensor: Mapping[str, Any], batch: int) -> dict[str, Any]:
    shape, data = tensor["shape"], tensor["data"]
    wanted = batch * _count(shape[1:])
    repeated = data * -(-wanted // len(data))
    return {**tensor, "shape": [batch, *shape[1:]], "data": repeated[:wanted]}


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _text(request: Mapping[str, Any]) -> str:
    return json.dumps(request, separators=(",", ":"))
