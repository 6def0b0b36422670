"""Which Triton model a version joins: the one whose configuration it shares, or a new one.

Triton keeps one config.pbtxt for all versions of a model and reloads them all when it changes. So
versions share a Triton model only while their configurations are equal in everything that serves;
any other gets a generation of its own: `name`, `name_g2`, `name_g3` …
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

# What a generation's own name and its versions' labels change; a field starts in the first column.
_NAME_LINE = re.compile(r"^name:.*\n?", re.MULTILINE)
_TAGS = re.compile(r"^metric_tags\s*(?::\s*)?\{.*?^\}\n?", re.MULTILINE | re.DOTALL)


def config_identity(config_text: str) -> str:
    """SHA-256 in hex of a rendered config.pbtxt without its name and metric tags.

    The text is one that our renderer wrote (protobuf's text format, one order of fields), so
    equal configurations are equal texts.
    """
    plain = _TAGS.sub("", _NAME_LINE.sub("", config_text)).strip()
    return hashlib.sha256(plain.encode()).hexdigest()


def triton_model_name(model: str, generation: int) -> str:
    """Name inside Triton of a model's generation 1, 2, 3 …"""
    return model if generation == 1 else f"{model}_g{generation}"


def next_generation(model: str, numbers: Collection[int], taken: Collection[str]) -> int:
    """The number of a new generation: above all given, with a Triton name that nobody has.

    A model may be called what another's generation would be (`x_g2`), hence `taken`.
    """
    number = max(numbers, default=0) + 1
    while triton_model_name(model, number) in taken:
        number += 1
    return number
