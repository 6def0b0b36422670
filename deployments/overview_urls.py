"""The home page and the search: the only pages that look over all three packages."""

from __future__ import annotations

from django.urls import path

from deployments.views import overview

urlpatterns = [
    path("", overview.home, name="home"),
    path("search/", overview.search_everything, name="search"),
]
