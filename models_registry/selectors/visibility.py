"""Which models do not exist for a person, as the floor asks for them."""

from __future__ import annotations

import uuid

from django.db.models import QuerySet

from console.models import User
from models_registry.models import RegisteredModel, Release
from models_registry.models.catalog import Visibility, visible_models


def hidden_names(user: User) -> QuerySet[RegisteredModel, str]:
    """The names of the models that this person may not see (no query of its own)."""
    narrow = RegisteredModel.objects.filter(visibility=Visibility.TEAM)
    return narrow.exclude(visible_models(user)).order_by().values_list("name", flat=True)


def models_of_releases(topics: dict[uuid.UUID, str]) -> dict[str, str]:
    """Topic → name of the model, of the releases by their id (one query, none for none)."""
    if not topics:
        return {}
    rows = Release.objects.filter(pk__in=topics).values_list("pk", "version__model__name")
    return {topics[pk]: name for pk, name in rows}
