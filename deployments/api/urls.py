"""This storey's part of /api/v1/."""

from __future__ import annotations

from django.urls import path

from deployments.api.access import AccessPolicyView
from deployments.api.alert_rules import (
    AlertRuleListView,
    AlertRulePreviewView,
    AlertRuleRestoreView,
    AlertRuleView,
    AlertSignalListView,
)
from deployments.api.alerts import (
    AlertAcknowledgeView,
    AlertChartView,
    AlertCommentView,
    AlertListView,
    AlertView,
    SilenceEndView,
    SilenceListView,
    SilenceView,
)
from deployments.api.batching import BatchingView
from deployments.api.callers import (
    CallerBlockView,
    CallerKeyListView,
    CallerKeyView,
    CallerListView,
    CallerUnblockView,
    CallerView,
    TokenIssuerListView,
    TokenIssuerRefreshView,
    TokenIssuerView,
)
from deployments.api.causes import CausesChartView, CausesView
from deployments.api.certificates import CertificateView
from deployments.api.channels import (
    ChannelListView,
    ChannelSecretView,
    ChannelTestView,
    ChannelView,
    DeliveryListView,
    DeliveryRetryView,
    RouteListView,
    RouteView,
)
from deployments.api.comparisons import ComparisonView
from deployments.api.deployments import (
    DeploymentListView,
    DeploymentView,
    FolderSignatureView,
)
from deployments.api.diagnoses import DiagnosisListView, DiagnosisView
from deployments.api.dossiers import DossierView, ReleaseBomView
from deployments.api.experiments import (
    ExperimentChartView,
    ExperimentDetailView,
    ExperimentListView,
    ExperimentStopView,
)
from deployments.api.exports import OpenSloImportView, OpenSloView, PrometheusRulesView
from deployments.api.fallbacks import FallbackTryView, FallbackView
from deployments.api.gateways import GatewayExportView, GatewayListView, GatewayView
from deployments.api.incidents import (
    IncidentAcknowledgeView,
    IncidentCommentView,
    IncidentListView,
    IncidentResolveView,
    IncidentView,
)
from deployments.api.load_tests import LoadTestHtmlView, LoadTestListView, LoadTestView
from deployments.api.machines import GpuFieldListView, NodeChartView, NodeMachineView
from deployments.api.memory_growth import MemoryGrowthView
from deployments.api.nodes import (
    NodeCordonView,
    NodeListView,
    NodeReconcileView,
    NodeUncordonView,
    NodeVerifyView,
    NodeView,
)
from deployments.api.objectives import (
    ExclusionAgreeView,
    ExclusionListView,
    ExclusionProposeView,
    ExclusionView,
    ExclusionWithdrawView,
    MaintenanceAgreeView,
    MaintenanceListView,
    MaintenanceProposeView,
    MaintenanceView,
    MaintenanceWithdrawView,
    ObjectiveListView,
)
from deployments.api.on_call import (
    OnCallView,
    OverrideListView,
    OverrideView,
    PolicyListView,
    PolicyView,
    ScheduleListView,
    ScheduleView,
    ShiftListView,
)
from deployments.api.plans import PlanListView
from deployments.api.retention import RetentionView
from deployments.api.rollback_policies import RollbackPolicyView
from deployments.api.rollouts import (
    EndpointRolloutListView,
    RolloutAbortView,
    RolloutListView,
    RolloutPauseView,
    RolloutPromoteView,
    RolloutResumeView,
    RolloutSkipView,
    RolloutView,
)
from deployments.api.sla import (
    SlaCsvView,
    SlaListView,
    SlaPdfView,
    SlaPortfolioCsvView,
    SlaPortfolioPdfView,
    SlaShareListView,
    SlaShareRevokeView,
    SlaSubscriptionListView,
    SlaSubscriptionSendView,
    SlaSubscriptionView,
    SlaView,
)
from deployments.api.slow_requests import SlowCsvView, SlowRequestsView
from deployments.api.statistics import ChartView, StatsView
from deployments.api.telemetry import (
    ReferenceSampleView,
    TelemetryChartView,
    TelemetryView,
)
from deployments.api.traffic import (
    EndpointListView,
    EndpointView,
    ModeView,
    RollbackView,
    SplitView,
)
from deployments.api.trials import TryView
from deployments.api.version_comparisons import CompareView

_ENDPOINT = "endpoints/<slug:environment>/<slug:model>"
_ROLLOUT = f"{_ENDPOINT}/rollouts/<uuid:rollout_id>"
_MAINTENANCE = "maintenance-windows/<uuid:window_id>"
_EXCLUSION = "exclusions/<uuid:exclusion_id>"
_EXPERIMENTS = f"{_ENDPOINT}/experiments"
_CALLERS = "environments/<slug:environment>/callers"
_ISSUERS = "environments/<slug:environment>/token-issuers"

urlpatterns = [
    path("deployments/", DeploymentListView.as_view(), name="deployment-list"),
    path("deployments/<uuid:deployment_id>/", DeploymentView.as_view(), name="deployment-detail"),
    path(
        "models/<str:name>/versions/<int:number>/load-tests/",
        LoadTestListView.as_view(),
        name="load-test-list",
    ),
    path(
        "models/<str:name>/versions/<int:number>/dossier.pdf",
        DossierView.as_view(),
        name="dossier-pdf",
    ),
    path(
        "models/<str:name>/releases/<uuid:release_id>/bom/",
        ReleaseBomView.as_view(),
        name="release-bom",
    ),
    path(
        "models/<str:name>/versions/<int:number>/reference-sample/",
        ReferenceSampleView.as_view(),
        name="reference-sample",
    ),
    path("load-tests/<uuid:load_test_id>/", LoadTestView.as_view(), name="load-test-detail"),
    path("load-tests/<uuid:load_test_id>.html", LoadTestHtmlView.as_view(), name="load-test-html"),
    path("endpoints/", EndpointListView.as_view(), name="endpoint-list"),
    path(f"{_ENDPOINT}/", EndpointView.as_view(), name="endpoint-detail"),
    path(f"{_ENDPOINT}/batching/", BatchingView.as_view(), name="endpoint-batching"),
    path(f"{_ENDPOINT}/slow-requests/", SlowRequestsView.as_view(), name="endpoint-slow"),
    path(f"{_ENDPOINT}/slow-requests.csv", SlowCsvView.as_view(), name="endpoint-slow-csv"),
    path(f"{_ENDPOINT}/split/", SplitView.as_view(), name="endpoint-split"),
    path(f"{_ENDPOINT}/rollback/", RollbackView.as_view(), name="endpoint-rollback"),
    path(f"{_ENDPOINT}/access/", AccessPolicyView.as_view(), name="endpoint-access"),
    path(f"{_CALLERS}/", CallerListView.as_view(), name="caller-list"),
    path(f"{_CALLERS}/<slug:caller>/", CallerView.as_view(), name="caller-detail"),
    path(f"{_CALLERS}/<slug:caller>/block/", CallerBlockView.as_view(), name="caller-block"),
    path(f"{_CALLERS}/<slug:caller>/unblock/", CallerUnblockView.as_view(), name="caller-unblock"),
    path(f"{_CALLERS}/<slug:caller>/keys/", CallerKeyListView.as_view(), name="caller-key-list"),
    path(
        f"{_CALLERS}/<slug:caller>/keys/<slug:prefix>/",
        CallerKeyView.as_view(),
        name="caller-key",
    ),
    path(f"{_ISSUERS}/", TokenIssuerListView.as_view(), name="token-issuer-list"),
    path(f"{_ISSUERS}/<slug:issuer_name>/", TokenIssuerView.as_view(), name="token-issuer"),
    path(
        f"{_ISSUERS}/<slug:issuer_name>/refresh/",
        TokenIssuerRefreshView.as_view(),
        name="token-issuer-refresh",
    ),
    path(
        "gateways/<slug:gateway>/certificates/<slug:environment>/",
        CertificateView.as_view(),
        name="gateway-certificate",
    ),
    path(f"{_ENDPOINT}/mode/", ModeView.as_view(), name="endpoint-mode"),
    path(f"{_ENDPOINT}/fallback/", FallbackView.as_view(), name="endpoint-fallback"),
    path(f"{_ENDPOINT}/fallback/try/", FallbackTryView.as_view(), name="fallback-try"),
    path(
        f"{_ENDPOINT}/rollback-policy/",
        RollbackPolicyView.as_view(),
        name="endpoint-rollback-policy",
    ),
    path(f"{_ENDPOINT}/objectives/", ObjectiveListView.as_view(), name="endpoint-objectives"),
    path(
        f"{_ENDPOINT}/maintenance-windows/",
        MaintenanceProposeView.as_view(),
        name="maintenance-propose",
    ),
    path("maintenance-windows/", MaintenanceListView.as_view(), name="maintenance-list"),
    path(f"{_MAINTENANCE}/", MaintenanceView.as_view(), name="maintenance-detail"),
    path(f"{_MAINTENANCE}/agree/", MaintenanceAgreeView.as_view(), name="maintenance-agree"),
    path(
        f"{_MAINTENANCE}/withdraw/",
        MaintenanceWithdrawView.as_view(),
        name="maintenance-withdraw",
    ),
    path(f"{_ENDPOINT}/exclusions/", ExclusionProposeView.as_view(), name="exclusion-propose"),
    path(
        "exports/prometheus-rules/",
        PrometheusRulesView.as_view(),
        name="export-prometheus-rules",
    ),
    path("exports/openslo/", OpenSloView.as_view(), name="export-openslo"),
    path("models/<str:name>/openslo/", OpenSloImportView.as_view(), name="import-openslo"),
    path("exclusions/", ExclusionListView.as_view(), name="exclusion-list"),
    path(f"{_EXCLUSION}/", ExclusionView.as_view(), name="exclusion-detail"),
    path(f"{_EXCLUSION}/agree/", ExclusionAgreeView.as_view(), name="exclusion-agree"),
    path(f"{_EXCLUSION}/withdraw/", ExclusionWithdrawView.as_view(), name="exclusion-withdraw"),
    path("rollouts/", RolloutListView.as_view(), name="rollout-list"),
    path(f"{_ENDPOINT}/rollouts/", EndpointRolloutListView.as_view(), name="endpoint-rollout-list"),
    path(f"{_ROLLOUT}/", RolloutView.as_view(), name="rollout-detail"),
    path(f"{_ROLLOUT}/pause/", RolloutPauseView.as_view(), name="rollout-pause"),
    path(f"{_ROLLOUT}/resume/", RolloutResumeView.as_view(), name="rollout-resume"),
    path(f"{_ROLLOUT}/skip/", RolloutSkipView.as_view(), name="rollout-skip"),
    path(f"{_ROLLOUT}/promote/", RolloutPromoteView.as_view(), name="rollout-promote"),
    path(f"{_ROLLOUT}/abort/", RolloutAbortView.as_view(), name="rollout-abort"),
    path("memory-growth/", MemoryGrowthView.as_view(), name="memory-growth"),
    path("diagnoses/", DiagnosisListView.as_view(), name="diagnosis-list"),
    path("diagnoses/<uuid:diagnosis_id>/", DiagnosisView.as_view(), name="diagnosis-detail"),
    path("alerts/", AlertListView.as_view(), name="alert-list"),
    path("alerts/<uuid:alert_id>/", AlertView.as_view(), name="alert-detail"),
    path(
        "alerts/<uuid:alert_id>/acknowledge/",
        AlertAcknowledgeView.as_view(),
        name="alert-acknowledge",
    ),
    path("alerts/<uuid:alert_id>/comments/", AlertCommentView.as_view(), name="alert-comments"),
    path("alerts/<uuid:alert_id>/chart/", AlertChartView.as_view(), name="alert-chart"),
    path("silences/", SilenceListView.as_view(), name="silence-list"),
    path("silences/<uuid:silence_id>/", SilenceView.as_view(), name="silence-detail"),
    path("silences/<uuid:silence_id>/end/", SilenceEndView.as_view(), name="silence-end"),
    path("alert-signals/", AlertSignalListView.as_view(), name="alert-signal-list"),
    path("alert-rules/", AlertRuleListView.as_view(), name="alert-rule-list"),
    path("alert-rule-preview/", AlertRulePreviewView.as_view(), name="alert-rule-preview"),
    path("alert-rules/<slug:rule>/", AlertRuleView.as_view(), name="alert-rule-detail"),
    path(
        "alert-rules/<slug:rule>/restore/",
        AlertRuleRestoreView.as_view(),
        name="alert-rule-restore",
    ),
    path("incidents/", IncidentListView.as_view(), name="incident-list"),
    path("incidents/<uuid:incident_id>/", IncidentView.as_view(), name="incident-detail"),
    path(
        "incidents/<uuid:incident_id>/acknowledge/",
        IncidentAcknowledgeView.as_view(),
        name="incident-acknowledge",
    ),
    path(
        "incidents/<uuid:incident_id>/resolve/",
        IncidentResolveView.as_view(),
        name="incident-resolve",
    ),
    path(
        "incidents/<uuid:incident_id>/comments/",
        IncidentCommentView.as_view(),
        name="incident-comments",
    ),
    path(f"{_ENDPOINT}/stats/", StatsView.as_view(), name="endpoint-stats"),
    path(f"{_ENDPOINT}/charts/<slug:name>/", ChartView.as_view(), name="endpoint-chart"),
    path(f"{_ENDPOINT}/causes/", CausesView.as_view(), name="endpoint-causes"),
    path(
        f"{_ENDPOINT}/causes/<slug:kind>/", CausesChartView.as_view(), name="endpoint-causes-chart"
    ),
    path(f"{_ENDPOINT}/telemetry/", TelemetryView.as_view(), name="endpoint-telemetry"),
    path(
        f"{_ENDPOINT}/telemetry/charts/<slug:name>/",
        TelemetryChartView.as_view(),
        name="endpoint-telemetry-chart",
    ),
    path(f"{_ENDPOINT}/compare/", CompareView.as_view(), name="endpoint-compare"),
    path(f"{_ENDPOINT}/comparison/", ComparisonView.as_view(), name="endpoint-comparison"),
    path(f"{_EXPERIMENTS}/", ExperimentListView.as_view(), name="experiment-list"),
    path(
        f"{_EXPERIMENTS}/<uuid:experiment_id>/",
        ExperimentDetailView.as_view(),
        name="experiment-detail",
    ),
    path(
        f"{_EXPERIMENTS}/<uuid:experiment_id>/stop/",
        ExperimentStopView.as_view(),
        name="experiment-stop",
    ),
    path(
        f"{_EXPERIMENTS}/<uuid:experiment_id>/chart/",
        ExperimentChartView.as_view(),
        name="experiment-chart",
    ),
    path(f"{_ENDPOINT}/sla/", SlaView.as_view(), name="endpoint-sla"),
    path(f"{_ENDPOINT}/sla.csv", SlaCsvView.as_view(), name="endpoint-sla-csv"),
    path(f"{_ENDPOINT}/sla.pdf", SlaPdfView.as_view(), name="endpoint-sla-pdf"),
    path(f"{_ENDPOINT}/sla/shares/", SlaShareListView.as_view(), name="sla-share-list"),
    path("sla/", SlaListView.as_view(), name="sla-list"),
    path("sla.csv", SlaPortfolioCsvView.as_view(), name="sla-csv"),
    path("sla.pdf", SlaPortfolioPdfView.as_view(), name="sla-pdf"),
    path(
        "sla-shares/<uuid:share_id>/revoke/",
        SlaShareRevokeView.as_view(),
        name="sla-share-revoke",
    ),
    path("sla-subscriptions/", SlaSubscriptionListView.as_view(), name="sla-subscription-list"),
    path(
        "sla-subscriptions/<int:subscription_id>/",
        SlaSubscriptionView.as_view(),
        name="sla-subscription",
    ),
    path(
        "sla-subscriptions/<int:subscription_id>/send/",
        SlaSubscriptionSendView.as_view(),
        name="sla-subscription-send",
    ),
    path(
        "models/<str:name>/versions/<int:number>/plans/", PlanListView.as_view(), name="plan-list"
    ),
    path("models/<str:name>/versions/<int:number>/try/", TryView.as_view(), name="version-try"),
    path("retention/", RetentionView.as_view(), name="retention"),
    path("gateways/", GatewayListView.as_view(), name="gateway-list"),
    path("gateways/<slug:gateway>/", GatewayView.as_view(), name="gateway-detail"),
    path("gateways/<slug:gateway>/export/", GatewayExportView.as_view(), name="gateway-export"),
    path("nodes/", NodeListView.as_view(), name="node-list"),
    path("nodes/<slug:node>/", NodeView.as_view(), name="node-detail"),
    path("nodes/<slug:node>/machine/", NodeMachineView.as_view(), name="node-machine"),
    path("nodes/<slug:node>/charts/<slug:name>/", NodeChartView.as_view(), name="node-chart"),
    path("gpu-fields/", GpuFieldListView.as_view(), name="gpu-field-list"),
    path("nodes/<slug:node>/cordon/", NodeCordonView.as_view(), name="node-cordon"),
    path("nodes/<slug:node>/uncordon/", NodeUncordonView.as_view(), name="node-uncordon"),
    path("nodes/<slug:node>/verify/", NodeVerifyView.as_view(), name="node-verify"),
    path(
        "deployments/<uuid:deployment_id>/signatures/<slug:node>/",
        FolderSignatureView.as_view(),
        name="folder-signature",
    ),
    path("nodes/<slug:node>/reconcile/", NodeReconcileView.as_view(), name="node-reconcile"),
    path("alert-channels/", ChannelListView.as_view(), name="alert-channel-list"),
    path("alert-channels/<slug:channel>/", ChannelView.as_view(), name="alert-channel-detail"),
    path(
        "alert-channels/<slug:channel>/test/", ChannelTestView.as_view(), name="alert-channel-test"
    ),
    path(
        "alert-channels/<slug:channel>/secret/",
        ChannelSecretView.as_view(),
        name="alert-channel-secret",
    ),
    path("alert-routes/", RouteListView.as_view(), name="alert-route-list"),
    path("alert-routes/<slug:route>/", RouteView.as_view(), name="alert-route-detail"),
    path("alert-deliveries/", DeliveryListView.as_view(), name="alert-delivery-list"),
    path(
        "alert-deliveries/<uuid:delivery_id>/retry/",
        DeliveryRetryView.as_view(),
        name="alert-delivery-retry",
    ),
    path("on-call/", OnCallView.as_view(), name="on-call"),
    path("on-call/schedules/", ScheduleListView.as_view(), name="on-call-schedule-list"),
    path(
        "on-call/schedules/<slug:schedule>/", ScheduleView.as_view(), name="on-call-schedule-detail"
    ),
    path(
        "on-call/schedules/<slug:schedule>/shifts/",
        ShiftListView.as_view(),
        name="on-call-shift-list",
    ),
    path(
        "on-call/schedules/<slug:schedule>/overrides/",
        OverrideListView.as_view(),
        name="on-call-override-list",
    ),
    path(
        "on-call/overrides/<int:override_id>/",
        OverrideView.as_view(),
        name="on-call-override-detail",
    ),
    path("escalations/", PolicyListView.as_view(), name="escalation-list"),
    path("escalations/<slug:policy>/", PolicyView.as_view(), name="escalation-detail"),
]
