"""The quantities that the root-cause board lines up, from the business down to the machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deployments.rules.causes.moves import Point


class Layer(StrEnum):
    """Where a quantity is measured; a fault usually climbs from the last to the first."""

    BUSINESS = "business"
    GATEWAY = "gateway"
    TRITON = "triton"
    GPU = "gpu"
    HOST = "host"


DEPTH = {layer: depth for depth, layer in enumerate(Layer)}


class Bad(StrEnum):
    """The direction in which a move is bad news; EITHER: any move is worth knowing, none is bad."""

    UP = "up"
    DOWN = "down"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of quantity. `least` is the smallest difference of levels that matters, in `unit`."""

    code: str
    layer: Layer
    unit: str
    least: float
    bad: Bad = Bad.UP
    symptom: bool = False


KINDS: dict[str, Kind] = {
    kind.code: kind
    for kind in (
        Kind("conversion_rate", Layer.BUSINESS, "%", 0.5, Bad.DOWN, symptom=True),
        Kind("feature_drift_score", Layer.BUSINESS, "", 0.05),
        Kind("model_output_entropy", Layer.BUSINESS, "", 0.05),
        Kind("requests", Layer.GATEWAY, "1/s", 1.0, Bad.EITHER),
        Kind("errors", Layer.GATEWAY, "%", 0.1, symptom=True),
        Kind("caller_faults", Layer.GATEWAY, "%", 1.0, Bad.EITHER),
        Kind("p99", Layer.GATEWAY, "ms", 2.0, symptom=True),
        Kind("timeouts", Layer.GATEWAY, "%", 0.1),
        Kind("no_node", Layer.GATEWAY, "%", 0.1),
        Kind("queue", Layer.TRITON, "ms", 0.5),
        Kind("compute", Layer.TRITON, "ms", 0.5),
        Kind("batch", Layer.TRITON, "", 0.3, Bad.DOWN),
        Kind("cache_hits", Layer.TRITON, "%", 5.0, Bad.DOWN),
        Kind("gpu_utilization", Layer.GPU, "%", 10.0, Bad.EITHER),
        Kind("gpu_memory", Layer.GPU, "MiB", 256.0),
        Kind("gpu_temperature", Layer.GPU, "°C", 5.0),
        Kind("gpu_power", Layer.GPU, "W", 20.0, Bad.EITHER),
        Kind("gpu_clock", Layer.GPU, "MHz", 100.0, Bad.DOWN),
        Kind("gpu_link", Layer.GPU, "%", 10.0),
        Kind("host_cpu", Layer.HOST, "%", 15.0),
        Kind("host_memory", Layer.HOST, "%", 5.0),
    )
}
ORDER = {code: index for index, code in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Signal:
    """One quantity of one thing over the stretch that is looked at.

    `version` is 0 for the endpoint as a whole, `place` a node or a device of one. Points are
    `step_s` seconds apart, without those where nothing was measured.
    """

    kind: Kind
    points: tuple[Point, ...]
    step_s: float
    version: int = 0
    place: str = ""
