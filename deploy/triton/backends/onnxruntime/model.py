"""A Triton backend named `onnxruntime`, written in Python over the onnxruntime package.

The embedded Triton has no C++ ONNX Runtime backend. With this one in its backend directory the
production repository (`platform: "onnxruntime_onnx"`, `<version>/model.onnx`, the same
`config.pbtxt`) loads on a CPU unchanged. Triton keeps one process per version and instance.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils

DEFAULT_FILENAME = "model.onnx"

# With numpy 2 this release's stub reads its inputs with stride 0: every element becomes the
# first one, and the answer is a wrong 200. Better not to load at all.
if int(np.__version__.split(".")[0]) >= 2:
    raise RuntimeError(f"numpy {np.__version__} in Triton's environment: numpy below 2 is needed")


class TritonPythonModel:
    """One version of one model; Triton makes it and calls its methods."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        """Adds nothing: the configuration that was signed is complete."""
        return auto_complete_model_config

    def initialize(self, args: dict[str, str]) -> None:
        """Open the version's ONNX file; an exception here is the load's error message."""
        config = json.loads(args["model_config"])
        filename = config.get("default_model_filename") or DEFAULT_FILENAME
        path = os.path.join(args["model_repository"], args["model_version"], filename)
        if not os.path.isfile(path):
            raise pb_utils.TritonModelException(f"{filename} is missing in version folder {path}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        # A spinning thread per session would take a core from everything else on the machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        operations = config.get("model_operations") or {}
        for library in operations.get("op_library_filename") or ():
            if not os.path.isfile(library):
                raise pb_utils.TritonModelException(
                    f"the custom operator library {library} is missing on this node"
                )
            options.register_custom_ops_library(library)
        self.session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self.inputs = [node.name for node in self.session.get_inputs()]
        produced = {node.name for node in self.session.get_outputs()}
        self.outputs = [output["name"] for output in config["output"]]
        self._check_names("input", {i["name"] for i in config["input"]}, set(self.inputs))
        self._check_names("output", set(self.outputs), produced)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request by itself, so that one request's fault is its own."""
        return [self._answer(request) for request in requests]

    def finalize(self) -> None:
        """Give the session's memory back at unload."""
        del self.session

    def _answer(self, request: Any) -> Any:
        try:
            feeds = {
                name: _from_triton(pb_utils.get_input_tensor_by_name(request, name).as_numpy())
                for name in self.inputs
            }
            asked = set(request.requested_output_names())
            names = [name for name in self.outputs if name in asked] or self.outputs
            values = self.session.run(names, feeds)
            tensors = [
                pb_utils.Tensor(name, _to_triton(value))
                for name, value in zip(names, values, strict=True)
            ]
            return pb_utils.InferenceResponse(output_tensors=tensors)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to this request
            message = f"onnx runtime error: {error}"
            return pb_utils.InferenceResponse(
                output_tensors=[], error=pb_utils.TritonError(message)
            )

    @staticmethod
    def _check_names(kind: str, configured: set[str], in_file: set[str]) -> None:
        unknown = sorted(configured - in_file)
        missing = sorted(in_file - configured) if kind == "input" else []
        if unknown or missing:
            raise pb_utils.TritonModelException(
                f"the configuration's {kind}s {sorted(configured)} are not those of the ONNX "
                f"file {sorted(in_file)}"
            )


def _from_triton(array: np.ndarray) -> np.ndarray:
    """TYPE_STRING arrives as bytes; ONNX Runtime wants str."""
    if array.dtype != np.object_:
        return array
    texts = np.empty(array.shape, dtype=np.object_)
    for index, value in np.ndenumerate(array):
        texts[index] = value.decode("utf-8") if isinstance(value, bytes) else value
    return texts


def _to_triton(value: Any) -> np.ndarray:
    """The reverse of `_from_triton`; numbers become contiguous, as the stub needs."""
    array = np.asarray(value)
    if array.dtype != np.object_:
        return np.ascontiguousarray(array)
    raw = np.empty(array.shape, dtype=np.object_)
    for index, text in np.ndenumerate(array):
        raw[index] = text.encode("utf-8") if isinstance(text, str) else text
    return raw
