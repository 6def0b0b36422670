"""How a version may move, and what a job's ending means for it."""

from __future__ import annotations

from console.errors import Conflict

# A job that ends without a word on the model (cancelled, our own fault, an outside system) puts
# its version back to uploaded, from where a retry of that job goes on.
MOVES: dict[str, frozenset[str]] = {
    "draft": frozenset({"uploaded"}),
    "uploaded": frozenset({"exporting", "validating", "archived"}),
    "exporting": frozenset({"validating", "rejected", "uploaded"}),
    "validating": frozenset({"validated", "rejected", "uploaded"}),
    "validated": frozenset({"archived"}),
    "rejected": frozenset({"archived"}),
    "archived": frozenset(),
}
IMMUTABLE = frozenset({"validated", "archived"})

# Codes of failed jobs that say nothing about the model: a retry may well end otherwise.
NOT_THE_MODELS_FAULT = frozenset(
    {
        "artifact_missing",
        "digest_mismatch",
        "disk_full",
        "out_of_memory",
        "sandbox_unavailable",
        "timed_out",
        "unavailable",
        "work_folder_unusable",
    }
)

EXPLANATIONS: dict[str, str] = {
    "draft": "nothing has been uploaded for it yet",
    "uploaded": "it has not been exported and validated yet",
    "exporting": "its export is under way",
    "validating": "its validation is under way",
    "validated": "it has been validated, and what was validated never changes",
    "rejected": "it was rejected",
    "archived": "it is archived",
}


def may_move(before: str, after: str) -> bool:
    """Whether a version may go from one state to another."""
    return after in MOVES[before]


def check_move(before: str, after: str, subject: str) -> None:
    """Raise Conflict (`illegal_move`) unless `subject` may go from `before` to `after`."""
    if not may_move(before, after):
        raise Conflict(
            f"{subject} cannot become {after}: {EXPLANATIONS[before]}.",
            code="illegal_move",
            hint="Create a new version instead." if before in ("rejected", "archived") else "",
        )


def state_after_job(job_state: str, error_code: str) -> str:
    """What a version is once its export or validation ended without success."""
    if job_state == "failed" and error_code not in NOT_THE_MODELS_FAULT:
        return "rejected"
    return "uploaded"
