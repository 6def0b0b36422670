"""What a diagnosis finds: findings by step, and the one that explains it best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

Verdict = Literal["good", "unknown", "warn", "bad"]

LOG, CONFIG, ONNX, COMPATIBILITY, FILES = "log", "config", "onnx", "compatibility", "files"
STEPS: Final = (LOG, CONFIG, ONNX, COMPATIBILITY, FILES)
"""The five steps, in the order in which they are told."""

LONGEST_EVIDENCE: Final = 6000
MOST_FINDINGS: Final = 30
_SEVERITY: Final[dict[Verdict, int]] = {"good": 0, "unknown": 1, "warn": 2, "bad": 3}

_CAUSES: Final = (
    # What makes all else look wrong comes first: a full disk cuts files, a cut file has no graph.
    "triton_unreachable",
    "triton_key_refused",
    "repository_missing",
    "disk_full",
    "inodes_gone",
    "not_readable",
    "repository_unwritable",
    "stored_file_missing",
    "signed_file_replaced",
    "digest_differs",
    "file_missing",
    "file_unexpected",
    "external_data_missing",
    "external_data_short",
    "external_data_outside",
    "onnx_damaged",
    "driver_too_old",
    "backend_missing",
    "gpu_missing",
    "gpu_unknown",
    "operator_library_missing",
    "library_does_not_load",
    "config_missing",
    "config_unknown_field",
    "config_unreadable",
    "config_name_differs",
    "platform_unknown",
    "config_differs",
    "opset_too_new",
    "opset_too_old",
    "ir_version_too_new",
    "operator_unknown",
    "operator_not_implemented",
    "interface_differs",
    "input_unknown",
    "input_missing",
    "output_unknown",
    "dtype_differs",
    "dims_differ",
    "batch_axis_fixed",
    "preferred_too_large",
    "version_left_out",
    "version_folder_missing",
    "warmup_missing",
    "warmup_differs",
    "plan_of_other_release",
    "out_of_memory",
    "start_timed_out",
    "onnx_invalid",
    "onnx_not_loadable",
    "config_refused",
    "log_error",
    "trial_failed",
)
_GENERAL: Final = frozenset({"log_error", "trial_failed", "config_refused"})
"""That it failed, which is known: no explanation as long as there is another one."""

SERVING: Final = frozenset({"serves", "serves_still"})

_RANK: Final = {code: rank for rank, code in enumerate(_CAUSES)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was seen; `data` fills its words, `evidence` is what was read, as it was."""

    code: str
    verdict: Verdict
    data: dict[str, Any] = field(default_factory=dict)
    evidence: str = ""

    def to_json(self) -> dict[str, Any]:
        """As it is stored; the evidence's middle goes where it is too long."""
        return {
            "code": self.code,
            "verdict": self.verdict,
            "data": self.data,
            "evidence": shortened(self.evidence),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(
            document["code"], document["verdict"], document["data"], document.get("evidence", "")
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One of the five steps with what it found, worst first."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings'; a step without any says nothing."""
        return max(
            (one.verdict for one in self.findings),
            key=lambda verdict: _SEVERITY[verdict],
            default="unknown",
        )

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "findings": [one.to_json() for one in self.findings],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(document["name"], tuple(Finding.from_json(one) for one in document["findings"]))


def step(name: str, found: Iterable[Finding]) -> Step:
    """A step of its findings: each once, worst first, so many as a page shows."""
    seen: dict[tuple[str, str], Finding] = {}
    for one in found:
        seen.setdefault((one.code, repr(sorted(one.data.items()))), one)
    ordered = sorted(seen.values(), key=lambda one: -_SEVERITY[one.verdict])
    return Step(name, tuple(ordered[:MOST_FINDINGS]))


def cause(steps: Sequence[Step]) -> str:
    """The code of the bad finding that explains best why it does not load, "" without one.

    What Triton's own words name stands before what merely looks wrong, but behind what makes
    everything after it look wrong (a damaged file, a full disk).
    """
    bad = [(one, part.name) for part in steps for one in part.findings if one.verdict == "bad"]
    if not bad:
        return ""
    said = {one.code for one, name in bad if name == LOG} - _GENERAL

    def rank(entry: tuple[Finding, str]) -> tuple[int, int]:
        code = entry[0].code
        place = _RANK.get(code, len(_CAUSES))
        fundamental = place <= _RANK["onnx_damaged"]
        return (0 if fundamental or code in said else 1, place)

    return min(bad, key=rank)[0].code


def weighed(
    tried: Sequence[Finding], said: Sequence[Finding], *, serves: bool, failed: bool
) -> list[Finding]:
    """What was tried beside what the log and Triton say of the version.

    `serves`: Triton has it loaded under its own name, and callers are answered; `failed`: its last
    deploy there did not succeed. Where it loads now, what was said is of before and only warns.
    That “what was wrong is gone” is told only where something was wrong.
    """
    loads = any(one.code == "trial_loaded" for one in tried)
    if loads or serves:
        said = [replace(one, verdict="warn") if one.verdict == "bad" else one for one in said]
    wrong_before = failed or any(one.verdict == "warn" for one in said)
    if loads and (serves or not wrong_before):
        tried = [
            Finding("trial_loads", "good") if one.code == "trial_loaded" else one for one in tried
        ]
    return [*tried, *said] or [Finding("log_silent", "good")]


def with_serving(steps: Sequence[Step]) -> list[Step]:
    """The steps of a version that serves: the first one says so, and whether that is all."""
    sound = worst(steps) in ("good", "unknown")
    first = Finding("serves" if sound else "serves_still", "good")
    return [
        step(part.name, [first, *part.findings]) if part.name == LOG else part for part in steps
    ]


def serves(steps: Iterable[Step]) -> bool:
    """Whether a diagnosis saw the version loaded under its own name, as callers use it."""
    return any(one.code in SERVING for part in steps for one in part.findings)


def worst(steps: Sequence[Step]) -> Verdict:
    """The worst verdict of all steps."""
    return max((part.verdict for part in steps), key=lambda v: _SEVERITY[v], default="unknown")


def shortened(text: str) -> str:
    """At most `LONGEST_EVIDENCE` characters: the beginning and the end, which say most."""
    text = text.replace("\0", "�")
    if len(text) <= LONGEST_EVIDENCE:
        return text
    half = LONGEST_EVIDENCE // 2
    return f"{text[:half]}\n […] \n{text[-half:]}"
