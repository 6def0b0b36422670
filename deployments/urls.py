"""Pages of what runs, and the panels that other packages' pages ask for."""

from __future__ import annotations

from django.urls import path

from deployments.views import (
    access,
    callers,
    deploying,
    dossiers,
    endpoints,
    incidents,
    fallbacks,
    load_tests,
    nodes,
    panels,
    plans,
    rollback_policies,
    rollbacks,
    rollouts,
    routing,
    sla,
    states,
    trials,
    version_comparisons,
)

urlpatterns = [
    path("endpoints/", endpoints.index, name="endpoint-list"),
    path("endpoints/<slug:environment>/<str:model>/", endpoints.detail, name="endpoint-detail"),
    path("endpoints/<slug:environment>/<str:model>/now/", endpoints.now_panel, name="endpoint-now"),
    path(
        "endpoints/<slug:environment>/<str:model>/rollback/",
        rollbacks.rollback,
        name="endpoint-rollback",
    ),
    path(
        "endpoints/<slug:environment>/<str:model>/routing/",
        routing.detail,
        name="endpoint-routing",
    ),
    path("endpoints/<slug:environment>/<str:model>/mode/", rollbacks.mode, name="endpoint-mode"),
    path(
        "endpoints/<slug:environment>/<str:model>/fallback/",
        fallbacks.detail,
        name="endpoint-fallback",
    ),
    path(
        "endpoints/<slug:environment>/<str:model>/compare/",
        version_comparisons.compare,
        name="endpoint-compare",
    ),
    path("endpoints/<slug:environment>/<str:model>/access/", access.detail, name="endpoint-access"),
    path("environments/<slug:environment>/callers/", callers.index, name="callers"),
    path(
        "environments/<slug:environment>/callers/<slug:caller>/",
        callers.detail,
        name="caller-detail",
    ),
    path(
        "environments/<slug:environment>/callers/<slug:caller>/block/",
        callers.block,
        name="caller-block",
    ),
    path(
        "environments/<slug:environment>/callers/<slug:caller>/keys/",
        callers.create_key,
        name="caller-key-create",
    ),
    path(
        "environments/<slug:environment>/callers/<slug:caller>/keys/<slug:prefix>/revoke/",
        callers.revoke_key,
        name="caller-key-revoke",
    ),
    path("environments/<slug:environment>/token-issuers/set/", callers.issuer, name="token-issuer"),
    path(
        "environments/<slug:environment>/token-issuers/<slug:issuer_name>/refresh/",
        callers.refresh_issuer,
        name="token-issuer-refresh",
    ),
    path(
        "environments/<slug:environment>/token-issuers/<slug:issuer_name>/remove/",
        callers.remove_issuer,
        name="token-issuer-remove",
    ),
    path("models/<str:name>/versions/<int:number>/dossier/", dossiers.detail, name="dossier"),
    path("models/<str:name>/versions/<int:number>/dossier.pdf", dossiers.pdf, name="dossier-pdf"),
    path(
        "endpoints/<slug:environment>/<str:model>/rollback-policy/",
        rollback_policies.detail,
        name="endpoint-rollback-policy",
    ),
    path(
        "endpoints/<slug:environment>/<str:model>/standing/",
        rollback_policies.standing_panel,
        name="endpoint-standing",
    ),
    path("incidents/", incidents.index, name="incident-list"),
    path("incidents/<uuid:incident_id>/", incidents.detail, name="incident-detail"),
    path(
        "incidents/<uuid:incident_id>/acknowledge/",
        incidents.acknowledge_incident,
        name="incident-acknowledge",
    ),
    path(
        "incidents/<uuid:incident_id>/resolve/", incidents.resolve_incident, name="incident-resolve"
    ),
    path(
        "incidents/<uuid:incident_id>/comments/",
        incidents.comment_incident,
        name="incident-comment",
    ),
    path("nodes/", nodes.index, name="node-list"),
    path("nodes/<slug:name>/", nodes.detail, name="node-detail"),
    path("nodes/<slug:name>/cordon/", nodes.cordon, name="node-cordon"),
    path("nodes/<slug:name>/uncordon/", nodes.uncordon, name="node-uncordon"),
    path("nodes/<slug:name>/verify/", nodes.verify, name="node-verify"),
    path("nodes/<slug:name>/reconcile/", nodes.reconcile, name="node-reconcile"),
    path("rollouts/", rollouts.index, name="rollout-list"),
    path("rollouts/<uuid:rollout_id>/", rollouts.detail, name="rollout-detail"),
    path("sla/", sla.index, name="sla-list"),
    path("sla/<slug:environment>/<str:model>/", sla.detail, name="sla-detail"),
    path("deployments/", deploying.create, name="deployment-create"),
    path("deployments/<uuid:deployment_id>/", deploying.detail, name="deployment-detail"),
    path("deployments/<uuid:deployment_id>/remove/", deploying.remove, name="deployment-remove"),
    path("panels/models/<str:name>/", panels.model_panel, name="model-panel"),
    path("panels/versions/<str:name>/<int:number>/", panels.version_panel, name="version-panel"),
    path("panels/load-tests/<str:name>/<int:number>/", load_tests.panel, name="load-test-panel"),
    path(
        "panels/load-tests/<str:name>/<int:number>/start/",
        load_tests.create,
        name="load-test-create",
    ),
    path("load-tests/<uuid:load_test_id>/", load_tests.detail, name="load-test-detail"),
    path(
        "load-tests/<uuid:load_test_id>/charts/<slug:name>/",
        load_tests.chart_data,
        name="load-test-chart",
    ),
    path("panels/try/<str:name>/<int:number>/", trials.panel, name="version-try"),
    path("panels/plans/<str:name>/<int:number>/", plans.plans_panel, name="version-plans"),
    path("panels/model-states/", states.models, name="model-states"),
    path("panels/version-states/<str:name>/", states.versions, name="version-states"),
    path("panels/releases/<uuid:release_id>/", panels.release_panel, name="release-panel"),
]
