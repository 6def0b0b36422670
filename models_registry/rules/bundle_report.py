"""What verifying a bundle found, and the words that bundles are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from models_registry.rules.contract_types import ContractDocument
from models_registry.rules.release_payload import ReleasePayload

API_VERSION = "covenant/v1"
CONTRACT_BUNDLE = "ContractBundle"
RELEASE_BUNDLE = "ReleaseBundle"
SEATS = ("data_scientist", "sre", "business_owner")
"""The three seats that carry a contract, in the order in which they are shown."""

Level = Literal["ok", "warning", "fault"]


@dataclass(frozen=True, slots=True)
class BrokenGlass:
    """How a release went past its environment's policy: why, what was waived, who looked into it.

    `waived` are pairs of a code and a sentence. What is signed is the release alone: the reason and
    what was waived are the console's word.
    """

    keyid: str
    reason: str
    waived: tuple[tuple[str, str], ...]
    reviewed_by: str | None = None
    reviewed_at: datetime | None = None
    review: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked: `code` is stable, `text` a sentence."""

    code: str
    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class BundleReport:
    """The findings in the order of checking; the bundle is good when none of them is a fault."""

    findings: tuple[Finding, ...]
    kind: str = ""
    model: str = ""
    digest: str = ""
    payload: ContractDocument | ReleasePayload | None = None

    @property
    def ok(self) -> bool:
        return all(finding.level != "fault" for finding in self.findings)

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == "fault")


@dataclass(slots=True)
class Findings:
    """Findings as they are made."""

    made: list[Finding] = field(default_factory=list)

    def ok(self, code: str, text: str) -> None:
        self.made.append(Finding(code, "ok", text))

    def warn(self, code: str, text: str) -> None:
        self.made.append(Finding(code, "warning", text))

    def fault(self, code: str, text: str) -> None:
        self.made.append(Finding(code, "fault", text))
