"""Audit entries as a timeline tells them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.models import AuditEntry

# Act → (words, icon, tone).
WORDS = {
    "model.create": (_("Model registered"), "plus", ""),
    "model.change": (_("Model changed"), "pen", ""),
    "model.assign_seat": (_("Seat assigned"), "person", ""),
    "model.set_alias": (_("Alias set"), "link", ""),
    "version.create": (_("Version created"), "upload", ""),
    "version.export": (_("Exported to ONNX"), "check", ""),
    "version.derive": (_("Lighter variant asked for"), "branch", ""),
    "version.optimise": (_("Made lighter"), "check", ""),
    "version.validate": (_("Validated"), "state-good", "ok"),
    "version.reject": (_("Rejected by validation"), "state-bad", "bad"),
    "version.archive": (_("Archived"), "state-stopped", ""),
    "version.try": (_("Tried with a sample"), "play", ""),
    "load_test.request": (_("Load test asked for"), "play", ""),
    "load_test.pass": (_("Load test passed"), "state-good", "ok"),
    "load_test.fail": (_("Load test failed"), "state-bad", "bad"),
    "draft.create": (_("Draft of a contract started"), "pen", ""),
    "draft.change": (_("Draft of a contract saved"), "pen", ""),
    "draft.discard": (_("Draft of a contract discarded"), "state-stopped", ""),
    "draft.propose": (_("Draft of a contract proposed"), "contract", ""),
    "contract.propose": (_("Contract proposed"), "contract", ""),
    "contract.comment": (_("Commented"), "info", ""),
    "contract.resolve_comment": (_("Comment resolved"), "check", ""),
    "contract.reopen_comment": (_("Comment reopened"), "info", ""),
    "contract.sign": (_("Contract signed"), "key", ""),
    "contract.in_force": (_("Contract came into force"), "state-good", "ok"),
    "contract.withdraw": (_("Contract withdrawn"), "state-stopped", ""),
    "contract.expire": (_("Contract expired"), "state-warn", "warn"),
    "plan.request": (_("TensorRT plan asked for"), "play", ""),
    "plan.build": (_("TensorRT plan built"), "check", "ok"),
    "release.request": (_("Release asked for"), "arrow-right", ""),
    "release.approve": (_("Approval given"), "key", ""),
    "release.approved": (_("Release approved"), "state-good", "ok"),
    "release.refused": (_("Release refused"), "state-bad", "bad"),
    "release.withdrawn": (_("Release withdrawn"), "state-stopped", ""),
    "release.break_glass": (_("Released against the policy"), "state-warn", "bad"),
    "release.review": (_("Release against the policy reviewed"), "check", ""),
    "deployment.create": (_("Deployment started"), "play", ""),
    "placement.ready": (_("Ready on a node"), "nodes", "ok"),
    "placement.unloaded": (_("Unloaded from a node"), "nodes", ""),
    "split.initial": (_("First version takes traffic"), "arrow-up", ""),
    "split.unload": (_("Version taken off"), "arrow-down", ""),
    "deployment.remove": (_("Taken off"), "arrow-down", ""),
    "split.change": (_("Traffic moved"), "branch", ""),
    "endpoint.rollback": (_("Rolled back"), "rollback", "warn"),
    "endpoint.mode": (_("Mode changed"), "bell", "warn"),
}


def timeline(entries: Iterable[AuditEntry], *, with_subject: bool = True) -> list[dict[str, Any]]:
    """Rows for components/timeline.html."""
    return [_row(entry, with_subject) for entry in entries]


def _row(entry: AuditEntry, with_subject: bool) -> dict[str, Any]:
    words, icon, tone = WORDS.get(entry.action, (entry.action, "info", ""))
    return {
        "at": entry.at,
        "title": str(words),
        "detail": " · ".join(part for part in (_what(entry, with_subject), entry.reason) if part),
        "actor": entry.actor_username,
        "icon": icon,
        "tone": tone,
        "url": entry.subject_url if with_subject else "",
    }


def _what(entry: AuditEntry, with_subject: bool) -> str:
    after = entry.after if isinstance(entry.after, dict) else {}
    if entry.action == "model.assign_seat":
        return f"{after.get('seat', '')}: {after.get('user', '')}".replace("_", " ")
    if entry.action == "model.set_alias":
        number = after.get("version")
        pointed = f"v{number}" if number else gettext("removed")
        return f"{after.get('alias', '')}: {pointed}"
    if entry.action == "version.derive":
        made = gettext("%(how)s of v%(number)s") % {
            "how": after.get("optimisation", ""),
            "number": after.get("derived_from", ""),
        }
        return " · ".join(part for part in (entry.subject if with_subject else "", made) if part)
    if " release " in entry.subject:
        where = after.get("environment")
        return " → ".join(part for part in (after.get("version"), where) if part)
    return entry.subject if with_subject and not entry.subject.startswith("model ") else ""
