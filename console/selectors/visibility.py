"""What the floor's own tables may show of models: it knows them by name alone.

The registry, named in the settings, says which names do not exist for a person.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import F, Func, Model, Q, QuerySet, TextField, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import In
from django.utils.module_loading import import_string

from console.models import Job, User
from console.rules.subjects import MODEL_NAMED, model_named, model_of_topic

T = TypeVar("T", bound=Model)


def shown_to(rows: QuerySet[T], user: User, *, field: str = "subject") -> QuerySet[T]:
    """`rows` without those whose subject speaks of a model that this person may not see.

    No query of its own; who sees all models gets the rows as they are.
    """
    if user.sees_all_models:
        return rows
    return rows.exclude(hidden(user, field=field))


def hidden(user: User, *, field: str = "subject") -> Q:
    """The condition that a row's subject speaks of a model that this person may not see."""
    pattern = Value(MODEL_NAMED, output_field=TextField())
    name = Func(F(field), pattern, function="substring", output_field=TextField())
    names = _registry("hidden_names")(user).query
    return Q(In(Coalesce(name, Value(""), output_field=TextField()), names))


def audible_topics(user: User, topics: Collection[str]) -> set[str]:
    """Those of the topics that this person may listen to (at most three queries).

    A topic of a model that they may not see is like one of a model that does not exist: silent.
    """
    own = {topic for topic in topics if not topic.startswith("inbox:")}
    inbox = {f"inbox:{user.username}"}.intersection(topics)
    if user.sees_all_models:
        return own | inbox
    named = {topic: model_of_topic(topic) for topic in own}
    named |= _of_jobs(_identified(own, "job"))
    named |= _registry("models_of_releases")(_identified(own, "release"))
    asked = {name for name in named.values() if name}
    unseen: set[str] = set()
    if asked:
        unseen = set(_registry("hidden_names")(user).filter(name__in=asked))
    return {topic for topic in own if named[topic] not in unseen} | inbox


def _of_jobs(topics: dict[uuid.UUID, str]) -> dict[str, str]:
    if not topics:
        return {}
    rows = Job.objects.filter(pk__in=topics).values_list("pk", "subject")
    return {topics[pk]: model_named(subject) for pk, subject in rows}


def _identified(topics: Collection[str], kind: str) -> dict[uuid.UUID, str]:
    """Id → topic, of the topics `kind:ID`."""
    found: dict[uuid.UUID, str] = {}
    for topic in topics:
        if topic.startswith(f"{kind}:"):
            try:
                found[uuid.UUID(topic.partition(":")[2])] = topic
            except ValueError:
                continue
    return found


def _registry(function: str) -> Any:
    return import_string(f"{settings.MODEL_VISIBILITY}.{function}")
