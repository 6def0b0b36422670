"""The moves of a release, and whether a version keeps a contract."""

from __future__ import annotations

from collections.abc import Sequence

from console.errors import Conflict
from models_registry.exporting.protocol import TensorSpec
from models_registry.rules import tensors
from models_registry.rules.contract_types import ContractDocument, Tensor

MOVES: dict[str, frozenset[str]] = {
    "proposed": frozenset({"approved", "refused", "withdrawn"}),
    # An approved release that runs nowhere may be taken back; whether it runs is asked above.
    "approved": frozenset(),
    "refused": frozenset(),
    "withdrawn": frozenset(),
}


def may_move(before: str, after: str) -> bool:
    """Whether a release may go from one state to another."""
    return after in MOVES[before]


def check_move(before: str, after: str, subject: str) -> None:
    """Raise Conflict (`illegal_move`) unless `subject` may go from `before` to `after`."""
    if not may_move(before, after):
        raise Conflict(
            f"{subject} cannot become {after}: it is {before} already.",
            code="illegal_move",
            hint="Ask for a new release of the version.",
        )


def misfits(
    contract: ContractDocument,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    *,
    batched: bool,
) -> tuple[str, ...]:
    """Sentences on where a version's graph does not keep the contract's interface; () when it does.

    Names and dtypes must be the same. A fixed size in the contract may be served by a free axis
    (the contract is narrower); a free one in the contract needs a free axis. `batched`: Triton may
    batch, and then it serves what is batch alone with an axis of 1.
    """
    return (
        *_side("input", contract.interface.inputs, inputs, batched),
        *_side("output", contract.interface.outputs, outputs, batched),
    )


def _side(
    kind: str, promised: Sequence[Tensor], found: Sequence[TensorSpec], batched: bool
) -> tuple[str, ...]:
    there = {spec.name: spec for spec in found}
    faults = []
    for tensor in promised:
        spec = there.pop(tensor.name, None)
        if spec is None:
            faults.append(f"The contract's {kind} {tensor.name} is not in the model.")
            continue
        if spec.dtype != tensor.dtype:
            faults.append(
                f"The {kind} {tensor.name} is {spec.dtype} in the model and {tensor.dtype} in the "
                "contract."
            )
        served = tensors.as_served(spec, batched=batched)
        if not _fits(tensor.dims, spec.shape) and not _fits(tensor.dims, served.shape):
            faults.append(
                f"The {kind} {tensor.name} has the shape {_shape(spec)} in the model and "
                f"[{', '.join(map(str, tensor.dims))}] in the contract."
            )
    # An output more is the provider's own business, an input more is one that no caller sends.
    if kind == "input":
        faults.extend(f"The model's input {name} is not in the contract." for name in there)
    return tuple(faults)


def _fits(promised: Sequence[str | int], found: Sequence[int]) -> bool:
    return len(promised) == len(found) and all(
        size == -1 or (isinstance(wanted, int) and wanted == size)
        for wanted, size in zip(promised, found, strict=True)
    )


def _shape(spec: TensorSpec) -> str:
    dims = spec.dims or ("",) * len(spec.shape)
    parts = (name or str(size) for size, name in zip(spec.shape, dims, strict=True))
    return "[" + ", ".join(parts) + "]"
