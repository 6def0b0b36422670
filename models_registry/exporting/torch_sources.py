"""Open a PyTorch file of any of the three kinds as one callable on named arrays."""

from __future__ import annotations

import inspect
import pickle
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError

from models_registry.exporting import archives, module_code, torch_pickles
from models_registry.exporting.module_source import Code
from models_registry.exporting.protocol import Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.scanning import refuse_unsafe as refuse_unsafe
from models_registry.exporting.torch_outputs import as_array, flatten
from models_registry.exporting.torch_twin import Twin

TORCHSCRIPT: Final = "torchscript"
TORCH_EXPORT: Final = "torch_export"
STATE_DICT: Final = "torch_state_dict"
SAFETENSORS: Final = "safetensors"
PICKLED_MODULE: Final = "torch_pickled_module"
FORMATS: Final = frozenset({TORCHSCRIPT, TORCH_EXPORT, STATE_DICT, SAFETENSORS, PICKLED_MODULE})

_WAS_TRAINING: Final = (
    "The file was saved in training mode. It was put into evaluation mode, so dropout is off and "
    "batch norm uses its stored statistics; call model.eval() before saving."
)
_BY_MODE: Final = ("aten::dropout", "aten::feature_dropout", "aten::batch_norm", "aten::rrelu")
_PICKLED: Final = (
    "The file is a pickled Python object: opening it ran code that came with it, inside the "
    "sandbox. Save torch.save(model.state_dict(), …) or TorchScript instead."
)
_GRAPH_BYTES: Final = 64 * archives.MIB
_OPERATOR: Final = re.compile(r"torch\.ops\.(\w+)\.(\w+)")

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


@dataclass(frozen=True, slots=True)
class TorchSource:
    """An opened model. `order` are the names of inputs in the order of forward's arguments.

    `notes` are sentences for people; `twin` waits to export the file once more, where one was made.
    """

    kind: str
    module: Any
    order: tuple[str, ...]
    program: Any = None
    notes: tuple[str, ...] = ()
    twin: Twin | None = None

    def run(self, feeds: Feeds) -> list[tuple[str, Array]]:
        """Outputs by name; raises whatever the model raises."""
        with torch.no_grad():
            given = [torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in self.order]
            return [(name, as_array(name, tensor)) for name, tensor in flatten(self.module(*given))]


def load(
    kind: str,
    path: Path,
    *,
    inputs: Sequence[TensorSpec],
    code: Code | None = None,
    seed: int = 0,
) -> TorchSource:
    """Open `path` as `kind`, in evaluation mode, on the CPU.

    `seed` is that of every generator that a module's source may draw from while it is built.
    `Refused` when it is not sound, not safe, or needs source that is missing.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    refuse_unsafe(path)
    _refuse_text(inputs)
    names = tuple(spec.name for spec in inputs)
    if kind in {TORCHSCRIPT, TORCH_EXPORT} and code is not None:
        module_code.register_operators(code)
    if kind == TORCHSCRIPT:
        return _scripted(path, names)
    if kind == TORCH_EXPORT:
        program = exported_program(path)
        order = _ordered(names, list(program.graph_signature.user_inputs))
        return TorchSource(kind, program.module(), order, program)
    if code is None:
        raise ValueError(f"{kind} is opened with its module's source")
    pickled = kind == PICKLED_MODULE
    module = (
        torch_pickles.load(path, code)
        if pickled
        else module_code.build(code, tensors_of(kind, path))
    )
    _refuse_batch_statistics(module)
    order = _by_signature(module, names)
    return TorchSource(kind, module, order, notes=(_PICKLED,) if pickled else ())


def _refuse_batch_statistics(module: torch.nn.Module) -> None:
    """`Refused` for batch norm without stored statistics: it trains even in evaluation mode."""
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
            raise Refused(
                "training_mode",
                f"The batch norm “{name}” has no stored statistics (track_running_stats=False): it "
                "normalises with those of each batch, so that an answer would depend on the other "
                "requests.",
                "Train it with track_running_stats=True, or use GroupNorm or InstanceNorm.",
                "/module/entry",
            )


def _refuse_text(inputs: Sequence[TensorSpec]) -> None:
    for index, spec in enumerate(inputs):
        if spec.dtype == "BYTES":
            raise Refused(
                "dtype_not_supported",
                f"The input “{spec.name}” is described as text, which PyTorch has no tensors for.",
                "Describe the numbers that the model really takes (token numbers are INT64), and "
                "turn text into them before calling.",
                f"/inputs/{index}/dtype",
            )


def _scripted(path: Path, names: tuple[str, ...]) -> TorchSource:
    opened = script(path, evaluation=False)
    training = any(getattr(part, "training", False) for part in opened.modules()) and any(
        opened.inlined_graph.findNode(operator) is not None for operator in _BY_MODE
    )
    given = opened.forward.schema.arguments[1:]
    for argument in given:
        if not argument.has_default_value() and str(argument.type) in {"int", "float", "bool"}:
            raise Refused(
                "argument_not_a_tensor",
                f"forward takes “{argument.name}” as a plain {argument.type}, which is no tensor: "
                "no request can carry it.",
                "Script a small module around the model that fixes it, for example "
                f"forward(self, x): return self.model(x, {argument.name}=…), and upload that.",
                "/inputs",
            )
    least = sum(not argument.has_default_value() for argument in given)
    order = _ordered(names, [argument.name for argument in given], least)
    return TorchSource(
        TORCHSCRIPT, opened.eval(), order, notes=(_WAS_TRAINING,) if training else ()
    )


def _by_signature(module: torch.nn.Module, names: tuple[str, ...]) -> tuple[str, ...]:
    """Inputs in forward's order where they bear its names; else as they were given."""
    first = tuple(forward_arguments(module))[: len(names)]
    return first if set(first) == set(names) else names


def open_program(path: Path, code: Code | None) -> Any:
    """The torch.export program, after the source that registers its operators."""
    refuse_unsafe(path)
    if code is not None:
        module_code.register_operators(code)
    return exported_program(path)


def needed_arguments(module: torch.nn.Module) -> list[str]:
    """Names of forward's positional arguments without a default."""
    try:
        parameters = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return []
    free = inspect.Parameter.empty
    return [name for name in forward_arguments(module) if parameters[name].default is free]


def forward_arguments(module: torch.nn.Module) -> list[str]:
    """Names of forward's positional arguments, in order."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in positional]


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


def _damaged(label: str, error: Exception) -> Refused:
    first = str(error).strip().partition("\n")[0][:300]
    return Refused(
        "torch_damaged",
        f"PyTorch cannot open the file as {label}: {first}",
        "Save it again with PyTorch 2, compare its SHA-256, and upload it once more.",
    )


def _missing_operator(name: str) -> Refused:
    return Refused(
        "operator_missing",
        f"The model calls {name}, an operator that PyTorch does not have here.",
        "Upload the Python source that registers it (torch.library) with the model, and say how it "
        "is written in ONNX (see “Custom operators” in docs/export.md). What needs a compiled "
        "library cannot be loaded.",
        "/code_upload",
    )


def _unregistered(path: Path) -> str | None:
    """The first operator that a torch.export archive calls and PyTorch does not have."""
    with archives.open_zip(path) as archive:
        graphs = [name for name in archive.namelist() if name.endswith("models/model.json")]
        for name in graphs:
            with archive.open(name) as stream:
                text = stream.read(_GRAPH_BYTES).decode("utf-8", "replace")
            for space, operator in sorted(set(_OPERATOR.findall(text))):
                if not hasattr(getattr(torch.ops, space), operator):
                    return f"{space}::{operator}"
    return None


def script(path: Path, *, evaluation: bool = True) -> Any:
    """The script module, put into evaluation mode; `Refused` when torch cannot open it."""
    try:
        opened = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
        return opened.eval() if evaluation else opened
    except (RuntimeError, ValueError, EOFError) as error:
        unknown = re.search(r"Unknown builtin op: ([\w:]+)", str(error))
        if unknown:
            raise _missing_operator(unknown.group(1)) from error
        raise _damaged("TorchScript", error) from error


def exported_program(path: Path) -> Any:
    """The torch.export program; `Refused` when torch cannot open it."""
    try:
        return torch.export.load(str(path))
    except MemoryError:
        raise
    except Exception as error:
        name = _unregistered(path)
        if name is not None:
            raise _missing_operator(name) from error
        raise _damaged("a torch.export program", error) from error


def tensors_of(kind: str, path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a state dict, of the one inside a training checkpoint, or of safetensors."""
    if kind == SAFETENSORS:
        try:
            return safetensors.torch.load_file(str(path), device="cpu")
        except (SafetensorError, ValueError, KeyError) as error:
            raise _damaged("safetensors", error) from error
    try:
        with torch.serialization.safe_globals(_numpy_scalars()):
            document = torch.load(str(path), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        document = _with_stand_ins(path)
    except (RuntimeError, ValueError, EOFError, KeyError) as error:
        raise _damaged("a state dict", error) from error
    found = _tensors(document)
    if not found:
        keys = ", ".join(map(str, document)) if isinstance(document, Mapping) else ""
        keys = keys or "a Python object that only its own code could open"
        raise Refused(
            "no_weights",
            f"There are no weights in the file; it holds: {keys[:300]}.",
            "Save torch.save(model.state_dict(), …) or a dictionary with the key state_dict.",
        )
    return found


def _with_stand_ins(path: Path) -> Any:
    """A checkpoint that holds objects beside its weights, as training frameworks write them."""
    try:
        return torch_pickles.checkpoint(path)
    except MemoryError:
        raise
    except Exception as error:
        raise Refused(
            "torch_damaged",
            f"The weights cannot be read from among the other objects of the file: {error}"[:400],
            "Save only the weights: torch.save(model.state_dict(), …).",
        ) from error


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
