"""Text: models that are written as JSON, XML or plain lines, and pages saved instead of a model."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from models_registry.adapters.formats.detected import (
    CATBOOST,
    LIGHTGBM,
    TENSORFLOW,
    WAY_OUT,
    XGBOOST,
    Detected,
    taken,
)

_HTML: Final = re.compile(r"<(!doctype html|html|head|body|script)\b", re.IGNORECASE)
_DVC: Final = re.compile(r"^(outs|md5|deps):", re.MULTILINE)


def xgboost_ubj(head: bytes) -> Detected | None:
    """UBJSON is no text, but has the same first key as XGBoost's JSON."""
    if head.startswith(b"{L") and b"learner" in head:
        return taken(XGBOOST, "XGBoost", "An XGBoost model (UBJSON).")
    return None


def told(head: bytes) -> Detected:
    """What a text file is, by its first lines."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    found = _model(text, head) or _pointer(text) or _markup(text) or _lines(text)
    if found is not None:
        return found
    if text[:1] in "{[" and text:
        return _json(text)
    first = text.partition("\n")[0][:80]
    return Detected("text", "Text", f"This is text, not a model; it begins “{first}”.", WAY_OUT)


def _model(text: str, head: bytes) -> Detected | None:
    if head.startswith((b"tree\n", b"tree\r\n")) and "num_class=" in text:
        return taken(LIGHTGBM, "LightGBM", "A LightGBM model (text).")
    if text.startswith("{") and '"learner"' in text:
        return taken(XGBOOST, "XGBoost", "An XGBoost model (JSON).")
    catboost = ('"oblivious_trees"', '"features_info"', '"model_info"', '"scale_and_bias"')
    if (
        text.startswith("{")
        and sum(word in text for word in catboost)
        and '"class_name"' not in text
    ):
        return taken(CATBOOST, "CatBoost", "A CatBoost model (JSON).")
    return None


def _pointer(text: str) -> Detected | None:
    """A small file that stands for a large one elsewhere."""
    if text.startswith("version https://git-lfs"):
        return Detected(
            "git_lfs_pointer",
            "Git LFS pointer",
            "This is a Git LFS pointer, not the model that it stands for.",
            "Fetch the file with git lfs pull and upload that.",
        )
    if text.startswith("/annex/objects/") or ".git/annex/objects/" in text[:200]:
        return Detected(
            "git_annex_pointer",
            "git-annex pointer",
            "This is a git-annex pointer, not the model that it stands for.",
            "Fetch the file with git annex get and upload that.",
        )
    if _DVC.match(text) and re.search(r"\bmd5:", text) and "path:" in text:
        return Detected(
            "dvc_pointer",
            "DVC pointer",
            "This is a DVC file, not the model that it stands for.",
            "Fetch the file with dvc pull and upload that.",
        )
    return None


def _markup(text: str) -> Detected | None:
    if not text.startswith("<"):
        return None
    start = text[:2000]
    if "<PMML" in start:
        return Detected(
            "pmml",
            "PMML",
            "This is a PMML document.",
            "PMML is not taken. Upload the model as its framework saved it (joblib, txt, json), or "
            "export ONNX with skl2onnx or onnxmltools.",
        )
    if re.search(r"<net\b", start) and ("<layers" in text or "version=" in start):
        return Detected(
            "openvino",
            "OpenVINO IR",
            "This is a network of OpenVINO (.xml); its weights are in a .bin file.",
            "Upload the ONNX file that it was made from, or export the original model to ONNX.",
        )
    if _HTML.search(start):
        return Detected(
            "html",
            "Web page",
            "This is a web page, not a model: a login or error page was saved under its name.",
            "Download the model again, signed in, and look at its size before uploading it.",
        )
    if "<Error>" in start and "<Code>" in start:
        code = re.search(r"<Code>(\w{1,60})</Code>", start)
        what = f" ({code.group(1)})" if code else ""
        return Detected(
            "object_store_error",
            "Object store error",
            f"This is an error message of an object store{what}, saved under the model's name.",
            "Download the model again with a link or key that is valid.",
        )
    return Detected("xml", "XML", "This is XML, not a model that is known here.", WAY_OUT)


def _lines(text: str) -> Detected | None:
    if re.match(r"(name:|layer\b|layers\b|input:)", text) and re.search(
        r"\b(layers?|input_dim|input_shape)\s*\{?", text
    ):
        return Detected(
            "caffe",
            "Caffe",
            "This is the description of a Caffe network (.prototxt).",
            "Convert it with its .caffemodel to ONNX (caffe2onnx) and upload that.",
        )
    if text.startswith("booster[0]:"):
        return Detected(
            "xgboost_dump",
            "XGBoost dump",
            "This is a dump of XGBoost's trees, which no library can load again.",
            "Save the model with booster.save_model('model.ubj') and upload that.",
        )
    if re.match(r"solver_type \w+\nnr_class", text) or re.match(r"svm_type \w+\nkernel_type", text):
        return Detected(
            "libsvm",
            "LIBSVM",
            "This is a model of LIBSVM or LIBLINEAR.",
            "Train it with scikit-learn (SVC, LinearSVC), which uses the same library, and upload "
            "the joblib file.",
        )
    if re.search(r"^(import|from) \w+|^class \w+.*:$|^def \w+\(", text, re.MULTILINE):
        return Detected(
            "python_source",
            "Python source",
            "This is Python source, not a model.",
            "Upload the weights, and give this file as the module's source beside them.",
        )
    return None


# JSON; only its beginning is at hand, so it is told by words where it does not end there.


def _json(text: str) -> Detected:
    for words, kind, label, hint in _JSON_MODELS:
        if all(word in text for word in words):
            return Detected(kind, label, f"This is {label}.", hint)
    document = _parsed(text)
    if isinstance(document, dict) and "error" in document:
        return Detected(
            "error_message",
            "Error message",
            "This is an error message of a service, saved under the model's name.",
            "Download the model again with a link or key that is valid.",
        )
    return Detected("json", "JSON", "This is JSON, not a model that is known here.", WAY_OUT)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_JSON_MODELS: Final = (
    (('"nodes"', '"arg_nodes"'), "mxnet", "a network of MXNet (symbol.json)",
     "Export with mxnet.onnx.export_model(symbol, params, …) and upload the ONNX file."),
    (('"op"', '"inputs"', '"nodes"'), "mxnet", "a network of MXNet (symbol.json)",
     "Export with mxnet.onnx.export_model(symbol, params, …) and upload the ONNX file."),
    (('"weightsManifest"',), "tensorflow_js", "a model of TensorFlow.js",
     "Upload the Keras model that it was made from, or convert that with tf2onnx."),
    (('"modelTopology"',), "tensorflow_js", "a model of TensorFlow.js",
     "Upload the Keras model that it was made from, or convert that with tf2onnx."),
    (('"magic"', '"pir"'), "paddle", "a program of PaddlePaddle",
     "Convert it with paddle2onnx and upload the ONNX file."),
    (('"tree_info"', '"num_class"'), "lightgbm_dump", "a dump of LightGBM's trees",
     "Save the model with booster.save_model('model.txt') and upload that."),
    (('"nodeid"', '"split"'), "xgboost_dump", "a dump of XGBoost's trees",
     "Save the model with booster.save_model('model.ubj') and upload that."),
    (('"class_name"', '"config"'), "keras_architecture", "the architecture of a Keras model",
     "Its weights are not in it. " + TENSORFLOW),
    (('"nbformat"',), "notebook", "a Jupyter notebook",
     "Run it, and upload the model that it saves."),
    (('"weight_map"',), "safetensors_index", "the index of a model in several safetensors files",
     "Upload the weights themselves: one .safetensors file with all of them."),
    (('"architectures"', '"model_type"'), "transformers_config",
     "the settings of a Transformers model",
     "Export the model with optimum-cli export onnx and upload the ONNX file."),
    (('"added_tokens"',), "tokenizer", "a tokenizer", "Upload the model; text is turned into "
     "tokens before the request."),
)  # fmt: skip
