from deployments.models.access import (
    AccessPolicy,
    Caller,
    CallerKey,
    TokenIssuer,
)
from deployments.models.alert_routes import (
    AlertRoute,
    TellPeople,
)
from deployments.models.alerts import (
    Alert,
    AlertEvent,
    AlertRule,
    AlertSeverity,
    AlertState,
    Silence,
)
from deployments.models.channels import (
    AlertChannel,
    ChannelKind,
)
from deployments.models.deliveries import (
    AlertDelivery,
    DeliveryReason,
    DeliveryState,
)
from deployments.models.deployments import (
    Deployment,
    Placement,
    PlacementState,
    ServingGeneration,
)
from deployments.models.diagnoses import Diagnosis, DiagnosisState
from deployments.models.escalations import (
    Escalation,
    EscalationPolicy,
    EscalationStep,
    StepTarget,
)
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
from deployments.models.measurements import MeasuredSeries, SeriesHour, SeriesMinute
from deployments.models.objectives import (
    AgreementState,
    Exclusion,
    ExclusionAgreement,
    MaintenanceAgreement,
    MaintenanceWindow,
)
from deployments.models.on_call import (
    Covers,
    OnCallLayer,
    OnCallOverride,
    OnCallSchedule,
    OnCallTurn,
)
from deployments.models.plans import (
    TensorRtPlan,
)
from deployments.models.retention import RetentionPolicy
from deployments.models.rollouts import (
    ACTIVE_ROLLOUTS,
    AnalysisPhase,
    AnalysisRun,
    Measurement,
    Rollout,
    RolloutEvent,
    RolloutState,
)
from deployments.models.served_totals import ServedTotal
from deployments.models.sla import SlaReport, SlaShare, SlaStanding, SlaSubscription
from deployments.models.statistics import (
    CounterCursor,
    CountGap,
    DayRollup,
    GapReason,
    HourRollup,
    MinuteRollup,
    MirrorMinute,
    RolledKind,
    RolledSpan,
)
from deployments.models.telemetry import TelemetryCounter, TelemetrySetting
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
    "AlertChannel",
    "AlertDelivery",
    "AlertEvent",
    "AlertRoute",
    "AlertRule",
    "AlertSeverity",
    "AlertState",
    "AnalysisPhase",
    "AnalysisRun",
    "Caller",
    "CallerKey",
    "ChannelKind",
    "ComparisonMinute",
    "CountGap",
    "CounterCursor",
    "Covers",
    "DayRollup",
    "DeliveryReason",
    "DeliveryState",
    "Deployment",
    "Diagnosis",
    "DiagnosisState",
    "Endpoint",
    "EndpointMode",
    "Escalation",
    "EscalationPolicy",
    "EscalationStep",
    "Exclusion",
    "ExclusionAgreement",
    "Experiment",
    "ExperimentCount",
    "ExperimentState",
    "GapReason",
    "Gateway",
    "GatewayListener",
    "GatewayProduct",
    "HourRollup",
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
    "OnCallLayer",
    "OnCallOverride",
    "OnCallSchedule",
    "OnCallTurn",
    "Outcome",
    "Placement",
    "PlacementState",
    "RetentionPolicy",
    "RollbackPolicy",
    "RolledKind",
    "RolledSpan",
    "Rollout",
    "RolloutEvent",
    "RolloutState",
    "SeriesHour",
    "SeriesMinute",
    "ServedTotal",
    "ServingGeneration",
    "Silence",
    "SlaReport",
    "SlaShare",
    "SlaStanding",
    "SlaSubscription",
    "SplitAck",
    "SplitCause",
    "SplitState",
    "StepTarget",
    "TelemetryCounter",
    "TelemetrySetting",
    "TellPeople",
    "TensorRtPlan",
    "TokenIssuer",
    "TrafficSplit",
]
