"""One v2 inference request over HTTP, to a gateway or to a Triton itself.

Tensors go as binary data (Triton's protocol extension "Binary tensor data"): JSON has no NaN, and
Triton takes and gives no FP16 in it.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx
import numpy as np
from tritonclient.utils import triton_to_np_dtype

from console.errors import Invalid, Unavailable

LENGTH_HEADER: Final = "Inference-Header-Content-Length"
MAX_ANSWER: Final = 64 * 1024**2
MAX_WORDS: Final = 600


class Tensor(Protocol):
    """What is sent: `data` is flat, in row-major order."""

    @property
    def name(self) -> str: ...
    @property
    def datatype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def data(self) -> tuple[Any, ...]: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Outputs as v2 JSON tensors with flat data, the answer's headers, milliseconds it took."""

    outputs: tuple[dict[str, Any], ...]
    headers: Mapping[str, str]
    duration_ms: float


def infer(
    url: str, tensors: Sequence[Tensor], *, request_id: str, who: str, timeout_s: float
) -> Answer:
    """Send the tensors to the address of a version; `who` names it in errors.

    Raises Invalid (`infer_refused`: it will not take them, in its own words), Unavailable
    (`infer_failed`, `infer_timed_out`, `bad_answer`).
    """
    head, parts = _described(tensors, request_id)
    headers = {
        "Content-Type": "application/octet-stream",
        LENGTH_HEADER: str(len(head)),
        "X-Request-ID": request_id,
        "User-Agent": "covenant-try/1",
    }
    started = time.perf_counter()
    try:
        with (
            httpx.Client(timeout=timeout_s, trust_env=False) as client,
            client.stream("POST", url, content=b"".join([head, *parts]), headers=headers) as reply,
        ):
            body = _body(reply, who, started + timeout_s)
            took = (time.perf_counter() - started) * 1000
            status, said = reply.status_code, reply.headers
    except httpx.TimeoutException as error:
        raise _too_late(who, timeout_s) from error
    except httpx.HTTPError as error:
        raise Unavailable(
            f"{who} cannot be reached: {str(error) or type(error).__name__}.",
            code="infer_failed",
            hint="See the node's page: it may be away, or be starting.",
        ) from error
    if status != httpx.codes.OK:
        raise _refused(status, body, who)
    return Answer(_outputs(body, said, who), dict(said), took)


def _body(reply: httpx.Response, who: str, deadline: float) -> bytes:
    body = bytearray()
    for chunk in reply.iter_bytes():
        body += chunk
        if len(body) > MAX_ANSWER:
            raise Unavailable(
                f"{who} answered with more than {MAX_ANSWER // 1024**2} MiB.",
                code="bad_answer",
                hint="Try it with fewer rows.",
                retryable=False,
            )
        if time.perf_counter() > deadline:
            raise httpx.ReadTimeout("the answer went on for too long")
    return bytes(body)


def _described(tensors: Sequence[Tensor], request_id: str) -> tuple[bytes, list[bytes]]:
    described, parts = [], []
    for tensor in tensors:
        data = _packed(tensor)
        parts.append(data)
        described.append(
            {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": list(tensor.shape),
                "parameters": {"binary_data_size": len(data)},
            }
        )
    head = {"id": request_id, "inputs": described, "parameters": {"binary_data_output": True}}
    return json.dumps(head).encode(), parts


def _packed(tensor: Tensor) -> bytes:
    """Little-endian values; a text is its length in 4 bytes and its UTF-8."""
    if tensor.datatype == "BYTES":
        texts = [str(value).encode() for value in tensor.data]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    dtype = np.dtype(triton_to_np_dtype(tensor.datatype)).newbyteorder("<")
    return np.asarray(tensor.data, dtype=dtype).tobytes()


def _outputs(body: bytes, headers: Mapping[str, str], who: str) -> tuple[dict[str, Any], ...]:
    try:
        length = int(headers.get(LENGTH_HEADER, len(body)))
        head = json.loads(body[:length])
        at, found = length, []
        for one in head["outputs"]:
            size = (one.get("parameters") or {}).get("binary_data_size")
            if size is None:
                data = one["data"]
            else:
                data = _unpacked(one["datatype"], body[at : at + size])
                at += size
            shape = [int(length) for length in one["shape"]]
            found.append(
                {"name": one["name"], "datatype": one["datatype"], "shape": shape, "data": data}
            )
    except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise Unavailable(
            f"{who} gave an answer that is none of the v2 protocol ({error}).",
            code="bad_answer",
            hint="See the node's log.",
            retryable=False,
        ) from error
    return tuple(found)


def _unpacked(datatype: str, data: bytes) -> list[Any]:
    if datatype == "BYTES":
        texts, at = [], 0
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at)
            texts.append(data[at + 4 : at + 4 + length].decode("utf-8", "replace"))
            at += 4 + length
        return texts
    dtype = triton_to_np_dtype(datatype)
    if dtype is None:
        raise ValueError(f"there is no data type {datatype}")
    values: list[Any] = np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).tolist()
    return values


def _refused(status: int, body: bytes, who: str) -> Invalid | Unavailable:
    text = body[:65_536].decode("utf-8", "replace")
    try:
        said = json.loads(text)
        words = str(said.get("detail") or said.get("error") or text)
    except (ValueError, AttributeError):
        words = text
    words = " ".join(words.split())[:MAX_WORDS] or "it gave no reason"
    if status in (400, 413, 415, 422) and "unknown model" not in words:
        return Invalid(
            f"{who} refused the request: {words}",
            code="infer_refused",
            hint="Read its own words: shapes and values have to be those that the graph can take.",
        )
    return Unavailable(
        f"{who} answered with status {status}: {words}",
        code="infer_failed",
        hint="Try again in a moment; when it stays so, see the endpoint's and the node's page.",
        retryable=status in (502, 503, 504),
    )


def _too_late(who: str, seconds: float) -> Unavailable:
    return Unavailable(
        f"{who} gave no answer within {seconds:g} seconds.",
        code="infer_timed_out",
        hint="Try it with fewer rows, and see the node's load.",
    )
