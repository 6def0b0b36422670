"""Weights of a split: percent for people, basis points (hundredths of a percent) inside.

Whole numbers that must sum to exactly 10000: no rounding can lose or invent a share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from console.errors import Conflict, FieldError, Invalid

WHOLE = 10_000
"""Basis points of all traffic."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one version had and gets, in basis points."""

    version: int
    before: int
    after: int


def parse_weights(raw: Mapping[str, object] | Mapping[int, object]) -> dict[int, int]:
    """Percent per version as callers write them -> basis points, ordered by version.

    Takes int, float, str or Decimal with at most two decimals; a weight of 0 is kept.

    Raises Invalid (with a pointer for each fault) unless every weight is readable and they sum to
    100 %.
    """
    faults: list[FieldError] = []
    weights: dict[int, int] = {}
    for key, value in raw.items():
        pointer = f"/weights/{key}"
        digits = str(key).isascii() and str(key).isdecimal() and len(str(key)) < 10
        version = int(key) if digits else 0
        if version < 1:
            faults.append(FieldError(pointer, "A version is a whole number from 1."))
        elif version in weights:
            faults.append(FieldError(pointer, "This version is given twice."))
        else:
            try:
                weights[version] = _basis_points(value)
            except ValueError as fault:
                faults.append(FieldError(pointer, str(fault)))
    if faults:
        raise Invalid("Some weights cannot be read.", code="invalid_weights", errors=tuple(faults))
    total = sum(weights.values())
    if total != WHOLE:
        given = _percent_text(total)
        raise Invalid(
            f"The weights sum to {given} %, not to 100 %.",
            code="weights_not_100",
            hint="Change a weight until the sum is 100 %.",
            errors=(FieldError("/weights", f"The sum is {given} %."),),
        )
    return dict(sorted(weights.items()))


def check_ready(weights: Mapping[int, int], ready: Collection[int]) -> None:
    """Refuse weight on a version that no node has ready. Raises Conflict."""
    missing = sorted(v for v, weight in weights.items() if weight > 0 and v not in ready)
    if not missing:
        return
    names = ", ".join(f"v{version}" for version in missing)
    raise Conflict(
        f"No node has {names} ready, so it cannot take traffic.",
        code="not_ready",
        hint="Deploy it first, and wait until its placement is ready.",
        errors=tuple(FieldError(f"/weights/{v}", "Not ready on any node.") for v in missing),
    )


def redistribute(weights: Mapping[int, int], gone: Collection[int]) -> dict[int, int]:
    """Give the share of the versions that are gone to the others, in proportion.

    Returns {} when no version that is left has any weight: then nobody can answer.
    """
    left = {version: weight for version, weight in weights.items() if version not in gone}
    if not any(left.values()):
        return {}
    return _apportion(left, WHOLE)


def set_share(weights: Mapping[int, int], version: int, basis_points: int) -> dict[int, int]:
    """One version gets exactly this share, the others keep their proportions among themselves.

    When the others have nothing, the one with the lowest number takes what is left.

    Raises Invalid for a share outside 0 to 10000, or when there is no other version to give to.
    """
    others = {v: weight for v, weight in sorted(weights.items()) if v != version}
    if not 0 <= basis_points <= WHOLE or (not others and basis_points != WHOLE):
        raise Invalid(
            f"v{version} cannot have {_percent_text(basis_points)} % of this split.",
            code="invalid_weights",
        )
    if others and not any(others.values()):
        others[min(others)] = WHOLE
    rest = _apportion(others, WHOLE - basis_points) if others else {}
    return dict(sorted({**rest, version: basis_points}.items()))


def diff(before: Mapping[int, int], after: Mapping[int, int]) -> tuple[Change, ...]:
    """Versions whose weight differs, by number."""
    versions = sorted({*before, *after})
    changes = (Change(v, before.get(v, 0), after.get(v, 0)) for v in versions)
    return tuple(change for change in changes if change.before != change.after)


def to_percent(weights: Mapping[int, int]) -> dict[int, Decimal]:
    """Basis points -> percent with two decimals, as people read them."""
    return {version: Decimal(weight) / 100 for version, weight in sorted(weights.items())}


def _basis_points(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError("A weight is a number of percent.")
    try:
        percent = Decimal(str(value).strip())
    except InvalidOperation:
        raise ValueError("A weight is a number of percent.") from None
    if not percent.is_finite() or not 0 <= percent <= 100:
        raise ValueError("A weight lies between 0 and 100 %.")
    points = percent * 100
    if points != points.to_integral_value():
        raise ValueError("A weight has at most two decimals.")
    return int(points)


def _apportion(weights: Mapping[int, int], total: int) -> dict[int, int]:
    """Scale to `total` by largest remainders; ties go to the lower version number."""
    old = sum(weights.values())
    shares = {v: weight * total // old for v, weight in sorted(weights.items())}
    by_remainder = sorted(shares, key=lambda v: (-(weights[v] * total % old), v))
    for version in by_remainder[: total - sum(shares.values())]:
        shares[version] += 1
    return shares


def _percent_text(points: int) -> str:
    return format((Decimal(points) / 100).normalize(), "f")
