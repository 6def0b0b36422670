"""What a person carries that somebody has to carry on: seats, models, approvals that wait.

The storey above knows them; the floor asks for them by name, as it does for jobs' endings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from console.errors import FieldError

# Functions of the storey above; see there for what each takes and gives.
DUTIES_OF = "models_registry.selectors.duties.duties_of"
SEATS_HELD = "models_registry.selectors.duties.seats_held"
LOCK_DUTIES = "models_registry.services.duties.lock_duties"
HAND_OVER = "models_registry.services.duties.hand_over"


@dataclass(frozen=True, slots=True)
class Duty:
    """One thing that a person carries; `key` names it in requests, as in "seat:fraud_detector:sre".

    `role` is what it takes, globally or in the team `team_id` ("" for owning a model). `suggested`
    are user names of people who are fit for it, the best first. An `approval` is an open release
    that nobody else can approve: it cannot be handed over, only known of.
    """

    key: str
    kind: Literal["seat", "owner", "approval"]
    subject: str
    url: str
    role: str
    team_id: int | None
    suggested: tuple[str, ...] = ()

    @property
    def needs_successor(self) -> bool:
        return self.kind != "approval"


def seats_lost(
    duties: Iterable[Duty], roles_in: Callable[[int | None], frozenset[str]]
) -> list[Duty]:
    """The seats that somebody could not hold with the roles that `roles_in(team id)` gives."""
    return [
        duty for duty in duties if duty.kind == "seat" and duty.role not in roles_in(duty.team_id)
    ]


def faults_of(duties: Iterable[Duty], successors: Mapping[str, str]) -> tuple[FieldError, ...]:
    """What is missing or beside the point in the named successors, each at its place."""
    duties = list(duties)
    missing = [
        FieldError(f"/successors/{duty.key}", f"needs a successor: {duty.subject}")
        for duty in duties
        if duty.needs_successor and not successors.get(duty.key)
    ]
    known = {duty.key for duty in duties if duty.needs_successor}
    beside = [
        FieldError(f"/successors/{key}", "is nothing that this person hands over")
        for key in successors
        if key not in known
    ]
    return (*missing, *beside)
