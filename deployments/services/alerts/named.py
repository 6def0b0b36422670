"""Rows by the names that people give, with a pointer to the one that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from django.db import models

from console.errors import FieldError, Invalid
from console.models import User, UserKind

Row = TypeVar("Row", bound=models.Model)


def one_of(kind: type[Row], field: str, name: str, pointer: str) -> Row | None:
    """The row whose `field` is this name; None for no name. Raises Invalid (`unknown_name`)."""
    if not name:
        return None
    found = kind._default_manager.filter(**{field: name}).first()
    if found is None:
        raise unknown(name, pointer)
    return found


def all_of(kind: type[Row], field: str, names: Sequence[str], pointer: str) -> list[Row]:
    """The rows of these names, in their order. Raises Invalid (`unknown_name`)."""
    found = {
        str(getattr(row, field)): row
        for row in kind._default_manager.filter(**{f"{field}__in": names})
    }
    if missing := [name for name in names if name not in found]:
        raise unknown(missing[0], pointer)
    return [found[name] for name in names]


def people_of(names: Sequence[str], pointer: str) -> list[User]:
    """People with an open account, in the order given. Raises Invalid (`unknown_name`)."""
    rows = User.objects.filter(username__in=names, is_active=True, kind=UserKind.PERSON)
    found = {row.username: row for row in rows}
    if missing := [name for name in names if name not in found]:
        raise unknown(missing[0], pointer)
    return [found[name] for name in names]


def unknown(name: str, pointer: str) -> Invalid:
    """The refusal of a name that nothing has."""
    return Invalid(
        f"There is no “{name}”.",
        code="unknown_name",
        hint="Look at how it is written.",
        errors=(FieldError(pointer, f"There is no “{name}”."),),
    )
