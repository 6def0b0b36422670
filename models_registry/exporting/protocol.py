"""What is asked of the sandboxed programs and what they answer: plain data, JSON both ways.

The worker's side calls `models_registry.adapters.sandbox.run(program, request.to_json(), files=…)`;
the programs (`propose`, `export`, `reference`, `validate`) read the request with `from_json`.
Standard library only: both sides import this module, and one of them may be a web process.

Tensors: `dtype` is Triton's name (FP32, INT64, BYTES …); `shape` has one size per axis, -1 where
free; `dims` has one name per axis, "" where the axis is fixed. A name beside a positive size means
"free, and this is a good size to try".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

Json = dict[str, Any]
Verdict = Literal["passed", "failed", "warning", "skipped"]

SOURCE = "source"
CODE = "code"
SAMPLE = "sample"
OPERATORS = "operators"
MODEL = "model.onnx"
MODEL_DATA = "model.onnx.data"
"""The weights of a model that is too large for one file, beside `MODEL`."""
BESIDE = "beside/"
"""Before the names of files that the source refers to; the program finds them beside `SOURCE`."""
REFERENCE = "reference.npz"
SAMPLE_REQUEST = "sample.json"
OWN_FILES = frozenset({SOURCE, CODE, SAMPLE, OPERATORS, MODEL, REFERENCE, SAMPLE_REQUEST})
"""Names that files beside a source cannot have."""
REPLAY = "replay.json"

DEFAULT_OPSET = 17
DEFAULT_TARGET = "24.10"
INLINE_BYTES = 1024**3
"""An ONNX file with more than this in all has its weights beside it: a protobuf message ends at
2 GB, and is held several times while it is checked and loaded."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output.

    `minimum`/`maximum` bound the values that are drawn (inputs) or allowed (outputs); None = open.
    `sums_to` (outputs) is what the values along the last axis add up to, as probabilities do.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    dims: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    sums_to: float | None = None

    def to_json(self) -> Json:
        """The field names of the API and of the contract: min, max, sums_to."""
        document: Json = {
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "dims": list(self.dims),
        }
        if self.minimum is not None:
            document["min"] = self.minimum
        if self.maximum is not None:
            document["max"] = self.maximum
        if self.sums_to is not None:
            document["sums_to"] = self.sums_to
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`; lenient input from people goes through `rules.tensors.parse`."""
        return cls(
            name=str(document["name"]),
            dtype=str(document["dtype"]),
            shape=tuple(int(size) for size in document.get("shape", ())),
            dims=tuple(str(name) for name in document.get("dims", ())),
            minimum=document.get("min"),
            maximum=document.get("max"),
            sums_to=document.get("sums_to"),
        )


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """How to build the module that a state dict belongs to.

    `entry` is "net.py:TinyResNet", "TinyResNet" or "TinyResNet()"; the file part may be left out
    when only one file defines the name. `arguments` are the constructor's keyword arguments.
    """

    entry: str = ""
    arguments: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProposeRequest:
    """Program `propose`; files: source, and sample, code where there are any.

    What the file says of inputs and outputs, and what running it shows. `seconds` bounds the tries.
    """

    source_format: str
    module: ModuleSource = field(default_factory=ModuleSource)
    seconds: float = 25.0

    def to_json(self) -> Json:
        """See the class."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(
            source_format=str(document["source_format"]),
            module=ModuleSource(**document.get("module", {})),
            seconds=float(document.get("seconds", 25.0)),
        )


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Program `export`; files: source, and code for a state dict, sample where the user gave one.

    `inputs` may be empty for ONNX, which names its own. `outputs` renames the outputs in order;
    empty keeps what the model calls them. `target` is a Triton release of `rules.opsets`.
    One inference that takes longer than `inference_seconds` is stopped and refused. Above
    `inline_bytes` the weights are written beside the graph, as model.onnx.data.
    """

    source_format: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...] = ()
    opset: int = DEFAULT_OPSET
    target: str = DEFAULT_TARGET
    module: ModuleSource = field(default_factory=ModuleSource)
    inference_seconds: float = 30.0
    inline_bytes: int = INLINE_BYTES

    def to_json(self) -> Json:
        """See the class."""
        return {
            "source_format": self.source_format,
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": list(self.outputs),
            "opset": self.opset,
            "target": self.target,
            "module": asdict(self.module),
            "inference_seconds": self.inference_seconds,
            "inline_bytes": self.inline_bytes,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(
            source_format=str(document["source_format"]),
            inputs=tuple(TensorSpec.from_json(item) for item in document["inputs"]),
            outputs=tuple(document.get("outputs", ())),
            opset=int(document.get("opset", DEFAULT_OPSET)),
            target=str(document.get("target", DEFAULT_TARGET)),
            module=ModuleSource(**document.get("module", {})),
            inference_seconds=float(document.get("inference_seconds", 30.0)),
            inline_bytes=int(document.get("inline_bytes", INLINE_BYTES)),
        )


@dataclass(frozen=True, slots=True)
class ExportFacts:
    """What `export` found out about the file that it wrote (`model.onnx`).

    `inputs`/`outputs` are those of the written file, `shape` -1 where really free.
    `batch_axis` is 0 when every input and output has the batch first and other sizes really ran;
    None means that Triton must not batch (max_batch_size 0). `sizes` are the sizes of each free
    axis, by name, at which the file was run; `ranges` the values drawn for inputs without a range
    of their own (see `sampling.Ranges`).
    `data_sha256` and `data_size` are those of `model.onnx.data`, "" and 0 where there is none.
    `libraries` are the names of the custom operator libraries that the graph needs.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batch_axis: int | None
    opset: int
    ir_version: int
    operators: dict[str, int]
    parameters: int
    size_bytes: int
    sha256: str
    exporter: str
    producer: str
    sizes: dict[str, list[int]] = field(default_factory=dict)
    ranges: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    data_sha256: str = ""
    data_size: int = 0
    libraries: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """See the class."""
        return {
            **asdict(self),
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
            "warnings": list(self.warnings),
            "libraries": list(self.libraries),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(
            **{
                **document,
                "inputs": tuple(TensorSpec.from_json(item) for item in document["inputs"]),
                "outputs": tuple(TensorSpec.from_json(item) for item in document["outputs"]),
                "warnings": tuple(document.get("warnings", ())),
                "libraries": tuple(document.get("libraries", ())),
            }
        )


@dataclass(frozen=True, slots=True)
class OptimiseRequest:
    """Program `optimise`; file: the original's model.onnx, which `facts` describe.

    Answer: ExportFacts.

    `optimisation` is one of `rules.optimisations`. Without `keep_io`, FP16 takes and gives FP16.
    """

    optimisation: str
    facts: ExportFacts
    target: str = DEFAULT_TARGET
    keep_io: bool = True
    inference_seconds: float = 30.0

    def to_json(self) -> Json:
        """See the class."""
        return {
            "optimisation": self.optimisation,
            "facts": self.facts.to_json(),
            "target": self.target,
            "keep_io": self.keep_io,
            "inference_seconds": self.inference_seconds,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(**{**document, "facts": ExportFacts.from_json(document["facts"])})


@dataclass(frozen=True, slots=True)
class ValidateRequest:
    """Program `validate`; files: source, model.onnx, and code, sample where there are any.

    `inputs` carry the ranges to draw from; `outputs` (of the contract, may be empty) the promised
    dtype, dims and ranges. `atol`/`rtol` None: by the least precise dtype (rules.equivalence).
    `batches` are the batch sizes to run: 1, 2 and the largest that the configuration would allow;
    latency and memory are measured at the powers of two between as well. `p95_ms` None: latency is
    told, not judged. `optimisation` is how model.onnx was derived from the source's export
    (`rules.optimisations`), "" for the export itself: it sets the tolerance.
    `source_types` are the data types of inputs that the source takes in another one than the file.
    """

    source_format: str
    facts: ExportFacts
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...] = ()
    module: ModuleSource = field(default_factory=ModuleSource)
    target: str = DEFAULT_TARGET
    samples: int = 100
    seed: int = 0
    atol: float | None = None
    rtol: float | None = None
    batches: tuple[int, ...] = (1, 2, 8)
    p95_ms: float | None = None
    timed_runs: int = 50
    inference_seconds: float = 30.0
    optimisation: str = ""
    source_types: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> Json:
        """See the class."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "facts": self.facts.to_json(),
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
            "module": asdict(self.module),
            "batches": list(self.batches),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(
            **{name: document[name] for name in _PLAIN if name in document},
            facts=ExportFacts.from_json(document["facts"]),
            inputs=tuple(TensorSpec.from_json(item) for item in document["inputs"]),
            outputs=tuple(TensorSpec.from_json(item) for item in document.get("outputs", ())),
            module=ModuleSource(**document.get("module", {})),
            batches=tuple(int(size) for size in document.get("batches", (1, 2, 8))),
        )


_PLAIN = (
    "source_format",
    "target",
    "samples",
    "seed",
    "atol",
    "rtol",
    "p95_ms",
    "timed_runs",
    "inference_seconds",
    "optimisation",
    "source_types",
)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the validation report.

    `measured` and `limit` share `unit` where both are numbers; `detail` says what was seen in one
    sentence, `fix` what to do about it (empty when passed).
    """

    id: str
    title: str
    group: str
    verdict: Verdict
    measured: float | str | None = None
    limit: float | str | None = None
    unit: str = ""
    detail: str = ""
    fix: str = ""

    def to_json(self) -> Json:
        """See the class."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The program understood the input and will not take it; nothing to retry."""

    code: str
    message: str
    hint: str = ""
    pointer: str = ""

    def to_json(self) -> Json:
        """See the class."""
        return asdict(self)


class Refused(Exception):
    """Raised inside a program to end with a refusal."""

    def __init__(self, code: str, message: str, hint: str = "", pointer: str = "") -> None:
        super().__init__(message)
        self.refusal = Refusal(code, message, hint, pointer)
