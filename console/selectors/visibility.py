"""What the floor's own tables may show of models: it knows them by name alone.

The registry, named in the settings, says which names do not exist for a person.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import Exists, F, Func, Model, Q, QuerySet, TextField, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import In
from django.utils.module_loading import import_string

from console.models import Job, User
from console.rules.audit_occurrences import subject_of
from console.rules.subjects import MODEL_NAMED, NODE, model_named, model_of_topic

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


def subject_of_address(path: str, values: Mapping[str, Any]) -> str:
    """What an address is about as audit entries say it (one query for a release, else none).

    A release is told with its model's name, so that the entry is hidden with the model.
    """
    release = values.get("release_id")
    if isinstance(release, uuid.UUID):
        named = _registry("models_of_releases")({release: path})
        if path in named:
            return f"{named[path]} release {release}"
    return subject_of(path)


def jobs_shown_to(jobs: QuerySet[Job], user: User) -> QuerySet[Job]:
    """`jobs` without those about a model that this person may not see (no query of its own).

    A job about a node names in its log and result what lies on that node: it is shown to those
    from whom no model is hidden.
    """
    if user.sees_all_models:
        return jobs
    some_hidden = Exists(_registry("hidden_names")(user))
    return shown_to(jobs, user).exclude(Q(some_hidden, subject__startswith=NODE))


def audible_topics(user: User, topics: Collection[str]) -> set[str]:
    """Those of the topics that this person may listen to (at most four queries).

    A topic of a model that they may not see is like one of a model that does not exist: silent.
    """
    own = {topic for topic in topics if not topic.startswith("inbox:")}
    inbox = {f"inbox:{user.username}"}.intersection(topics)
    if user.sees_all_models:
        return own | inbox
    named = {topic: model_of_topic(topic) for topic in own}
    subjects = _subjects_of_jobs(_identified(own, "job"))
    named |= {topic: model_named(subject) for topic, subject in subjects.items()}
    named |= _registry("models_of_releases")(_identified(own, "release"))
    asked = {name for name in named.values() if name}
    unseen: set[str] = set()
    if asked:
        unseen = set(_registry("hidden_names")(user).filter(name__in=asked))
    of_nodes = {topic for topic, subject in subjects.items() if subject.startswith(NODE)}
    of_nodes |= {topic for topic in own if topic.startswith(f"subject:{NODE}")}
    if of_nodes and _registry("hidden_names")(user).exists():
        own -= of_nodes
    return {topic for topic in own if named[topic] not in unseen} | inbox


def _subjects_of_jobs(topics: dict[uuid.UUID, str]) -> dict[str, str]:
    """Topic → subject of the job, for the ids of jobs that there are."""
    if not topics:
        return {}
    rows = Job.objects.filter(pk__in=topics).values_list("pk", "subject")
    return {topics[pk]: subject for pk, subject in rows}


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
