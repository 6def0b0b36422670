"""One difference between two contracts, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from models_registry.rules.contract_terms import (
    Term,
    Value,
    Word,
    gettext_noop,
    number_text,
    plain_text,
    render,
)

Kind = Literal["added", "removed", "changed"]
Effect = Literal["breaking", "weaker", "stronger", "neutral"]

_SENTENCES: dict[tuple[Kind, bool], str] = {
    ("changed", False): gettext_noop("%(what)s: %(before)s → %(after)s"),
    ("added", False): gettext_noop("%(what)s is new: %(after)s"),
    ("removed", False): gettext_noop("%(what)s is dropped: %(before)s"),
    ("changed", True): gettext_noop("“%(name)s”, %(what)s: %(before)s → %(after)s"),
    ("added", True): gettext_noop("%(what)s “%(name)s” is new: %(after)s"),
    ("removed", True): gettext_noop("%(what)s “%(name)s” is dropped: %(before)s"),
}
_VERDICTS: Mapping[Effect, str] = {
    "breaking": gettext_noop("%(change)s: breaks callers"),
    "weaker": gettext_noop("%(change)s: weaker for the caller"),
    "stronger": gettext_noop("%(change)s: stronger for the caller"),
    "neutral": gettext_noop("%(change)s: no difference to callers"),
}
BREAKS_BEYOND = 2.0
"""A limit loosened by more than this factor breaks callers instead of giving them less.

Time-outs, retries and capacity on the other side are set at a small multiple of what is promised;
beyond twice, they hold no more.
"""
NO_LIMIT = Word(gettext_noop("no limit"))
YES = Word(gettext_noop("yes"))
NO = Word(gettext_noop("no"))


@dataclass(frozen=True, slots=True)
class Change:
    """One difference; `before` and `after` are JSON values, None where there is none.

    Seen by a caller, it is *breaking* (what worked may stop working), *weaker* (less is promised,
    or less is checked before a version may serve), *stronger* (more is), or *neutral*.
    """

    pointer: str
    kind: Kind
    before: Any
    after: Any
    effect: Effect
    term: Term

    @property
    def sentence(self) -> str:
        """The change in English; a page says `render(change.term, gettext)`."""
        return render(self.term)

    @property
    def words(self) -> str:
        """The change and what it is to a caller, in English: `say` in another language."""
        return say(self)


def say(made: Change, translate: Callable[[str], str] = lambda message: message) -> str:
    """“P99 limit: 80 → 120 ms: weaker for the caller”, in English or by `translate`."""
    return translate(_VERDICTS[made.effect]) % {"change": render(made.term, translate)}


def breaking_changes(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Those that break callers."""
    return tuple(one for one in changes if one.effect == "breaking")


def change(
    pointer: str,
    what: Word,
    before: Any,
    after: Any,
    effect: Effect,
    *,
    kind: Kind = "changed",
    name: str = "",
    unit: str = "",
    shown: tuple[Value, Value] | None = None,
    template: str = "",
) -> Change:
    """A `Change` with its sentence.

    `name` is the thing's own name, `unit` follows the numbers, `shown` stands in the sentence
    where the JSON values are not what people read, `template` in place of the usual sentence.
    """
    # Between two numbers the unit is said once: 80 → 120 ms.
    both = before is not None and after is not None
    old, new = shown or (_value(before, "" if both else unit), _value(after, unit))
    values: dict[str, Value] = {"what": what, "before": old, "after": new}
    if name:
        values["name"] = name
    sentence = template or _SENTENCES[kind, bool(name)]
    return Change(pointer, kind, before, after, effect, Term(pointer, sentence, values))


class NumberChange(NamedTuple):
    """A number of the contract: where, what, its values, and what a rise means."""

    pointer: str
    what: Word
    before: float | None
    after: float | None
    higher_is: Effect
    unit: str = ""
    callers_build_on_it: bool = False
    """Loosened by more than `BREAKS_BEYOND` it breaks them."""


def number_change(number: NumberChange) -> Iterator[Change]:
    """A change when the values differ; None means that nothing is promised."""
    pointer, what, before, after, higher_is, unit, built_on = number
    if before == after:
        return
    if before is None:
        yield change(pointer, what, None, after, "stronger", kind="added", unit=unit)
    elif after is None:
        yield change(pointer, what, before, None, "weaker", kind="removed", unit=unit)
    else:
        effect = effect_of(before, after, higher_is=higher_is)
        if built_on:
            effect = breaks_when_far(effect, before, after)
        yield change(pointer, what, before, after, effect, unit=unit)


def effect_of(before: float, after: float, *, higher_is: Effect) -> Effect:
    """`higher_is` when the number rose, its opposite when it fell."""
    opposite: dict[Effect, Effect] = {"weaker": "stronger", "stronger": "weaker"}
    return higher_is if after > before else opposite.get(higher_is, "neutral")


def breaks_when_far(effect: Effect, before: float, after: float) -> Effect:
    """`breaking` in place of `weaker` when one number is more than `BREAKS_BEYOND` the other."""
    small, large = sorted((before, after))
    return "breaking" if effect == "weaker" and large > BREAKS_BEYOND * small else effect


def _value(value: Any, unit: str) -> Value:
    if value is None:
        return NO_LIMIT
    if isinstance(value, bool):
        return YES if value else NO
    if isinstance(value, int | float):
        return number_text(value) + (f" {unit}" if unit else "")
    return plain_text(value)
