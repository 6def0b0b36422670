"""The floor's pages."""

from __future__ import annotations

from django.urls import path

from console.views import accounts, audit, health, jobs, notices, people, settings

urlpatterns = [
    path("healthz", health.alive, name="healthz"),
    path("readyz", health.ready, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("sign-in/", accounts.sign_in, name="sign-in"),
    path("sign-out/", accounts.sign_out, name="sign-out"),
    path("jobs/", jobs.index, name="job-list"),
    path("jobs/<uuid:job_id>/", jobs.detail, name="job-detail"),
    path("jobs/<uuid:job_id>/cancel/", jobs.cancel, name="job-cancel"),
    path("jobs/<uuid:job_id>/retry/", jobs.retry, name="job-retry"),
    path("notices/", notices.index, name="notice-list"),
    path("notices/<int:notice_id>/done/", notices.done, name="notice-done"),
    path("audit/", audit.index, name="audit-list"),
    path("audit/verify/", audit.verify, name="audit-verify"),
    path("settings/", settings.you, name="settings"),
    path("settings/keys/", settings.keys, name="keys"),
    path("settings/keys/enrol/", settings.key_enrol, name="key-enrol"),
    path("settings/keys/<str:key_id>/revoke/", settings.key_revoke, name="key-revoke"),
    path("settings/tokens/", settings.tokens, name="tokens"),
    path("settings/tokens/create/", settings.token_create, name="token-create"),
    path("settings/tokens/<int:token_id>/revoke/", settings.token_revoke, name="token-revoke"),
    path("settings/people/", people.index, name="people"),
    path("settings/new-person/", people.create, name="person-create"),
    path("settings/people/<slug:username>/", people.detail, name="person-detail"),
    path("settings/people/<slug:username>/roles/", people.roles, name="person-roles"),
    path(
        "settings/people/<slug:username>/deactivate/",
        people.activate,
        {"active": False},
        name="person-deactivate",
    ),
    path(
        "settings/people/<slug:username>/reactivate/",
        people.activate,
        {"active": True},
        name="person-reactivate",
    ),
    path("settings/people/<slug:username>/password/", people.reset, name="person-password"),
    path("settings/environments/", people.environments, name="environments"),
    path("settings/system/", people.system, name="system"),
]
