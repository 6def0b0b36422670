"""`config.pbtxt`: written from Triton's own protobuf message, never by pasting strings.

What is signed is the same on every node: it names the model and leaves the kind of instance to
Triton. `specialise` turns it, always in the same way, into what one node loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import (
    DataType,
    ModelConfig,
    ModelInstanceGroup,
    ModelQueuePolicy,
)

from console.errors import Invalid
from models_registry.rules.tuning import ConfigPlan, Tensor, WarmupInput

PLATFORM = "onnxruntime_onnx"
MODEL_FILE = "model.onnx"
DATA_FILE = "model.onnx.data"
WARMUP_FOLDER = "warmup"


def render(plan: ConfigPlan, *, operator_libraries: Sequence[str] = ()) -> str:
    """The node-independent `config.pbtxt`; equal plans give equal text.

    `operator_libraries` are the paths, on every node, of what brings the graph's custom operators.
    """
    config = ModelConfig(
        name=plan.model,
        platform=PLATFORM,
        max_batch_size=plan.max_batch_size.value,
        default_model_filename=MODEL_FILE,
    )
    for tensor in plan.inputs:
        _fill(config.input.add(), tensor, plan.batched)
    for tensor in plan.outputs:
        _fill(config.output.add(), tensor, plan.batched)
    # The folders that are present are what is loaded.
    config.version_policy.all.SetInParent()
    config.instance_group.add(
        count=plan.instance_count.value, kind=ModelInstanceGroup.Kind.KIND_AUTO
    )
    if plan.batched:
        _batching(config, plan)
    if plan.response_cache.value:
        config.response_cache.enable = True
    _warmup(config, plan)
    if operator_libraries:
        config.model_operations.op_library_filename.extend(operator_libraries)
    config.metric_tags["model"] = plan.model
    return text_format.MessageToString(config)


def specialise(config_text: str, *, triton_model: str, gpus: Sequence[int] = ()) -> str:
    """What one node loads: named as this generation is, on these GPUs, or on the CPU without any.

    Raises Invalid when the text is no config of Triton's.
    """
    config = parse(config_text)
    config.name = triton_model
    for group in config.instance_group:
        group.kind = ModelInstanceGroup.Kind.KIND_GPU if gpus else ModelInstanceGroup.Kind.KIND_CPU
        del group.gpus[:]
        group.gpus.extend(sorted(gpus))
    return text_format.MessageToString(config)


def same_serving_config(left: str, right: str) -> bool:
    """Whether two versions may share a Triton model: equal in everything but the name.

    Compare signed texts, not what nodes made of them. Raises Invalid when one is no config.
    """
    first, second = parse(left), parse(right)
    first.ClearField("name")
    second.ClearField("name")
    return bool(first == second)


def parse(config_text: str) -> ModelConfig:
    """The message that a text says. Raises Invalid with the line that is wrong."""
    try:
        return text_format.Parse(config_text, ModelConfig())
    except text_format.ParseError as fault:
        raise Invalid(
            f"This is no config.pbtxt of Triton's: {fault}.", code="invalid_triton_config"
        ) from fault


def warmup_files(plan: ConfigPlan, sample: Mapping[str, bytes]) -> dict[str, bytes]:
    """Path in the Triton model's folder -> content, for each recorded input of the warm-up.

    `sample` holds each input's first row as little-endian raw bytes (numpy's `tobytes`). Raises
    Invalid when a recorded input is not among them.
    """
    recorded = [item.tensor.name for item in plan.warmup.value if item.recorded]
    if missing := [name for name in recorded if name not in sample]:
        raise Invalid(
            f"The recorded sample has no input {missing[0]}.",
            code="sample_incomplete",
            hint="Record every input, or switch the warm-up off.",
        )
    return {f"{WARMUP_FOLDER}/{name}": sample[name] for name in recorded}


def _fill(target: object, tensor: Tensor, batched: bool) -> None:
    target.name = tensor.name  # type: ignore[attr-defined] # ModelInput or ModelOutput, no stubs
    target.data_type = data_type(tensor.datatype)  # type: ignore[attr-defined]
    dims = [_dim(dim) for dim in (tensor.dims[1:] if batched else tensor.dims)]
    if dims:
        target.dims.extend(dims)  # type: ignore[attr-defined]
        return
    # Triton wants one dimension at least. The reshape takes it away again before the graph; without
    # batching it may not be empty, and the backend takes [1] for a plain number.
    target.dims.append(1)  # type: ignore[attr-defined]
    if batched:
        target.reshape.SetInParent()  # type: ignore[attr-defined]


def data_type(name: str) -> int:
    """Triton's number for a datatype of the v2 protocol ("FP32", "BYTES").

    Raises Invalid for one that Triton does not know.
    """
    word = "STRING" if name == "BYTES" else name
    try:
        return int(DataType.Value(f"TYPE_{word}"))
    except ValueError as fault:
        raise Invalid(
            f"Triton has no datatype {name}.",
            code="unsupported_dtype",
            hint="Use one of BOOL, INT8 to INT64, UINT8 to UINT64, FP16, FP32, FP64, BYTES.",
        ) from fault


def _dim(dim: int | str) -> int:
    return dim if isinstance(dim, int) and dim >= 0 else -1


def _batching(config: ModelConfig, plan: ConfigPlan) -> None:
    batching = config.dynamic_batching
    batching.max_queue_delay_microseconds = plan.queue_delay_us.value
    batching.preferred_batch_size.extend(plan.preferred_batch_sizes.value)
    policy = batching.default_queue_policy
    policy.timeout_action = ModelQueuePolicy.TimeoutAction.REJECT
    policy.default_timeout_microseconds = plan.default_timeout_us.value
    policy.max_queue_size = plan.max_queue_size.value
    if plan.priority_levels.value:
        batching.priority_levels = plan.priority_levels.value
        batching.default_priority_level = plan.default_priority_level.value


def _warmup(config: ModelConfig, plan: ConfigPlan) -> None:
    if not plan.warmup.value:
        return
    recorded = all(item.recorded for item in plan.warmup.value)
    request = config.model_warmup.add(
        name="recorded_sample" if recorded else "zeros",
        batch_size=1,
        count=1,
    )
    for item in plan.warmup.value:
        _warmup_input(request.inputs[item.tensor.name], item)


def _warmup_input(target: object, item: WarmupInput) -> None:
    target.data_type = data_type(item.tensor.datatype)  # type: ignore[attr-defined] # no stubs
    target.dims.extend(item.shape or (1,))  # type: ignore[attr-defined]
    if item.recorded:
        target.input_data_file = item.tensor.name  # type: ignore[attr-defined]
    else:
        target.zero_data = True  # type: ignore[attr-defined]
