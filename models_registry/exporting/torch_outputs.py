"""What a PyTorch model returns, as flat named tensors, and as numpy has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch
from typing_extensions import override

from models_registry.exporting.protocol import Refused
from models_registry.exporting.sampling import Array

_CASTS: Final = {
    torch.bfloat16: "Return it as {}.float().",
    torch.complex64: "Return torch.view_as_real({}), or its parts as two outputs.",
    torch.complex128: "Return torch.view_as_real({}), or its parts as two outputs.",
}


class Flat(torch.nn.Module):
    """A module that gives its outputs as one flat tuple, whatever the inner one returns."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    @override
    def forward(self, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The inner module's tensors in order."""
        return tuple(tensor for _, tensor in flatten(self.inner(*arguments)))


def as_array(name: str, tensor: torch.Tensor) -> Array:
    """The output as numpy has it; `Refused`, with the cast to make, where Triton has no type."""
    plain = tensor.detach().cpu()
    try:
        array: Array = (plain.dequantize() if plain.is_quantized else plain).numpy()
    except TypeError:
        array = np.empty(0, np.complex64)
    if array.dtype.kind == "c":
        hint = _CASTS.get(plain.dtype, "Return it as {}.float().")
        raise Refused(
            "dtype_not_supported",
            f"The output “{name}” is {str(plain.dtype).removeprefix('torch.')}, which no request "
            "or answer of Triton's can hold.",
            f"{hint.format(name)} Weights and inner values may keep their type.",
            "/outputs",
        )
    return array


def flatten(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in a model's return value, named by keys and fields, else output_0, output_1 …"""
    named = list(_walk(value, name))
    if not named:
        raise Refused(
            "no_tensor_output", "The model returns no tensor.", "Return tensors from forward."
        )
    for index, (label, tensor) in enumerate(named):
        yield label or f"output_{index}", tensor


def _walk(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, f"{name}_{key}" if name else str(key))
    elif hasattr(value, "_fields"):
        for key in value._fields:
            yield from _walk(getattr(value, key), f"{name}_{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, f"{name}_{index}" if name else "")
    elif value is not None:
        raise Refused(
            "output_not_a_tensor",
            f"The model returns a {type(value).__name__} where a tensor is needed.",
            "Return tensors, tuples or dictionaries of tensors from forward.",
        )
