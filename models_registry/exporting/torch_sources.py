"""Open a PyTorch file of any of the three kinds as one callable on named arrays."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from picklescan.scanner import scan_file_path
from typing_extensions import override

from models_registry.exporting import module_code
from models_registry.exporting.module_source import Code
from models_registry.exporting.protocol import Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds

TORCHSCRIPT: Final = "torchscript"
TORCH_EXPORT: Final = "torch_export"
STATE_DICT: Final = "torch_state_dict"
FORMATS: Final = frozenset({TORCHSCRIPT, TORCH_EXPORT, STATE_DICT})

_STATE_KEYS: Final = (
    "state_dict",
    "model_state_dict",
    "model",
    "net",
    "module",
    "weights",
    "params",
    "ema",
)


class Flat(torch.nn.Module):
    """A module that gives its outputs as one flat tuple, whatever the inner one returns."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    @override
    def forward(self, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The inner module's tensors in order."""
        return tuple(tensor for _, tensor in flatten(self.inner(*arguments)))


@dataclass(frozen=True, slots=True)
class TorchSource:
    """An opened model. `order` are the names of inputs in the order of forward's arguments."""

    kind: str
    module: Any
    order: tuple[str, ...]
    program: Any = None

    def run(self, feeds: Feeds) -> list[tuple[str, Array]]:
        """Outputs by name; raises whatever the model raises."""
        with torch.no_grad():
            given = [torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in self.order]
            return [
                (name, tensor.detach().cpu().numpy())
                for name, tensor in flatten(self.module(*given))
            ]


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


def load(
    kind: str,
    path: Path,
    *,
    inputs: Sequence[TensorSpec],
    code: Code | None = None,
) -> TorchSource:
    """Open `path` as `kind`, in evaluation mode, on the CPU.

    `Refused` when it is not sound, not safe, or needs source that is missing.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    _scan(path)
    names = tuple(spec.name for spec in inputs)
    if kind == TORCHSCRIPT:
        opened = script(path)
        given = opened.forward.schema.arguments[1:]
        least = sum(not argument.has_default_value() for argument in given)
        return TorchSource(
            kind, opened, _ordered(names, [argument.name for argument in given], least)
        )
    if kind == TORCH_EXPORT:
        program = exported_program(path)
        order = _ordered(names, list(program.graph_signature.user_inputs))
        return TorchSource(kind, program.module(), order, program)
    if code is None:
        raise ValueError("a state dict is opened with its module's source")
    built = module_code.build(code, _state(path))
    return TorchSource(kind, built, names)


def _ordered(
    names: tuple[str, ...], arguments: Sequence[str], least: int | None = None
) -> tuple[str, ...]:
    """Inputs in forward's order: by name where the names agree, else as they were given."""
    least = len(arguments) if least is None else least
    if not least <= len(names) <= len(arguments):
        raise Refused(
            "inputs_do_not_fit",
            f"{len(names)} inputs are described where the model takes {len(arguments)}: "
            f"{', '.join(map(str, arguments))}.",
            "Describe each argument of forward, in its order.",
            "/inputs",
        )
    if set(names) == set(arguments):
        return tuple(arguments)
    return names


def _scan(path: Path) -> None:
    result = scan_file_path(str(path))
    if result.issues_count:
        found = sorted(
            f"{item.module}.{item.name}"
            for item in result.globals
            if item.safety.value == "dangerous"
        )
        raise Refused(
            "unsafe_pickle",
            f"Loading this file would run commands: {', '.join(found[:5])}.",
            "Do not open this file. Get the weights from a source you trust.",
        )


def _damaged(label: str, error: Exception) -> Refused:
    first = str(error).strip().partition("\n")[0][:300]
    return Refused(
        "torch_damaged",
        f"PyTorch cannot open the file as {label}: {first}",
        "Save it again with PyTorch 2, compare its SHA-256, and upload it once more.",
    )


def script(path: Path) -> Any:
    """The script module in evaluation mode; `Refused` when torch cannot open it."""
    try:
        return torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError, EOFError) as error:
        raise _damaged("TorchScript", error) from error


def exported_program(path: Path) -> Any:
    """The torch.export program; `Refused` when torch cannot open it."""
    try:
        return torch.export.load(str(path))
    except MemoryError:
        raise
    except Exception as error:
        raise _damaged("a torch.export program", error) from error


def _state(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a state dict or of the state dict inside a training checkpoint."""
    try:
        with torch.serialization.safe_globals(_numpy_scalars()):
            document = torch.load(str(path), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise Refused(
            "unsafe_pickle",
            f"The file holds more than weights: {str(error).strip().splitlines()[-1][:300]}",
            "Save only the weights: torch.save(model.state_dict(), …).",
        ) from error
    except (RuntimeError, ValueError, EOFError, KeyError) as error:
        raise _damaged("a state dict", error) from error
    found = _tensors(document)
    if not found:
        keys = (
            ", ".join(map(str, document))
            if isinstance(document, Mapping)
            else type(document).__name__
        )
        raise Refused(
            "no_weights",
            f"There are no weights in the file; it holds: {keys[:300]}.",
            "Save torch.save(model.state_dict(), …) or a dictionary with the key state_dict.",
        )
    return found


def _numpy_scalars() -> list[Any]:
    """What a metric kept as a numpy number needs, under numpy 1's names too."""
    scalar = np.float64(0).__reduce__()[0]
    kinds = [type(np.dtype(name)) for name in ("float64", "float32", "int64", "int32", "bool")]
    return [
        np.dtype,
        *kinds,
        (scalar, "numpy.core.multiarray.scalar"),
        (scalar, "numpy._core.multiarray.scalar"),
    ]


def _tensors(document: Any, depth: int = 0) -> dict[str, torch.Tensor]:
    if not isinstance(document, Mapping) or depth > 2:
        return {}
    for key in _STATE_KEYS:
        inner = _tensors(document.get(key), depth + 1)
        if inner:
            return inner
    if document and all(isinstance(value, torch.Tensor) for value in document.values()):
        return {str(key): value for key, value in document.items()}
    return {}
