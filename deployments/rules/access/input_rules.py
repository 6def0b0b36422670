"""What a gateway checks of each request before any version gets it, read from the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from models_registry.rules.contract_types import Interface, Tensor

BATCH = "batch"
_FLOATS = frozenset({"FP16", "BF16", "FP32", "FP64"})


@dataclass(frozen=True, slots=True)
class InputRule:
    """One input: a dimension that varies is a name; limits are None where nothing is promised."""

    name: str
    datatype: str
    dims: tuple[str | int, ...]
    minimum: float | None = None
    maximum: float | None = None
    refuse_nan: bool = False


@dataclass(frozen=True, slots=True)
class InputRules:
    """Every input must be there, nothing else may be; `most_rows` is None without a limit."""

    inputs: tuple[InputRule, ...]
    outputs: tuple[str, ...]
    most_rows: int | None = None


@dataclass(frozen=True, slots=True)
class ServedInterface:
    """What one version's own export found: data type and shape (-1: varies) of each input.

    `most_rows` is 0 where the version takes no batches, and None where nothing is known.
    """

    inputs: Mapping[str, tuple[str, tuple[int, ...]]]
    most_rows: int | None = None

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], origins: Mapping[str, Any]) -> ServedInterface:
        """From a version's stored `facts` and `config_origins`."""
        inputs = {
            str(spec["name"]): (str(spec["dtype"]), tuple(int(size) for size in spec["shape"]))
            for spec in facts.get("inputs", ())
        }
        rows = origins.get("max_batch_size", {}).get("value")
        return cls(inputs, int(rows) if isinstance(rows, int) else None)


def rules_of(interface: Interface, versions: Iterable[ServedInterface]) -> InputRules | None:
    """What to check for a contract whose endpoint has these versions.

    None where some version takes other inputs than the contract says (an older one that still
    serves while a contract changes them): no valid request may be refused, so only what holds for
    every model is checked then. The largest batch is that of the version that takes the largest.
    """
    served = list(versions)
    if not all(_takes(version, interface.inputs) for version in served):
        return None
    rows = [version.most_rows for version in served]
    limits = [most for most in rows if most]
    return InputRules(
        inputs=tuple(_rule(tensor) for tensor in interface.inputs),
        outputs=tuple(tensor.name for tensor in interface.outputs),
        most_rows=max(limits) if limits and len(limits) == len(rows) else None,
    )


def _rule(tensor: Tensor) -> InputRule:
    return InputRule(
        name=tensor.name,
        datatype=tensor.dtype,
        dims=tensor.dims,
        minimum=tensor.minimum,
        maximum=tensor.maximum,
        refuse_nan=tensor.nan == "refuse" and tensor.dtype in _FLOATS,
    )


def _takes(version: ServedInterface, inputs: tuple[Tensor, ...]) -> bool:
    # Of a version without facts nothing is known that the contract's signers did not know.
    if not version.inputs:
        return True
    if set(version.inputs) != {tensor.name for tensor in inputs}:
        return False
    return all(_fits(tensor, *version.inputs[tensor.name]) for tensor in inputs)


def _fits(tensor: Tensor, datatype: str, shape: tuple[int, ...]) -> bool:
    if datatype != tensor.dtype or len(shape) != len(tensor.dims):
        return False
    return all(
        not isinstance(wanted, int) or size in (-1, wanted)
        for wanted, size in zip(tensor.dims, shape, strict=True)
    )
