"""What a gateway checks of a request before any model gets it: plain, typed, comparable data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CALLER_HEADER = "x-covenant-caller"
"""Carries the caller's name behind the gateway; no caller can bring it."""


class Validation(StrEnum):
    """What happens to a request that does not fit the model's inputs."""

    REFUSE = "refuse"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token bucket: `requests` tokens come in each `per_ms`, and at most `burst` are kept."""

    requests: int
    per_ms: int
    burst: int

    @property
    def wait_s(self) -> int:
        """Whole seconds after which an empty bucket has a token again, at least one."""
        return max(1, -(-self.per_ms // (self.requests * 1000)))


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds of one request; None leaves the gateway's own, or the contract's, in force."""

    max_body_bytes: int | None = None
    timeout_ms: int | None = None
    max_concurrent: int | None = None


@dataclass(frozen=True, slots=True)
class Retries:
    """`onto_baseline`: a request that a canary fails may be asked of the version before it."""

    onto_baseline: bool = True


@dataclass(frozen=True, slots=True)
class AccessRules:
    """One endpoint's access policy, checked; the default lets everybody in.

    `issuers` are names of token issuers of the environment. Networks are CIDR blocks. A list that
    allows nobody in particular allows everybody, and what is denied is denied whatever is allowed.
    """

    required: bool = False
    api_key: bool = False
    issuers: tuple[str, ...] = ()
    allow_callers: tuple[str, ...] = ()
    allow_networks: tuple[str, ...] = ()
    deny_callers: tuple[str, ...] = ()
    deny_networks: tuple[str, ...] = ()
    per_caller: RateLimit | None = None
    total: RateLimit | None = None
    limits: RequestLimits = RequestLimits()
    retries: Retries = Retries()
    validation: Validation = Validation.REFUSE

    @property
    def identifies(self) -> bool:
        """Whether callers can say who they are at all."""
        return self.api_key or bool(self.issuers)

    @property
    def has_networks(self) -> bool:
        """Whether it matters where a request comes from."""
        return bool(self.allow_networks or self.deny_networks)

    @property
    def lets_strangers_in(self) -> bool:
        """Whether somebody without a name, from any network, gets an answer."""
        return not (self.required or self.allow_callers or self.has_networks)

    @property
    def has_rates(self) -> bool:
        """Whether requests are counted."""
        return self.per_caller is not None or self.total is not None


OPEN = AccessRules()
"""Rules of an endpoint without a policy."""
