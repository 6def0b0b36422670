"""Which model a subject in words speaks of: the subjects of jobs, audit entries and notices.

They are written as "model NAME", "NAME v3", "NAME contract 2", "NAME release …", "NAME draft …",
"ENVIRONMENT/NAME" and "job ID of …"; whatever else there is concerns no model.
"""

from __future__ import annotations

import re

# Read by Python and by PostgreSQL alike: no construct that only one of them knows.
MODEL_NAMED = (
    r"^(?:job [0-9a-f-]{36} of )?"
    r"(?:model |[-a-zA-Z0-9_]+/|(?=[a-z][a-z0-9_]* (?:v[0-9]|contract |release |draft )))"
    r"([a-z][a-z0-9_]{1,62})"
)
NODE = "node "
"""How the subject of a node begins, whose jobs tell of all models that lie there."""

_NAMED = re.compile(MODEL_NAMED)
_MODEL_FIRST = frozenset({"model", "version", "contract", "draft", "load-tests"})


def model_named(subject: str) -> str:
    """The model's name that a subject begins with, or "".

    >>> model_named("fraud_detector v3 → production on gpu-1")
    'fraud_detector'
    >>> model_named("node gpu-1")
    ''
    """
    found = _NAMED.match(subject)
    return found[1] if found else ""


def model_of_topic(topic: str) -> str:
    """The model's name in a topic of live events, "" where the topic names none by itself."""
    kind, _, rest = topic.partition(":")
    if kind in _MODEL_FIRST:
        return rest.partition("/")[0]
    if kind in ("endpoint", "rollout"):
        return rest.rpartition("/")[2]
    return model_named(rest) if kind == "subject" else ""
