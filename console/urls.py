"""All addresses; the storeys above are reached by name alone."""

from __future__ import annotations

from django.urls import include, path

from console.views.accounts import choose_language

urlpatterns = [
    path("", include("deployments.overview_urls")),
    path("", include(("console.page_urls", "console"))),
    path("", include(("models_registry.urls", "models_registry"))),
    path("", include(("deployments.urls", "deployments"))),
    path("i18n/setlang/", choose_language, name="set_language"),
    path(
        "api/v1/",
        include(
            (
                [
                    path("", include("console.api.urls")),
                    path("", include("models_registry.api.urls")),
                    path("", include("deployments.api.urls")),
                ],
                "api",
            )
        ),
    ),
]

handler400 = "console.views.errors.bad_request"
handler403 = "console.views.errors.forbidden"
handler404 = "console.views.errors.not_found"
handler500 = "console.views.errors.server_error"
