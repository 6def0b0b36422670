"""How each state of the product is shown: a shape, a word and a tone, never a colour alone.

The states are those of the state machines of the domain; a state that is not in the table is shown
as a neutral dot with its own name, so that a page never breaks on a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


@dataclass(frozen=True, slots=True)
class StateLook:
    """`tone` is a CSS tone (neutral, info, ok, warn, bad), `shape` an icon ``state-<shape>``."""

    tone: str
    shape: str
    label: str | Promise


STATES: Final[dict[str, dict[str, StateLook]]] = {
    "version": {
        "draft": StateLook("neutral", "waiting", _("Draft")),
        "uploaded": StateLook("neutral", "open", _("Uploaded")),
        "exporting": StateLook("info", "active", _("Exporting")),
        "validating": StateLook("info", "active", _("Validating")),
        "validated": StateLook("ok", "good", _("Validated")),
        "rejected": StateLook("bad", "bad", _("Rejected")),
        "archived": StateLook("neutral", "stopped", _("Archived")),
    },
    "release": {
        "proposed": StateLook("info", "waiting", _("Awaiting approval")),
        "approved": StateLook("ok", "good", _("Approved")),
        "refused": StateLook("bad", "bad", _("Refused")),
        "withdrawn": StateLook("neutral", "stopped", _("Withdrawn")),
    },
    "contract": {
        "draft": StateLook("neutral", "waiting", _("Draft")),
        "proposed": StateLook("info", "waiting", _("Awaiting signatures")),
        "in_force": StateLook("ok", "good", _("In force")),
        "superseded": StateLook("neutral", "stopped", _("Superseded")),
        "withdrawn": StateLook("neutral", "stopped", _("Withdrawn")),
        "expired": StateLook("warn", "warn", _("Expired")),
    },
    "chain": {
        "whole": StateLook("ok", "good", _("Whole")),
        "broken": StateLook("bad", "bad", pgettext_lazy("audit trail", "Broken")),
        "checking": StateLook("info", "active", _("Checking")),
        "unchecked": StateLook("neutral", "waiting", _("Not checked yet")),
    },
    "sink": {
        "sending": StateLook("ok", "good", _("Up to date")),
        "catching_up": StateLook("info", "active", _("Catching up")),
        "failing": StateLook("bad", "bad", _("Failing")),
        "off": StateLook("neutral", "stopped", _("Off")),
    },
    "alert_channel": {
        "works": StateLook("ok", "good", _("Works")),
        "untried": StateLook("neutral", "waiting", _("Not tried yet")),
        "failing": StateLook("bad", "bad", _("Failing")),
        "off": StateLook("neutral", "stopped", _("Off")),
    },
    "alert_delivery": {
        "waiting": StateLook("info", "active", _("Waiting")),
        "sent": StateLook("ok", "good", _("Sent")),
        "failed": StateLook("bad", "bad", _("Failed")),
        "skipped": StateLook("neutral", "stopped", _("Not sent")),
    },
    "seat": {
        "signed": StateLook("ok", "good", _("Signed")),
        "waiting": StateLook("info", "waiting", _("Not signed yet")),
        "vacant": StateLook("warn", "warn", _("Nobody in this seat")),
        "invalid": StateLook("bad", "bad", _("Signature does not verify")),
        "revoked": StateLook("warn", "warn", _("Signed by a key revoked since")),
    },
    "placement": {
        "pending": StateLook("neutral", "waiting", _("Pending")),
        "placing": StateLook("info", "active", _("Placing files")),
        "loading": StateLook("info", "active", _("Loading")),
        "ready": StateLook("ok", "good", _("Ready")),
        "draining": StateLook("warn", "active", _("Draining")),
        "unloaded": StateLook("neutral", "stopped", _("Unloaded")),
        "failed": StateLook("bad", "bad", _("Failed")),
    },
    "split": {
        "pending": StateLook("info", "active", _("Not acknowledged yet")),
        "applied": StateLook("ok", "good", _("Applied")),
        "refused": StateLook("bad", "bad", _("Refused by a gateway")),
        "superseded": StateLook("neutral", "stopped", _("Superseded")),
    },
    "acknowledgement": {
        "applied": StateLook("ok", "good", _("Acknowledged")),
        "pending": StateLook("info", "active", _("Not acknowledged yet")),
        "refused": StateLook("bad", "bad", _("Refused")),
        "absent": StateLook("warn", "warn", _("Gateway is not connected")),
    },
    "experiment": {
        "running": StateLook("info", "active", _("Running")),
        "stopped": StateLook("neutral", "stopped", _("Stopped")),
        "taken_off": StateLook("warn", "warn", _("Candidate taken off")),
    },
    "verdict": {
        "too_few": StateLook("neutral", "waiting", _("Too few answers yet")),
        "open": StateLook("info", "active", _("Cannot tell yet")),
        "worse": StateLook("bad", "warn", _("Worse")),
        "not_worse": StateLook("ok", "good", _("Not worse")),
        "better": StateLook("ok", "good", _("Better")),
    },
    "comparison": {
        "worse": StateLook("bad", "warn", _("Worse")),
        "better": StateLook("ok", "good", _("Better")),
        "alike": StateLook("neutral", "open", _("Alike")),
        "unknown": StateLook("neutral", "waiting", _("Cannot tell")),
        "told": StateLook("neutral", "dot", _("Measured")),
    },
    "analysis": {
        "running": StateLook("info", "active", _("Running")),
        "successful": StateLook("ok", "good", _("Successful")),
        "failed": StateLook("bad", "bad", _("Failed")),
        "error": StateLook("warn", "warn", _("Error")),
        "inconclusive": StateLook("neutral", "waiting", _("Inconclusive")),
    },
    "rollout": {
        "running": StateLook("info", "active", _("Running")),
        "paused": StateLook("warn", "paused", _("Paused")),
        "promoted": StateLook("ok", "good", _("Promoted")),
        "aborted": StateLook("neutral", "stopped", _("Aborted")),
        "rolled_back": StateLook("bad", "back", _("Rolled back")),
    },
    "incident": {
        "open": StateLook("bad", "bad", pgettext_lazy("incident", "Open")),
        "acknowledged": StateLook("warn", "active", _("Seen to")),
        "resolved": StateLook("ok", "good", _("Resolved")),
    },
    "alert": {
        "pending": StateLook("neutral", "waiting", _("Not long enough yet")),
        "firing": StateLook("bad", "bad", _("Firing")),
        "resolved": StateLook("ok", "good", _("Resolved")),
    },
    "switch": {
        "on": StateLook("ok", "good", _("On")),
        "off": StateLook("neutral", "stopped", _("Off")),
    },
    "severity": {
        "P1": StateLook("bad", "bad", _("P1: at once")),
        "P2": StateLook("warn", "warn", _("P2: today")),
        "P3": StateLook("info", "open", _("P3: to be seen to")),
    },
    "rollback_level": {
        "1": StateLook("info", "back", _("Level 1: last good version")),
        "2": StateLook("warn", "warn", _("Level 2: fallback")),
        "3": StateLook("bad", "bad", _("Level 3: circuit open")),
    },
    "job": {
        "queued": StateLook("neutral", "waiting", _("Queued")),
        "running": StateLook("info", "active", _("Running")),
        "succeeded": StateLook("ok", "good", _("Succeeded")),
        "failed": StateLook("bad", "bad", _("Failed")),
        "errored": StateLook("bad", "warn", _("Internal error")),
        "cancelled": StateLook("neutral", "stopped", _("Cancelled")),
    },
    "node": {
        "ready": StateLook("ok", "good", _("Ready")),
        "cordoned": StateLook("warn", "paused", _("Cordoned")),
        "draining": StateLook("warn", "active", _("Draining")),
        "lost": StateLook("bad", "bad", _("Lost")),
        "unknown": StateLook("neutral", "open", _("Not seen yet")),
    },
    "gateway": {
        "connected": StateLook("ok", "good", _("Connected")),
        "disconnected": StateLook("bad", "bad", _("Disconnected")),
    },
    "diagnosis": {
        "running": StateLook("info", "active", _("Running")),
        "found": StateLook("bad", "bad", _("Cause found")),
        "suspected": StateLook("warn", "warn", _("Something to look at")),
        "clean": StateLook("ok", "good", _("Nothing found")),
        "failed": StateLook("neutral", "stopped", _("Not finished")),
    },
    "finding": {
        "good": StateLook("ok", "good", _("In order")),
        "unknown": StateLook("neutral", "open", _("Not known")),
        "warn": StateLook("warn", "warn", _("Look at it")),
        "bad": StateLook("bad", "bad", _("Fault")),
    },
    "check": {
        "passed": StateLook("ok", "good", _("Passed")),
        "warning": StateLook("warn", "warn", _("Warning")),
        "failed": StateLook("bad", "bad", _("Failed")),
        "skipped": StateLook("neutral", "stopped", _("Skipped")),
        "running": StateLook("info", "active", _("Running")),
        "pending": StateLook("neutral", "waiting", _("Not run yet")),
    },
    "load_test": {
        "passed": StateLook("ok", "good", _("Passed")),
        "failed": StateLook("bad", "bad", _("Failed")),
        "running": StateLook("info", "active", _("Running")),
        "pending": StateLook("neutral", "waiting", _("Queued")),
        "skipped": StateLook("neutral", "stopped", _("No verdict")),
    },
    "endpoint": {
        "healthy": StateLook("ok", "good", _("Healthy")),
        "degraded": StateLook("warn", "warn", _("Degraded")),
        "failing": StateLook("bad", "bad", _("Failing")),
        "idle": StateLook("neutral", "open", _("No traffic")),
        "unserved": StateLook("neutral", "waiting", _("Nothing serves yet")),
    },
    "mode": {
        "normal": StateLook("ok", "good", _("Normal")),
        "fallback": StateLook("warn", "warn", _("Fallback answers")),
        "open": StateLook("bad", "bad", _("Circuit open")),
    },
    "promise": {
        "kept": StateLook("ok", "good", _("Kept")),
        "at_risk": StateLook("warn", "warn", _("At risk")),
        "broken": StateLook("bad", "bad", _("Broken")),
        "no_data": StateLook("neutral", "open", _("No traffic yet")),
    },
    "agreement": {
        "proposed": StateLook("info", "waiting", _("Waits for agreement")),
        "agreed": StateLook("ok", "good", _("Agreed")),
        "in_force": StateLook("warn", "active", _("Under way")),
        "over": StateLook("neutral", "stopped", _("Over")),
        "void": StateLook("neutral", "stopped", _("Not agreed in time")),
        "withdrawn": StateLook("neutral", "back", _("Withdrawn")),
    },
    "word": {
        "agreed": StateLook("ok", "good", _("Agreed")),
        "open": StateLook("info", "waiting", _("Not agreed yet")),
    },
    "burn": {
        "quiet": StateLook("ok", "good", _("Quiet")),
        "firing": StateLook("bad", "bad", _("Burns too fast")),
        "too_few": StateLook("neutral", "waiting", _("Too few faults to tell")),
        "no_data": StateLook("neutral", "open", _("No traffic yet")),
    },
    "account": {
        "active": StateLook("ok", "good", _("Active")),
        "deactivated": StateLook("neutral", "stopped", _("Deactivated")),
        "disabled": StateLook("neutral", "stopped", _("Disabled")),
    },
    "invitation": {
        "open": StateLook("info", "waiting", _("Not accepted yet")),
        "accepted": StateLook("ok", "good", _("Accepted")),
        "expired": StateLook("neutral", "stopped", _("Expired")),
        "revoked": StateLook("bad", "stopped", _("Revoked")),
    },
    "share": {
        "open": StateLook("ok", "good", _("Active")),
        "expired": StateLook("neutral", "stopped", _("Expired")),
        "revoked": StateLook("bad", "stopped", _("Revoked")),
    },
    "key": {
        "active": StateLook("ok", "good", _("Active")),
        "revoked": StateLook("bad", "stopped", _("Revoked")),
        "expired": StateLook("neutral", "stopped", _("Expired")),
        "expiring": StateLook("warn", "warn", _("Expires soon")),
    },
    "signature": {
        "stays_valid": StateLook("ok", "good", _("Stays valid")),
        "no_longer_counts": StateLook("bad", "bad", _("No longer counts")),
    },
}


def look(kind: str, state: str) -> StateLook:
    """The look of `state` in the state machine `kind`; a neutral dot with its name if unknown."""
    known = STATES.get(kind, {}).get(state)
    if known is not None:
        return known
    return StateLook("neutral", "dot", state.replace("_", " ").capitalize())
