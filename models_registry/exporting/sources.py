"""One door to every format: what is opened here can be run and exported, whatever it came from.

`export`, `reference` and `propose` know no format. A framework is imported by the opener that needs
it and by nothing else: a table of trees costs no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol

from models_registry.exporting.harness import Reporter
from models_registry.exporting.module_source import code_of
from models_registry.exporting.protocol import (
    INLINE_BYTES,
    Json,
    ModuleSource,
    Refused,
    TensorSpec,
)
from models_registry.exporting.sampling import Array, Feeds


class Source(Protocol):
    """An opened model.

    `inputs` are those that it is run with: as the person described them, else as it says itself.
    `ranges` are values worth trying, by input (see `sampling.draw`). `keeps_names`: the file has
    names of its own for its outputs and is served as it is (ONNX).
    """

    @property
    def inputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def ranges(self) -> dict[str, list[Any]]: ...

    @property
    def keeps_names(self) -> bool: ...

    def run(self, feeds: Feeds) -> list[tuple[str, Array]]:
        """Outputs by name, in order; raises whatever the model raises."""
        ...

    def export(self, path: Path, wanted: Wanted) -> tuple[str, list[str]]:
        """Write the ONNX file; the exporter in words, and warnings. `Refused` where it cannot."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to export: `feeds` ran in the source, `outputs` are the names to give, in order."""

    feeds: Feeds
    outputs: list[str]
    opset: int
    target: str
    reporter: Reporter


@dataclass(frozen=True, slots=True)
class Opening:
    """What an opener gets. `inputs` may be empty: then the file must say what they are.

    `apart`: opened as the reference of a comparison, in a process that does not export.
    `inline_bytes`: see `protocol.ExportRequest`.
    """

    source_format: str
    path: Path
    inputs: tuple[TensorSpec, ...]
    module: ModuleSource = field(default_factory=ModuleSource)
    target: str = ""
    seconds: float = 30.0
    apart: bool = False
    inline_bytes: int = INLINE_BYTES


def open_source(opening: Opening) -> Source:
    """The model in the file. `Refused` when it is not sound, not safe or not of a known format."""
    opener = _OPENERS.get(opening.source_format)
    if opener is None:
        raise Refused(
            "format_not_supported",
            f"Files of the format “{opening.source_format}” cannot be exported.",
            f"Formats are {', '.join(_OPENERS)}.",
        )
    return opener(opening)


def propose(source_format: str, path: Path) -> Json | None:
    """Inputs, outputs and notes of formats that say them; None for those of ONNX and PyTorch."""
    if source_format == "keras":
        from models_registry.exporting import keras_source  # brings Keras and torch

        return keras_source.proposal(path)
    if source_format not in _TABULAR:
        return None
    from models_registry.exporting import tabular_source  # brings pandas and scikit-learn

    return tabular_source.proposal(source_format, path)


def framework(source_format: str) -> str:
    """What a comparison is made with, in words; looks at what is installed, imports nothing."""
    if source_format in {"onnx", "onnx_archive"}:
        return "the uploaded ONNX file in ONNX Runtime with graph optimisations off"
    words, package, what = _FRAMEWORKS.get(source_format, _FRAMEWORKS["torch"])
    return f"{words} {metadata.version(package)} {what}"


_FRAMEWORKS: Final = {
    "torch": ("PyTorch", "torch", "on the CPU in evaluation mode"),
    "sklearn": ("scikit-learn", "scikit-learn", "(predict and predict_proba)"),
    "skops": ("scikit-learn", "scikit-learn", "(predict and predict_proba)"),
    "xgboost": ("XGBoost", "xgboost-cpu", "(predict)"),
    "lightgbm": ("LightGBM", "lightgbm", "(predict)"),
    "catboost": ("CatBoost", "catboost", "(predict)"),
    "keras": ("Keras", "keras", "on PyTorch, in inference mode"),
}


# Openers


def _onnx(opening: Opening) -> Source:
    from models_registry.exporting import onnx_source  # ONNX Runtime

    return onnx_source.reference(opening) if opening.apart else onnx_source.to_export(opening)


def _torch(opening: Opening) -> Source:
    if not opening.inputs:
        raise Refused(
            "inputs_missing",
            "The file does not say what its inputs are.",
            "Describe each input: name, data type and shape, for example features FP32 [-1, 10].",
            "/inputs",
        )
    code = code_of(opening.source_format, opening.module)
    from models_registry.exporting import torch_export, torch_sources  # torch takes two seconds

    opened = torch_sources.load if opening.apart else torch_export.open_file
    loaded = opened(opening.source_format, opening.path, inputs=opening.inputs, code=code)
    return TorchModel(opening.inputs, loaded)


def _tabular(opening: Opening) -> Source:
    from models_registry.exporting import tabular_source  # brings pandas and scikit-learn

    return tabular_source.open_source(opening)


def _keras(opening: Opening) -> Source:
    from models_registry.exporting import keras_source  # brings Keras and torch

    return TorchModel(*keras_source.open_source(opening))


_TORCH: Final = (
    "torchscript",
    "torch_export",
    "torch_state_dict",
    "safetensors",
    "torch_pickled_module",
)
_TABULAR: Final = ("sklearn", "skops", "xgboost", "lightgbm", "catboost")
_OPENERS: Final[dict[str, Callable[[Opening], Source]]] = {
    **dict.fromkeys(("onnx", "onnx_archive"), _onnx),
    **dict.fromkeys(_TORCH, _torch),
    **dict.fromkeys(_TABULAR, _tabular),
    "keras": _keras,
}


@dataclass(frozen=True, slots=True)
class TorchModel:
    """A model that PyTorch runs and exports: `loaded` is a `torch_sources.TorchSource`."""

    inputs: tuple[TensorSpec, ...]
    loaded: Any
    ranges: dict[str, list[Any]] = field(default_factory=dict)
    keeps_names: bool = False

    def run(self, feeds: Feeds) -> list[tuple[str, Array]]:
        """See `Source`."""
        answers: list[tuple[str, Array]] = self.loaded.run(feeds)
        return answers

    def export(self, path: Path, wanted: Wanted) -> tuple[str, list[str]]:
        """See `Source`."""
        from models_registry.exporting import torch_export  # torch is here already

        return torch_export.export(
            self.loaded,
            self.inputs,
            wanted.feeds,
            wanted.outputs,
            path,
            opset=wanted.opset,
            target=wanted.target,
            reporter=wanted.reporter,
        )
