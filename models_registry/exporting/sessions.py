"""ONNX Runtime as the serving node would use it: one thread, and no run without an end."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from models_registry.exporting import operators
from models_registry.exporting.harness import is_memory_error
from models_registry.exporting.protocol import Refused
from models_registry.exporting.sampling import Array, Feeds, storable


class Session:
    """One loaded ONNX file; `optimised=False` runs the graph as it is written.

    `lean` leaves large weights where they are mapped, instead of packing a copy that runs faster.
    """

    def __init__(
        self, path: Path, *, seconds: float, optimised: bool = True, lean: bool = False
    ) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4
        if lean:
            options.add_session_config_entry("session.disable_prepacking", "1")
        if not optimised:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.seconds = seconds
        try:
            self._session = _opened(path, options)
        except Exception as error:
            if is_memory_error(error):
                raise MemoryError(str(error)) from error
            raise Refused("onnx_not_loadable", *_load_failure(str(error))) from error
        self.outputs: tuple[str, ...] = tuple(output.name for output in self._session.get_outputs())
        self.inputs: tuple[str, ...] = tuple(given.name for given in self._session.get_inputs())

    def run(self, feeds: Feeds) -> list[Array]:
        """All outputs in order; raises RunFailed, or Refused when it takes longer than allowed."""
        options = onnxruntime.RunOptions()
        options.log_severity_level = 4
        timer = threading.Timer(self.seconds, _stop, (options,))
        timer.daemon = True
        timer.start()
        given = {name: _typed(value) for name, value in feeds.items()}
        try:
            answers = self._session.run(None, given, options)
        except Exception as error:
            if options.terminate:
                raise Refused(
                    "inference_time_limit",
                    f"One inference took longer than {self.seconds:.0f} seconds and was stopped.",
                    "Look for a Loop that does not end, or for inputs that the model is "
                    "not made for.",
                ) from error
            if is_memory_error(error):
                raise MemoryError(str(error)) from error
            raise RunFailed(_short(str(error))) from error
        finally:
            timer.cancel()
        return [_plain(name, answer) for name, answer in zip(self.outputs, answers, strict=True)]


def _opened(path: Path, options: Any) -> Any:
    """The session; with the site's custom operator libraries where the graph needs more.

    Libraries are code of their own: a graph that does without them is not run with them.
    """
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        offered = operators.libraries()
        if not offered or not operators.are_missing(error):
            raise
    for library in offered:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class RunFailed(Exception):
    """ONNX Runtime loaded the model but could not run it with these inputs."""


def _stop(options: Any) -> None:
    options.terminate = True


def _typed(value: Array) -> Array:
    return value.astype(object) if value.dtype.kind == "U" else value


def _plain(name: str, answer: object) -> Array:
    if not isinstance(answer, np.ndarray):
        raise Refused(
            "output_not_a_tensor",
            f"The output “{name}” is a {type(answer).__name__}, not a tensor; Triton "
            "serves tensors only.",
            "Export without ZipMap (skl2onnx: options={'zipmap': False}) or without "
            "sequence outputs.",
        )
    return storable(answer)


def _short(text: str) -> str:
    """ONNX Runtime's message without its status number and the sandbox's paths."""
    plain = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", " ".join(text.split()))
    plain = re.sub(r"Load model from \S+ failed: ?", "", plain)
    return re.sub(r"/\S*onnxruntime\S*\.(cc|h):\d+ ", "", plain)[:600]


def _load_failure(text: str) -> tuple[str, str]:
    short = _short(text)
    if "No opset import for domain" in text or "is not a registered function/op" in text:
        return (
            f"ONNX Runtime has no kernel for an operator of the file: {short}",
            "Replace the custom operator by standard ones before exporting, or register a "
            "symbolic for it.",
        )
    if "NOT_IMPLEMENTED" in text:
        return (
            f"ONNX Runtime cannot run an operator with this data type: {short}",
            "Cast to a type that the operator supports (FP32 nearly always does) and export again.",
        )
    return (
        f"ONNX Runtime does not load the file: {short}",
        "Run onnx.checker.check_model(path, full_check=True) on it and mend what that names.",
    )
