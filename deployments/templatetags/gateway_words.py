"""What the gateways of an environment cannot do, for templates that show it before one tries."""

from __future__ import annotations

from collections.abc import Mapping

from django import template

from deployments.rules.gateways.capabilities import Capability
from deployments.selectors.gateways.words import lacking_words

register = template.Library()


@register.simple_tag
def gateways_lack(environment: str) -> Mapping[str, str]:
    """Capability → why it cannot be had here, in the reader's words; one query."""
    return lacking_words(environment, Capability)
