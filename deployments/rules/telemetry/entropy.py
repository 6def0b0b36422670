"""How undecided a model is: the entropy of the probabilities that it answers with.

Shannon's entropy of each row, divided by the greatest that as many classes can have, so that 0 is
certain and 1 is a coin toss (or a die) whatever the model. One limit then holds for any of them.
"""

from __future__ import annotations

import numpy as np

from models_registry.rules.feature_values import Array

_ABOUT_ONE = 1e-3


def row_entropies(values: Array, *, batched: bool, is_probability: bool) -> Array | None:
    """Each row's entropy, 0 to 1; None where the output holds no probabilities.

    Several columns that sum up to 1 are the classes of one distribution. Values that the contract
    bounds by 0 and 1 (`is_probability`) and that do not sum up are chances of their own, each
    against its opposite; their mean is the row's.
    """
    if values.dtype.kind != "f" or not values.size:
        return None
    rows = values.shape[0] if batched and values.ndim else 1
    table = values.reshape(rows, -1).astype(np.float64)
    if not np.isfinite(table).all() or table.min() < 0 or table.max() > 1 + _ABOUT_ONE:
        return None
    width = table.shape[1]
    if width > 1 and bool((np.abs(table.sum(axis=1) - 1) <= _ABOUT_ONE).all()):
        return np.asarray(_terms(table).sum(axis=1) / np.log(width))
    if not is_probability:
        return None
    chances = np.clip(table, 0, 1)
    return np.asarray(((_terms(chances) + _terms(1 - chances)) / np.log(2)).mean(axis=1))


def _terms(shares: Array) -> Array:
    """-p ln p of each share; that of 0 is 0."""
    return np.asarray(-shares * np.log(np.where(shares > 0, shares, 1)))
