"""What a look at a file gives, the words for formats, and the ways out that are said again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TORCHSCRIPT: Final = "torchscript"
TORCH_EXPORT: Final = "torch_export"
TORCH_STATE_DICT: Final = "torch_state_dict"
TORCH_PICKLED_MODULE: Final = "torch_pickled_module"
SAFETENSORS: Final = "safetensors"
ONNX: Final = "onnx"
ONNX_ARCHIVE: Final = "onnx_archive"
SKLEARN: Final = "sklearn"
SKOPS: Final = "skops"
XGBOOST: Final = "xgboost"
LIGHTGBM: Final = "lightgbm"
CATBOOST: Final = "catboost"
KERAS: Final = "keras"
UNKNOWN: Final = "unknown"

# Models of tables and of Keras say themselves what their inputs are.
TABULAR: Final = frozenset({SKLEARN, SKOPS, XGBOOST, LIGHTGBM, CATBOOST})
NAMES_ITS_INPUTS: Final = frozenset({ONNX, ONNX_ARCHIVE, KERAS}) | TABULAR
NEEDS_CODE: Final = frozenset({TORCH_STATE_DICT, SAFETENSORS})
ACCEPTED: Final = (
    frozenset({TORCHSCRIPT, TORCH_EXPORT, TORCH_STATE_DICT, SAFETENSORS}) | NAMES_ITS_INPUTS
)

HEAD_BYTES: Final = 4096
WAY_OUT: Final = (
    "Upload ONNX, TorchScript, a torch.export program (.pt2), weights with their module's source, "
    "or a model of Keras, scikit-learn, XGBoost, LightGBM or CatBoost as it was saved."
)
TENSORFLOW: Final = (
    "TensorFlow itself is not taken. Save it as model.keras (model.save), or convert it with "
    "python -m tf2onnx.convert and upload the ONNX file."
)


@dataclass(frozen=True, slots=True)
class Detected:
    """What was seen.

    `format` is a stable word (the constants above, or a word for what is not taken); `label` its
    name for people; `detail` facts for the page; `reason` one sentence; `hint` the way out.
    `needs_code` says that the module's source must come with it.
    """

    format: str
    label: str
    reason: str
    hint: str = ""
    detail: str = ""
    accepted: bool = False
    needs_code: bool = False


def taken(kind: str, label: str, reason: str, *, detail: str = "") -> Detected:
    """A format that is exported here."""
    return Detected(
        kind, label, reason, detail=detail, accepted=True, needs_code=kind in NEEDS_CODE
    )


def unknown() -> Detected:
    """Nothing that is known here."""
    reason = "The content is of no format that is known here."
    return Detected(UNKNOWN, "Unknown", reason, WAY_OUT)
