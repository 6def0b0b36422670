"""What leaving some time out of the count does to an objective of a month."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from deployments.rules.objectives.figures import decimals
from deployments.rules.objectives.slo import Objective, Promise


@dataclass(frozen=True, slots=True)
class ExclusionEffect:
    """One objective of one calendar month, with the time counted and with it left out.

    `counted` and `left_out` are percent, None without requests.
    """

    month: date
    objective: Objective
    counted: float | None
    counted_state: Promise
    left_out: float | None
    left_out_state: Promise

    @property
    def counted_decimals(self) -> int:
        """Decimals that tell a miss from the target."""
        return 2 if self.counted is None else decimals(self.counted, self.objective.target)

    @property
    def left_out_decimals(self) -> int:
        """Decimals that tell a miss from the target."""
        return 2 if self.left_out is None else decimals(self.left_out, self.objective.target)
