"""This storey's part of /api/v1/."""

from __future__ import annotations

from django.urls import path

from deployments.api.deployments import (
    DeploymentListView,
    DeploymentView,
    FolderSignatureView,
)
from deployments.api.dossiers import DossierView, ReleaseBomView
from deployments.api.load_tests import LoadTestHtmlView, LoadTestListView, LoadTestView
from deployments.api.nodes import (
    NodeCordonView,
    NodeListView,
    NodeReconcileView,
    NodeUncordonView,
    NodeVerifyView,
    NodeView,
)
from deployments.api.plans import PlanListView
from deployments.api.statistics import ChartView, SlaCsvView, SlaView, StatsView
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
    path("load-tests/<uuid:load_test_id>/", LoadTestView.as_view(), name="load-test-detail"),
    path("load-tests/<uuid:load_test_id>.html", LoadTestHtmlView.as_view(), name="load-test-html"),
    path("endpoints/", EndpointListView.as_view(), name="endpoint-list"),
    path(f"{_ENDPOINT}/", EndpointView.as_view(), name="endpoint-detail"),
    path(f"{_ENDPOINT}/split/", SplitView.as_view(), name="endpoint-split"),
    path(f"{_ENDPOINT}/rollback/", RollbackView.as_view(), name="endpoint-rollback"),
    path(f"{_ENDPOINT}/mode/", ModeView.as_view(), name="endpoint-mode"),
    path(f"{_ENDPOINT}/stats/", StatsView.as_view(), name="endpoint-stats"),
    path(f"{_ENDPOINT}/charts/<slug:name>/", ChartView.as_view(), name="endpoint-chart"),
    path(f"{_ENDPOINT}/compare/", CompareView.as_view(), name="endpoint-compare"),
    path(f"{_ENDPOINT}/sla/", SlaView.as_view(), name="endpoint-sla"),
    path(f"{_ENDPOINT}/sla.csv", SlaCsvView.as_view(), name="endpoint-sla-csv"),
    path(
        "models/<str:name>/versions/<int:number>/plans/", PlanListView.as_view(), name="plan-list"
    ),
    path("models/<str:name>/versions/<int:number>/try/", TryView.as_view(), name="version-try"),
    path("nodes/", NodeListView.as_view(), name="node-list"),
    path("nodes/<slug:node>/", NodeView.as_view(), name="node-detail"),
    path("nodes/<slug:node>/cordon/", NodeCordonView.as_view(), name="node-cordon"),
    path("nodes/<slug:node>/uncordon/", NodeUncordonView.as_view(), name="node-uncordon"),
    path("nodes/<slug:node>/verify/", NodeVerifyView.as_view(), name="node-verify"),
    path(
        "deployments/<uuid:deployment_id>/signatures/<slug:node>/",
        FolderSignatureView.as_view(),
        name="folder-signature",
    ),
    path("nodes/<slug:node>/reconcile/", NodeReconcileView.as_view(), name="node-reconcile"),
]
