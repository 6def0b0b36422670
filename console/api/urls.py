"""The floor's part of /api/v1/."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import AllowAny

from console.api.audit import (
    AuditCheckpointsView,
    AuditExportView,
    AuditListView,
    AuditVerifyView,
)
from console.api.audit_sinks import (
    SinkListView,
    SinkSecretView,
    SinkTestView,
    SinkView,
)
from console.api.events import events
from console.api.installation_keys import InstallationKeyListView
from console.api.jobs import JobCancelView, JobListView, JobRetryView, JobView
from console.api.keys import (
    MeView,
    TokenListView,
    TokenRevokeView,
)
from console.api.notices import NoticeDoneView, NoticeListView
from console.api.people import (
    DeactivateView,
    DepartureView,
    PersonListView,
    PersonTokenListView,
    PersonView,
    ReactivateView,
)
from console.api.security import MySecurityView, MySessionsView, PersonSecondFactorView
from console.api.service_accounts import (
    ServiceAccountDisableView,
    ServiceAccountEnableView,
    ServiceAccountListView,
    ServiceAccountTokenListView,
    ServiceAccountView,
    TokenExchangeView,
    WorkloadListView,
    WorkloadView,
)
from console.api.signing_keys import (
    KeyEffectView,
    KeyExportView,
    KeyListView,
    KeyRevokeView,
    PasskeyListView,
    PasskeyOptionsView,
)
from console.api.teams import (
    InvitationListView,
    InvitationRevokeView,
    TeamListView,
    TeamMemberView,
    TeamView,
)

urlpatterns = [
    path("installation-keys/", InstallationKeyListView.as_view(), name="installation-key-list"),
    path("notices/", NoticeListView.as_view(), name="notice-list"),
    path("notices/<int:notice_id>/done/", NoticeDoneView.as_view(), name="notice-done"),
    path("schema/", SpectacularAPIView.as_view(permission_classes=[AllowAny]), name="schema"),
    path("events/", events, name="events"),
    path("me/", MeView.as_view(), name="me"),
    path("me/security/", MySecurityView.as_view(), name="my-security"),
    path("me/sessions/", MySessionsView.as_view(), name="my-sessions"),
    path("jobs/", JobListView.as_view(), name="job-list"),
    path("jobs/<uuid:job_id>/", JobView.as_view(), name="job-detail"),
    path("jobs/<uuid:job_id>/cancel/", JobCancelView.as_view(), name="job-cancel"),
    path("jobs/<uuid:job_id>/retry/", JobRetryView.as_view(), name="job-retry"),
    path("keys/", KeyListView.as_view(), name="key-list"),
    path("keys/export/", KeyExportView.as_view(), name="key-export"),
    path("keys/passkey-options/", PasskeyOptionsView.as_view(), name="passkey-options"),
    path("keys/passkeys/", PasskeyListView.as_view(), name="passkey-list"),
    path("keys/<str:key_id>/effect/", KeyEffectView.as_view(), name="key-effect"),
    path("keys/<str:key_id>/revoke/", KeyRevokeView.as_view(), name="key-revoke"),
    path("tokens/", TokenListView.as_view(), name="token-list"),
    path("tokens/exchange/", TokenExchangeView.as_view(), name="token-exchange"),
    path("tokens/<int:token_id>/revoke/", TokenRevokeView.as_view(), name="token-revoke"),
    path("people/", PersonListView.as_view(), name="person-list"),
    path("people/<slug:username>/", PersonView.as_view(), name="person-detail"),
    path("people/<slug:username>/departure/", DepartureView.as_view(), name="person-departure"),
    path("people/<slug:username>/deactivate/", DeactivateView.as_view(), name="person-deactivate"),
    path("people/<slug:username>/reactivate/", ReactivateView.as_view(), name="person-reactivate"),
    path(
        "people/<slug:username>/second-factor/reset/",
        PersonSecondFactorView.as_view(),
        name="person-second-factor",
    ),
    path("people/<slug:username>/tokens/", PersonTokenListView.as_view(), name="person-tokens"),
    path("invitations/", InvitationListView.as_view(), name="invitation-list"),
    path(
        "invitations/<uuid:invitation_id>/revoke/",
        InvitationRevokeView.as_view(),
        name="invitation-revoke",
    ),
    path("teams/", TeamListView.as_view(), name="team-list"),
    path("teams/<slug:slug>/", TeamView.as_view(), name="team-detail"),
    path(
        "teams/<slug:slug>/members/<slug:username>/",
        TeamMemberView.as_view(),
        name="team-member",
    ),
    path("service-accounts/", ServiceAccountListView.as_view(), name="service-account-list"),
    path(
        "service-accounts/<slug:username>/",
        ServiceAccountView.as_view(),
        name="service-account-detail",
    ),
    path(
        "service-accounts/<slug:username>/disable/",
        ServiceAccountDisableView.as_view(),
        name="service-account-disable",
    ),
    path(
        "service-accounts/<slug:username>/enable/",
        ServiceAccountEnableView.as_view(),
        name="service-account-enable",
    ),
    path(
        "service-accounts/<slug:username>/tokens/",
        ServiceAccountTokenListView.as_view(),
        name="service-account-tokens",
    ),
    path(
        "service-accounts/<slug:username>/workloads/",
        WorkloadListView.as_view(),
        name="workload-list",
    ),
    path(
        "service-accounts/<slug:username>/workloads/<int:workload_id>/",
        WorkloadView.as_view(),
        name="workload-detail",
    ),
    path("audit/", AuditListView.as_view(), name="audit-list"),
    path("audit/verify/", AuditVerifyView.as_view(), name="audit-verify"),
    path("audit/export/", AuditExportView.as_view(), name="audit-export"),
    path("audit/checkpoints/", AuditCheckpointsView.as_view(), name="audit-checkpoints"),
    path("audit/sinks/", SinkListView.as_view(), name="audit-sinks"),
    path("audit/sinks/<slug:sink>/", SinkView.as_view(), name="audit-sink"),
    path("audit/sinks/<slug:sink>/test/", SinkTestView.as_view(), name="audit-sink-test"),
    path("audit/sinks/<slug:sink>/secret/", SinkSecretView.as_view(), name="audit-sink-secret"),
]
