"""What is measured of an endpoint's model, of how many rows, and by which names."""

from __future__ import annotations

from typing import Final

DRIFT: Final = "feature_drift_score"
PSI: Final = "feature_psi"
ENTROPY: Final = "model_output_entropy"
MEASURED: Final = (DRIFT, PSI, ENTROPY)
"""Series of an endpoint and version. The label "" is the greatest of all features or outputs."""

USUAL_SHARE: Final = 500
"""Basis points of an endpoint's requests that are looked at where nobody chose another share."""

FEWEST_ROWS: Final = 100
MOST_ROWS: Final = 1000
OLDEST_S: Final = 3600.0
"""Inputs are judged by the newest 1,000 rows of the last hour, and not by fewer than 100."""

FEWEST_ANSWERS: Final = 20
MOST_ANSWERS: Final = 500
OLDEST_ANSWER_S: Final = 300.0
"""Entropy is that of the newest 500 rows answered within five minutes, 20 at least."""


def share_of(*, promised: bool, chosen: tuple[bool, int] | None) -> int:
    """Basis points of an endpoint's requests to look at; 0: its model is not measured.

    A promise of the contract is measured whatever people chose; their share holds for both.
    """
    if chosen is None:
        return USUAL_SHARE if promised else 0
    measured, basis_points = chosen
    return basis_points if promised or measured else 0
