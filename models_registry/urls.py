"""The registry's pages."""

from __future__ import annotations

from django.urls import path

from models_registry.views import (
    contract_comments,
    contract_drafts,
    contracts,
    environments,
    models,
    optimisations,
    releases,
    team_models,
    version_create,
    versions,
)

MODEL = "models/<str:name>/"
VERSION = f"{MODEL}versions/<int:number>/"
CONTRACT = f"{MODEL}contracts/<int:revision>/"
DRAFT = f"{MODEL}contracts/drafts/<int:draft_id>/"
RELEASE = "releases/<uuid:release_id>/"

urlpatterns = [
    path("models/", models.index, name="model-list"),
    path("models/new/", models.create, name="model-create"),
    path(MODEL, models.detail, name="model-detail"),
    path(f"{MODEL}change/", models.change, name="model-change"),
    path(f"{MODEL}seats/<str:seat>/", models.seat_assign, name="seat-assign"),
    path(f"{MODEL}aliases/", models.alias, name="alias"),
    path(f"{MODEL}aliases/<str:alias_name>/remove/", models.alias_remove, name="alias-remove"),
    path(f"{MODEL}versions/new/", version_create.create, name="version-create"),
    path(f"{MODEL}versions/new/inspect/", version_create.inspect, name="version-inspect"),
    path(VERSION, versions.detail, name="version-detail"),
    path(f"{VERSION}progress/", versions.progress, name="version-progress"),
    path(f"{VERSION}config/", versions.config, name="version-config"),
    path(f"{VERSION}diff/", versions.diff, name="version-diff"),
    path(f"{VERSION}errors/<int:output>/", versions.errors, name="version-errors"),
    path(f"{VERSION}variants/", optimisations.variants, name="version-variants"),
    path(f"{VERSION}archive/", versions.archive, name="version-archive"),
    path(f"{VERSION}release/", releases.ask, name="release-request"),
    path(f"{MODEL}contracts/", contracts.index, name="contract-list"),
    path(f"{MODEL}contracts/compare/", contracts.compare, name="contract-compare"),
    path(f"{MODEL}contracts/new/", contract_drafts.start, name="contract-propose"),
    path(DRAFT, contract_drafts.editor, name="contract-draft"),
    path(f"{DRAFT}check/", contract_drafts.check, name="contract-draft-check"),
    path(f"{DRAFT}discard/", contract_drafts.discard, name="contract-draft-discard"),
    path(f"{CONTRACT}comments/", contract_comments.add, name="contract-comment"),
    path(
        f"{CONTRACT}comments/<int:comment_id>/resolve/",
        contract_comments.resolve,
        name="contract-comment-resolve",
    ),
    path(
        f"{CONTRACT}comments/<int:comment_id>/reopen/",
        contract_comments.reopen,
        name="contract-comment-reopen",
    ),
    path(CONTRACT, contracts.detail, name="contract-detail"),
    path(f"{CONTRACT}sign/", contracts.sign, name="contract-sign"),
    path(f"{CONTRACT}withdraw/", contracts.withdraw, name="contract-withdraw"),
    path("releases/", releases.index, name="release-list"),
    path(RELEASE, releases.detail, name="release-detail"),
    path(f"{RELEASE}break-glass/", releases.break_glass, name="release-break-glass"),
    path(f"{RELEASE}review/", releases.review, name="release-review"),
    path(f"{RELEASE}approve/", releases.approve, name="release-approve"),
    path(f"{RELEASE}refuse/", releases.refuse, name="release-refuse"),
    path(f"{RELEASE}withdraw/", releases.withdraw, name="release-withdraw"),
    path("teams/<slug:slug>/models/", team_models.panel, name="team-models"),
    path("environments/panel/", environments.panel, name="environment-panel"),
    path("environments/new/", environments.create, name="environment-create"),
    path("environments/<str:name>/change/", environments.change, name="environment-change"),
    path("environments/<str:name>/preview/", environments.preview, name="environment-preview"),
    path("environments/<str:name>/freeze/", environments.freeze, name="environment-freeze"),
    path(
        "environments/<str:name>/freezes/<int:freeze_id>/lift/",
        environments.lift,
        name="environment-freeze-lift",
    ),
]
