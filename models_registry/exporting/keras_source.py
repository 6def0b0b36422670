"""A Keras model on the PyTorch backend: from there it goes the way of any other torch module.

Keras 3 reads its own archive (.keras) and the HDF5 files of Keras 2, whatever backend trained them.
Safe mode stays on: Python code inside the file is never run (keras.saving, "safe_mode").
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from models_registry.exporting import harness, module_code, module_source, protocol, scanning
from models_registry.exporting.harness import WORK, is_memory_error
from models_registry.exporting.protocol import Json, ModuleSource, Refused, TensorSpec
from models_registry.exporting.sources import Opening
from models_registry.exporting.torch_sources import TorchSource
from models_registry.rules import tensors

os.environ["KERAS_BACKEND"] = "torch"

import h5py
import keras  # reads the backend's name while it is imported
import torch
from typing_extensions import override

# Names that Keras 2 and Keras 3 give to what they keep in a file of weights.
_LAYERS: Final = {"layer_names", "layers", "_layer_checkpoint_dependencies", "vars"}
_WAY_OUT: Final = (
    "Where it was trained, export it: model.export('model.onnx', format='onnx'), and upload that."
)


class Inference(torch.nn.Module):
    """The model in inference mode, taking its inputs one by one and naming its outputs."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    @override
    def forward(self, *given: torch.Tensor) -> dict[str, torch.Tensor]:
        """Outputs by name, in the model's order."""
        answer = self.model(list(given) if len(given) > 1 else given[0], training=False)
        return dict(zip(output_names(self.model), _listed(answer), strict=True))


def open_source(
    opening: Opening,
) -> tuple[tuple[TensorSpec, ...], TorchSource, dict[str, list[Any]]]:
    """The described inputs, else the model's own; what runs and exports it; values to draw."""
    model = load(opening.path, opening.module)
    own = inputs_of(model)
    inputs = opening.inputs or own
    if len(inputs) != len(own):
        raise Refused(
            "inputs_do_not_fit",
            f"{len(inputs)} inputs are described where the model takes {len(own)}: "
            f"{', '.join(spec.name for spec in own)}.",
            "Describe each input, in the model's order, or none.",
            "/inputs",
        )
    names = {spec.name for spec in own}
    given = {spec.name for spec in inputs}
    order = tuple(spec.name for spec in (own if names == given else inputs))
    module = Inference(model).eval()
    return inputs, TorchSource("keras", module, order), _ranges(model, own, order)


def _ranges(model: Any, own: Sequence[TensorSpec], order: Sequence[str]) -> dict[str, list[Any]]:
    """Numbers of tokens that the embedding behind an input knows."""
    found: dict[str, list[Any]] = {}
    for layer in model.layers:
        size = getattr(layer, "input_dim", None)
        given = getattr(layer, "input", None)
        known = getattr(given, "name", None)
        if type(layer).__name__ == "Embedding" and size and known is not None:
            for spec, name in zip(own, order, strict=True):
                if spec.name == known:
                    found[name] = [0.0, float(size - 1)]
    return found


def proposal(path: Path) -> Json:
    """Inputs and outputs as the model's own graph has them."""
    model = load(path, ModuleSource())
    outputs = [
        _spec(name, tensor)
        for name, tensor in zip(output_names(model), _listed(model.outputs), strict=True)
    ]
    return {
        "inputs": [spec.to_json() for spec in inputs_of(model)],
        "outputs": [spec.to_json() for spec in outputs],
        "notes": [],
    }


def load(path: Path, module: ModuleSource) -> Any:
    """The model without its training configuration; `Refused` with what is wrong and the way out.

    Source that came with it is imported first: it may register layers of its own
    (keras.saving.register_keras_serializable).
    """
    scanning.refuse_unsafe(path)
    torch.set_num_threads(1)
    keras.utils.set_random_seed(0)
    given = harness.input_file(protocol.CODE)
    if given is not None:
        code = module_source.prepare(given, module, WORK / "code")
        for file in code.files:
            module_code.load_file(file, code.folder)
    with path.open("rb") as stream:
        hdf5 = stream.read(8) == b"\x89HDF\r\n\x1a\n"
    named = WORK / ("model.h5" if hdf5 else "model.keras")  # Keras goes by the name's end
    named.unlink(missing_ok=True)
    named.symlink_to(path)
    if hdf5:
        _refuse_weights_only(path)
    try:
        model = keras.saving.load_model(str(named), compile=False, safe_mode=True)
    except (Refused, MemoryError):
        raise
    except Exception as error:
        if is_memory_error(error):
            raise MemoryError(str(error)) from error
        raise _not_opened(error) from error
    if not getattr(model, "inputs", None):
        raise Refused(
            "inputs_missing",
            f"The Keras model {type(model).__name__} does not say what its inputs are: it is "
            "subclassed, or was never built.",
            "Build it as a functional or Sequential model with keras.Input, or export it: "
            + _WAY_OUT,
        )
    return model


def _refuse_weights_only(path: Path) -> None:
    try:
        with h5py.File(path, "r") as file:
            whole, weights = "model_config" in file.attrs, bool(_LAYERS & {*file, *file.attrs})
    except (OSError, RuntimeError, ValueError) as error:
        raise Refused(
            "keras_damaged",
            f"The HDF5 file cannot be read: {str(error)[:300]}",
            "It is probably cut off: save the model again and upload it once more.",
        ) from error
    if not whole and not weights:
        raise Refused(
            "not_a_model",
            "The HDF5 file holds data, but no model and no weights of Keras.",
            "Save the model with model.save('model.keras') and upload that.",
        )
    if not whole:
        raise Refused(
            "weights_only",
            "The HDF5 file holds weights only: which layers they belong to is not in it.",
            "Save the whole model: model.save('model.keras') instead of save_weights.",
        )


def _not_opened(error: Exception) -> Refused:
    text = " ".join(str(error).split())
    if "Could not locate class" in text or "Unknown layer" in text or "Could not locate" in text:
        return Refused(
            "layer_not_known",
            f"The Keras model uses a layer that is not part of Keras: {text[:300]}",
            "Upload the source that defines it and registers it with "
            "keras.saving.register_keras_serializable, or: " + _WAY_OUT,
            "/code_upload",
        )
    if "safe_mode" in text or "lambda" in text.lower():
        return Refused(
            "unsafe_lambda",
            "The Keras model has Python code inside (a Lambda layer), which is not run.",
            "Replace the Lambda by built-in layers or keras.ops, or: " + _WAY_OUT,
        )
    return Refused(
        "keras_damaged",
        f"Keras {keras.__version__} cannot open the file: {type(error).__name__}: {text[:300]}",
        f"Save it again with model.save('model.keras') in Keras 3, or: {_WAY_OUT}",
    )


def _listed(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def output_names(model: Any) -> list[str]:
    """The outputs' names, made unique."""
    names = [str(name) for name in getattr(model, "output_names", [])]
    count = len(_listed(model.outputs))
    names = names if len(names) == count else [f"output_{index}" for index in range(count)]
    return [
        f"{name}_{index}" if names.count(name) > 1 else name for index, name in enumerate(names)
    ]


def inputs_of(model: Any) -> tuple[TensorSpec, ...]:
    """The model's inputs in order, free axes named."""
    return tuple(_spec(str(tensor.name), tensor) for tensor in _listed(model.inputs))


def _spec(name: str, tensor: Any) -> TensorSpec:
    shape = tuple(-1 if size is None else int(size) for size in tensor.shape)
    dims = tuple(
        "" if size != -1 else tensors.BATCH if axis == 0 else f"dim_{axis}"
        for axis, size in enumerate(shape)
    )
    return TensorSpec(name, tensors.dtype(str(tensor.dtype)), shape, dims)
