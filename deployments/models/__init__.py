from deployments.models.deployments import (
    Deployment,
    Placement,
    PlacementState,
    ServingGeneration,
)
from deployments.models.fleet import Gateway, GatewayListener, Node, NodeState
from deployments.models.plans import TensorRtPlan
from deployments.models.statistics import CounterCursor, MinuteRollup
from deployments.models.traffic import (
    Endpoint,
    EndpointMode,
    SplitAck,
    SplitCause,
    SplitState,
    TrafficSplit,
)

__all__ = [
    "CounterCursor",
    "Deployment",
    "Endpoint",
    "EndpointMode",
    "Gateway",
    "GatewayListener",
    "MinuteRollup",
    "Node",
    "NodeState",
    "Placement",
    "PlacementState",
    "ServingGeneration",
    "SplitAck",
    "SplitCause",
    "SplitState",
    "TensorRtPlan",
    "TrafficSplit",
]
