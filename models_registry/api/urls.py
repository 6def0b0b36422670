"""The registry's part of /api/v1/."""

from __future__ import annotations

from django.urls import path

from models_registry.api import (
    catalog,
    contract_comments,
    contract_drafts,
    contracts,
    environments,
    optimisations,
    proposals,
    releases,
    uploads,
    versions,
)

MODEL = "models/<str:name>/"
VERSION = f"{MODEL}versions/<int:number>/"
CONTRACT = f"{MODEL}contracts/<int:revision>/"
DRAFT = f"{MODEL}contracts/drafts/<int:draft_id>/"
COMMENT = f"{CONTRACT}comments/<int:comment_id>/"
ENVIRONMENT = "environments/<str:name>/"
RELEASE = f"{MODEL}releases/<uuid:release_id>/"

urlpatterns = [
    path("models/", catalog.ModelListView.as_view(), name="model-list"),
    path(MODEL, catalog.ModelView.as_view(), name="model-detail"),
    path("environments/", environments.EnvironmentListView.as_view(), name="environment-list"),
    path(ENVIRONMENT, environments.EnvironmentView.as_view(), name="environment-detail"),
    path(
        f"{ENVIRONMENT}policy-preview/",
        environments.PolicyPreviewView.as_view(),
        name="environment-policy-preview",
    ),
    path(
        f"{ENVIRONMENT}freezes/", environments.FreezeListView.as_view(), name="environment-freezes"
    ),
    path(
        f"{ENVIRONMENT}freezes/<int:freeze_id>/lift/",
        environments.FreezeLiftView.as_view(),
        name="environment-freeze-lift",
    ),
    path(
        "approval-policy-schema/",
        environments.ApprovalPolicySchemaView.as_view(),
        name="approval-policy-schema",
    ),
    path("releases/", releases.AllReleasesView.as_view(), name="all-releases"),
    path("uploads/", uploads.UploadListView.as_view(), name="upload-list"),
    path("uploads/<uuid:upload_id>", uploads.UploadView.as_view(), name="upload-detail"),
    path("uploads/<uuid:upload_id>/", uploads.UploadView.as_view(schema=None)),
    path(
        "uploads/<uuid:upload_id>/proposal/",
        proposals.ProposalView.as_view(),
        name="upload-proposal",
    ),
    path(f"{MODEL}versions/", versions.VersionListView.as_view(), name="version-list"),
    path(VERSION, versions.VersionView.as_view(), name="version-detail"),
    path(
        f"{VERSION}optimisations/",
        optimisations.OptimisationsView.as_view(),
        name="version-optimisations",
    ),
    path(f"{VERSION}archive/", versions.VersionArchiveView.as_view(), name="version-archive"),
    path(f"{VERSION}report/", versions.VersionReportView.as_view(), name="version-report"),
    path(f"{VERSION}report/diff/", versions.ReportDiffView.as_view(), name="version-report-diff"),
    path(f"{VERSION}config/", versions.VersionConfigView.as_view(), name="version-config"),
    path(
        f"{VERSION}contract-proposal/",
        versions.ContractProposalView.as_view(),
        name="contract-proposal",
    ),
    path(f"{VERSION}artifacts/<str:file>", versions.VersionFileView.as_view(), name="version-file"),
    path(f"{VERSION}artifacts/<str:file>/", versions.VersionFileView.as_view(schema=None)),
    path("contract-schema/", contracts.ContractSchemaView.as_view(), name="contract-schema"),
    path(f"{MODEL}contracts/", contracts.ContractListView.as_view(), name="contract-list"),
    path(
        f"{MODEL}contract-templates/",
        contract_drafts.TemplateListView.as_view(),
        name="contract-template-list",
    ),
    path(
        f"{MODEL}contract-templates/<slug:key>/",
        contract_drafts.TemplateView.as_view(),
        name="contract-template",
    ),
    path(
        f"{MODEL}contracts/drafts/",
        contract_drafts.DraftListView.as_view(),
        name="contract-draft-list",
    ),
    path(DRAFT, contract_drafts.DraftView.as_view(), name="contract-draft"),
    path(
        f"{DRAFT}propose/",
        contract_drafts.DraftProposeView.as_view(),
        name="contract-draft-propose",
    ),
    path(
        f"{CONTRACT}comments/",
        contract_comments.CommentListView.as_view(),
        name="contract-comment-list",
    ),
    path(
        f"{COMMENT}resolve/",
        contract_comments.CommentResolveView.as_view(),
        name="contract-comment-resolve",
    ),
    path(
        f"{COMMENT}reopen/",
        contract_comments.CommentReopenView.as_view(),
        name="contract-comment-reopen",
    ),
    path(CONTRACT, contracts.ContractView.as_view(), name="contract-detail"),
    path(f"{CONTRACT}payload/", contracts.ContractPayloadView.as_view(), name="contract-payload"),
    path(f"{CONTRACT}diff/", contracts.ContractDiffView.as_view(), name="contract-diff"),
    path(
        f"{CONTRACT}signatures/",
        contracts.ContractSignatureView.as_view(),
        name="contract-signatures",
    ),
    path(
        f"{CONTRACT}withdraw/", contracts.ContractWithdrawView.as_view(), name="contract-withdraw"
    ),
    path(f"{CONTRACT}bundle/", contracts.ContractBundleView.as_view(), name="contract-bundle"),
    path(f"{MODEL}releases/", releases.ReleaseListView.as_view(), name="release-list"),
    path(RELEASE, releases.ReleaseView.as_view(), name="release-detail"),
    path(f"{RELEASE}payload/", releases.ReleasePayloadView.as_view(), name="release-payload"),
    path(f"{RELEASE}approvals/", releases.ReleaseApprovalView.as_view(), name="release-approvals"),
    path(f"{RELEASE}withdraw/", releases.ReleaseWithdrawView.as_view(), name="release-withdraw"),
    path(
        f"{RELEASE}break-glass/",
        releases.ReleaseBreakGlassView.as_view(),
        name="release-break-glass",
    ),
    path(f"{RELEASE}review/", releases.ReleaseReviewView.as_view(), name="release-review"),
    path(f"{RELEASE}bundle/", releases.ReleaseBundleView.as_view(), name="release-bundle"),
]
