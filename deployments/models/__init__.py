from deployments.models.access import (
    AccessPolicy,
    Caller,
    CallerKey,
    TokenIssuer,
)
from deployments.models.alerts import (
    Alert,
    AlertEvent,
    AlertRule,
    AlertSeverity,
    AlertState,
    Silence,
)
from deployments.models.deployments import (
    Deployment,
    Placement,
    PlacementState,
    ServingGeneration,
)
from deployments.models.diagnoses import Diagnosis, DiagnosisState
from deployments.models.experiments import (
    ComparisonMinute,
    Experiment,
    ExperimentCount,
    ExperimentState,
    Outcome,
)
from deployments.models.fleet import (
    Gateway,
    GatewayListener,
    GatewayProduct,
    Node,
    NodeState,
)
from deployments.models.incidents import (
    Incident,
    IncidentEvent,
    IncidentSeverity,
    IncidentState,
    RollbackPolicy,
)
from deployments.models.measurements import MeasuredSeries, SeriesMinute
from deployments.models.objectives import (
    AgreementState,
    Exclusion,
    ExclusionAgreement,
    MaintenanceAgreement,
    MaintenanceWindow,
)
from deployments.models.plans import (
    TensorRtPlan,
)
from deployments.models.rollouts import (
    ACTIVE_ROLLOUTS,
    AnalysisPhase,
    AnalysisRun,
    Measurement,
    Rollout,
    RolloutEvent,
    RolloutState,
)
from deployments.models.sla import SlaReport, SlaShare, SlaSubscription
from deployments.models.statistics import (
    CounterCursor,
    MinuteRollup,
    MirrorMinute,
)
from deployments.models.traffic import (
    Endpoint,
    EndpointMode,
    SplitAck,
    SplitCause,
    SplitState,
    TrafficSplit,
)

__all__ = [
    "ACTIVE_ROLLOUTS",
    "AccessPolicy",
    "AgreementState",
    "Alert",
    "AlertEvent",
    "AlertRule",
    "AlertSeverity",
    "AlertState",
    "AnalysisPhase",
    "AnalysisRun",
    "Caller",
    "CallerKey",
    "ComparisonMinute",
    "CounterCursor",
    "Deployment",
    "Diagnosis",
    "DiagnosisState",
    "Endpoint",
    "EndpointMode",
    "Exclusion",
    "ExclusionAgreement",
    "Experiment",
    "ExperimentCount",
    "ExperimentState",
    "Gateway",
    "GatewayListener",
    "GatewayProduct",
    "Incident",
    "IncidentEvent",
    "IncidentSeverity",
    "IncidentState",
    "MaintenanceAgreement",
    "MaintenanceWindow",
    "MeasuredSeries",
    "Measurement",
    "MinuteRollup",
    "MirrorMinute",
    "Node",
    "NodeState",
    "Outcome",
    "Placement",
    "PlacementState",
    "RollbackPolicy",
    "Rollout",
    "RolloutEvent",
    "RolloutState",
    "SeriesMinute",
    "ServingGeneration",
    "Silence",
    "SlaReport",
    "SlaShare",
    "SlaSubscription",
    "SplitAck",
    "SplitCause",
    "SplitState",
    "TensorRtPlan",
    "TokenIssuer",
    "TrafficSplit",
]
