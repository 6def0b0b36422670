"""Triton Inference Server over gRPC: control, inference, statistics.

Control never goes over HTTP: there a load occupies one of the threads that serve inference.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import grpc
import numpy as np
import tritonclient.grpc as triton_grpc
from tritonclient.utils import (
    InferenceServerException,
    np_to_triton_dtype,
    triton_to_np_dtype,
)

from console.errors import Invalid, Unavailable

KEY_HEADER = "triton-grpc-protocol-covenant-key"
"""Metadata that unlocks what Triton was told to restrict with the key name `covenant-key`."""

_RETRYABLE = {
    "StatusCode.UNAVAILABLE",
    "StatusCode.DEADLINE_EXCEEDED",
    "StatusCode.RESOURCE_EXHAUSTED",
    "StatusCode.CANCELLED",
}
_REFUSED = {
    "StatusCode.INVALID_ARGUMENT",
    "StatusCode.NOT_FOUND",
    "StatusCode.FAILED_PRECONDITION",
    "StatusCode.ALREADY_EXISTS",
    "StatusCode.OUT_OF_RANGE",
    "StatusCode.UNIMPLEMENTED",
}

JSONTensor = Mapping[str, Any]
"""A tensor of the v2 protocol: name, datatype, shape, data (flat or nested list)."""


LOADED_IN_TIME_BYTES = 2 * 1024**3
"""What a slow disk and one core load within the time that any model has."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds that each kind of call may take."""

    control_s: float = 5.0
    load_s: float = 120.0
    infer_s: float = 10.0


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A version in the model repository; `state` READY, UNAVAILABLE, LOADING …, "" if not known."""

    name: str
    version: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Duration:
    """How often something happened, and how long it took in all, in nanoseconds."""

    count: int
    ns: int


@dataclass(frozen=True, slots=True)
class VersionStatistics:
    """Triton's totals of one version since it was loaded."""

    model: str
    version: int
    inference_count: int
    execution_count: int
    last_inference_ms: int
    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    batches: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class InferAnswer:
    """What a model answered: v2 JSON tensors with flat data, and the time it took."""

    model: str
    version: str
    outputs: tuple[dict[str, Any], ...]
    duration_ms: float


class TritonClient:
    """One Triton at `grpc_url` ("host:port"); keeps its connection and may be shared by threads.

    Every call may raise Unavailable (cannot be reached, too late, broken inside; `retryable` says
    whether to try again) or Invalid (Triton refuses what it was given, in its own words).
    """

    def __init__(
        self, grpc_url: str, *, repository_key: str = "", timeouts: Timeouts | None = None
    ) -> None:
        self.grpc_url = grpc_url
        self._timeouts = timeouts or Timeouts()
        self._headers = {KEY_HEADER: repository_key} if repository_key else None
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            # After a restart of Triton, look for it again at once and not after minutes.
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.min_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # A channel of its own: two clients of one process share no broken connection.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._client = triton_grpc.InferenceServerClient(grpc_url, channel_args=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the client cannot be used any more."""
        self._client.close()

    def live(self) -> bool:
        """Whether the server answers that it is alive; False when it does not answer."""
        return self._answers(self._client.is_server_live)

    def ready(self) -> bool:
        """Whether the server answers that it is ready; False when it does not answer."""
        return self._answers(self._client.is_server_ready)

    def metadata(self) -> ServerMetadata:
        """The server's name, version and extensions."""
        with self._explained("does not describe itself"):
            found = self._client.get_server_metadata(client_timeout=self._timeouts.control_s)
        return ServerMetadata(found.name, found.version, tuple(found.extensions))

    def index(self) -> tuple[IndexEntry, ...]:
        """What the model repository holds, in the server's own words on what failed to load."""
        with self._explained("does not list its model repository"):
            found = self._client.get_model_repository_index(
                headers=self._headers, client_timeout=self._timeouts.control_s
            )
        return tuple(IndexEntry(m.name, m.version, m.state, m.reason) for m in found.models)

    def load(self, model: str, *, size_bytes: int = 0) -> None:
        """Load the versions whose folders are present and not loaded, drop those without folder.

        With `config.pbtxt` unchanged, versions that serve go on undisturbed. Returns when done;
        `size_bytes` of files to load give it longer.
        """
        patience = self._timeouts.load_s * (1 + size_bytes / LOADED_IN_TIME_BYTES)
        with self._explained(f"does not load {model}", refusal="load_failed"):
            self._client.load_model(model, headers=self._headers, client_timeout=patience)

    def unload(self, model: str) -> None:
        """Unload every version of a model; returns before requests in flight have ended."""
        with self._explained(f"does not unload {model}"):
            self._client.unload_model(
                model, headers=self._headers, client_timeout=self._timeouts.control_s
            )

    def model_ready(self, model: str, version: int | str = "") -> bool:
        """Whether the version (without one: the model) takes requests; False when not loaded."""
        with self._explained(f"does not say whether {model} is ready"):
            try:
                return bool(
                    self._client.is_model_ready(
                        model, str(version), client_timeout=self._timeouts.control_s
                    )
                )
            except InferenceServerException as fault:
                if fault.status() in _REFUSED:
                    return False
                raise

    def config(self, model: str, version: int | str = "") -> Any:
        """The `ModelConfig` message as Triton completed it."""
        with self._explained(f"does not give the config of {model}"):
            return self._client.get_model_config(
                model, str(version), client_timeout=self._timeouts.control_s
            ).config

    def infer(
        self,
        model: str,
        version: int | str,
        inputs: Sequence[JSONTensor],
        *,
        outputs: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> InferAnswer:
        """Run one request. `outputs` names those that are wanted; none means all.

        Raises Invalid when the tensors are no tensors, or when Triton or the model refuses them.
        """
        wanted = [triton_grpc.InferRequestedOutput(name) for name in outputs]
        given = [_to_input(tensor) for tensor in inputs]
        start = time.perf_counter()
        with self._explained(f"does not run {model} version {version}", refusal="infer_refused"):
            result = self._client.infer(
                model,
                given,
                model_version=str(version),
                outputs=wanted or None,
                client_timeout=timeout_s or self._timeouts.infer_s,
            )
        took = (time.perf_counter() - start) * 1000
        reply = result.get_response()
        found = tuple(
            _to_json(output.name, output.datatype, result.as_numpy(output.name))
            for output in reply.outputs
        )
        return InferAnswer(reply.model_name, reply.model_version, found, took)

    def statistics(self, model: str = "", version: int | str = "") -> tuple[VersionStatistics, ...]:
        """Totals of each loaded version; they start at zero when the version is loaded."""
        with self._explained("does not give its statistics"):
            found = self._client.get_inference_statistics(
                model, str(version), client_timeout=self._timeouts.control_s
            )
        return tuple(_statistics(entry) for entry in found.model_stats)

    def _answers(self, question: Any) -> bool:
        try:
            return bool(question(client_timeout=self._timeouts.control_s))
        except (InferenceServerException, grpc.RpcError):
            return False

    @contextmanager
    def _explained(self, failing: str, *, refusal: str = "triton_refused") -> Iterator[None]:
        """Turn the client library's errors into ours."""
        try:
            yield
        except InferenceServerException as fault:
            raise self._error(fault, failing, refusal) from fault

    def _error(
        self, fault: InferenceServerException, failing: str, refusal: str
    ) -> Invalid | Unavailable:
        status, words = fault.status() or "", (fault.message() or "").strip()
        message = f"Triton at {self.grpc_url} {failing}: {words or status}"
        message += "" if message.endswith(".") else "."
        if "restricted" in words or "no access" in words:
            return Unavailable(
                message,
                code="triton_key_refused",
                hint="The node's repository key differs from the one Triton was started with.",
                retryable=False,
            )
        if status in _REFUSED or (refusal != "triton_refused" and status not in _RETRYABLE):
            return Invalid(message, code=refusal, hint="Read Triton's own words above.")
        hint = "Check that Triton runs on the node and that its address is right."
        if status == "StatusCode.DEADLINE_EXCEEDED":
            hint = "Triton took too long; look at the node's load, then try again."
        return Unavailable(
            message, code="triton_unavailable", hint=hint, retryable=status in _RETRYABLE
        )


def _to_input(tensor: JSONTensor) -> Any:
    try:
        name, datatype, shape = str(tensor["name"]), str(tensor["datatype"]), tensor["shape"]
        dtype = triton_to_np_dtype(datatype)
        if dtype is None:
            raise ValueError(f"there is no datatype {datatype}")
        if dtype == np.object_:
            flat = [str(item).encode() for item in _flat(tensor["data"])]
            array = np.array(flat, dtype=np.object_).reshape(shape)
        else:
            array = np.asarray(tensor["data"], dtype=dtype).reshape(shape)
        made = triton_grpc.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        made.set_data_from_numpy(array)
    except (KeyError, TypeError, ValueError, OverflowError, InferenceServerException) as fault:
        raise Invalid(
            f"The input {tensor.get('name', '?')} is no tensor of the v2 protocol: {fault}.",
            code="invalid_tensor",
            hint="Give name, datatype, shape, and as much data as the shape holds.",
        ) from fault
    return made


def _flat(data: Any) -> list[Any]:
    if not isinstance(data, list | tuple):
        return [data]
    return [item for part in data for item in _flat(part)]


def _to_json(name: str, datatype: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    data = array.reshape(-1).tolist()
    if datatype == "BYTES":
        data = [i.decode("utf-8", "replace") if isinstance(i, bytes) else str(i) for i in data]
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": data}


def _statistics(entry: Any) -> VersionStatistics:
    totals = entry.inference_stats

    def of(name: str) -> Duration:
        part = getattr(totals, name)
        return Duration(int(part.count), int(part.ns))

    return VersionStatistics(
        model=entry.name,
        version=int(entry.version),
        inference_count=int(entry.inference_count),
        execution_count=int(entry.execution_count),
        last_inference_ms=int(entry.last_inference),
        success=of("success"),
        fail=of("fail"),
        queue=of("queue"),
        compute_input=of("compute_input"),
        compute_infer=of("compute_infer"),
        compute_output=of("compute_output"),
        batches=tuple((int(b.batch_size), int(b.compute_infer.count)) for b in entry.batch_stats),
    )
