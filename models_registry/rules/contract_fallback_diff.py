"""What changes in the answers that come while the model is down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from console.rules.canonical import pointer_of
from models_registry.rules.contract_changes import Change, Effect, change
from models_registry.rules.contract_terms import Word, gettext_noop, plain_text
from models_registry.rules.contract_types import Fallback, FallbackRule

_FIELD = Word(gettext_noop("Field of the fallback answer"))
_VALUE = Word(gettext_noop("fallback value"))
_RULE = Word(gettext_noop("Rule of the fallback"))
_WHEN = Word(gettext_noop("condition of the fallback’s rule"))
_ORDER = Word(gettext_noop("Order of the fallback’s rules"))
_EXAMPLES = Word(gettext_noop("Examples that the fallback’s rules are tested with"))

_OTHER_EXAMPLES = gettext_noop("%(what)s: others")


def fallback_changes(before: Fallback, after: Fallback) -> Iterator[Change]:
    """Every difference in the fixed response, the rules and their examples."""
    at = ("fallback", "response")
    yield from _response_changes(before.response, after.response, at)
    yield from _rule_changes(before.rules, after.rules)
    if before.examples != after.examples:
        counts = len(before.examples), len(after.examples)
        template = _OTHER_EXAMPLES if counts[0] == counts[1] else ""
        yield change("/fallback/examples", _EXAMPLES, *counts, "neutral", template=template)


def _rule_changes(
    before: tuple[FallbackRule, ...], after: tuple[FallbackRule, ...]
) -> Iterator[Change]:
    """Rules are known by their names; a caller gets less when one goes, and more when one comes."""
    old, new = {rule.name: rule for rule in before}, {rule.name: rule for rule in after}
    for index, rule in enumerate(before):
        if rule.name not in new:
            at = pointer_of("fallback", "rules", index)
            yield change(at, _RULE, _said(rule), None, "weaker", kind="removed", name=rule.name)
    for index, rule in enumerate(after):
        at = pointer_of("fallback", "rules", index)
        if (was := old.get(rule.name)) is None:
            yield change(at, _RULE, None, _said(rule), "stronger", kind="added", name=rule.name)
            continue
        if was.when != rule.when:
            conditions = was.when, rule.when
            yield change(f"{at}/when", _WHEN, *conditions, "neutral", name=rule.name)
        place = ("fallback", "rules", index, "response")
        yield from _response_changes(was.response, rule.response, place)
    kept = [rule.name for rule in before if rule.name in new]
    now = [rule.name for rule in after if rule.name in old]
    if kept != now:
        yield change("/fallback/rules", _ORDER, kept, now, "neutral")


def _response_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], place: tuple[str | int, ...]
) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        at = pointer_of(*place, name)
        if name not in new:
            yield change(at, _FIELD, old[name], None, "breaking", kind="removed", name=name)
        elif name not in old:
            yield change(at, _FIELD, None, new[name], "neutral", kind="added", name=name)
        elif old[name] != new[name] or _json_type(old[name]) != _json_type(new[name]):
            same = _json_type(old[name]) == _json_type(new[name])
            effect: Effect = "neutral" if same else "breaking"
            yield change(at, _VALUE, old[name], new[name], effect, name=name)


def _said(rule: FallbackRule) -> str:
    return f"{rule.when} → {plain_text(rule.response)}"


def _json_type(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__
