"""Every sentence that a script of static/js shows, by the key that the script uses.

They travel in the page as JSON (components/script_strings.html); the script fills in ``{name}``.
"""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop as _

STRINGS: Final[dict[str, str]] = {
    "just_now": _("just now"),
    "seconds_ago": _("{n} s ago"),
    "minutes_ago": _("{n} min ago"),
    "hours_ago": _("{n} h ago"),
    "days_ago": _("{n} d ago"),
    "in_seconds": _("in {n} s"),
    "in_minutes": _("in {n} min"),
    "in_hours": _("in {n} h"),
    "in_days": _("in {n} d"),
    "copied": _("Copied"),
    "copy_failed": _("Could not copy. Select the text and press Ctrl-C."),
    "request_failed": _("The request failed ({status}). What the page shows is what is stored."),
    "unreachable": _("The server cannot be reached. Check the connection and try again."),
    "live_lost": _("Live numbers are stale: the connection was lost {age}. Trying again."),
    "chart_failed": _("The chart could not be loaded ({status})."),
    "chart_empty": _("No measurements in this period."),
    "chart_time": _("Time"),
    "chart_limit": _("limit"),
    "chart_show_table": _("Show as table"),
    "chart_show_chart": _("Show as chart"),
    "chart_truncated": _("The newest {n} points."),
    "split_unready": _("Version {version} cannot be raised: {reason}"),
    "split_reason_needed": _("Say why before you apply."),
    "split_expected": _("{rate}/s expected"),
    "split_moved": _("Sticky callers who change version: {share} %; everybody else keeps theirs."),
    "split_applying": _("Applying…"),
    "split_applied": _("Revision {revision} applied in {ms} ms."),
    "split_waiting": _("Revision {revision} is stored, but not every gateway has acknowledged it."),
    "split_ack": _("{gateway}: acknowledged after {ms} ms"),
    "split_nack": _("{gateway}: refused. {detail}"),
    "split_no_ack": _("{gateway}: no answer yet"),
    "split_stale": _("Somebody changed the split to revision {revision} meanwhile: {change}."),
    "split_foreign": _("{who} has just moved the traffic (revision {revision}): {change}."),
    "split_version_change": _("v{version} {before} → {after} %"),
    "somebody": _("Somebody"),
    "upload_choose": _("Choose one file."),
    "upload_choose_main": _(
        "Choose one file, or one .onnx file together with the files that hold its weights."
    ),
    "upload_set_missing": _(
        "{file} keeps its weights in other files, and these are not here yet: {names}."
    ),
    "upload_set_complete": _("{file} has all the files that it keeps its weights in: {names}."),
    "upload_set_busy": _("Wait until every file has arrived, or remove it."),
    "upload_hashing": _("Computing the SHA-256: {percent} %"),
    "upload_sending": _("{sent} of {total} · {speed}/s · {left} left"),
    "upload_starting": _("Starting…"),
    "upload_paused": _("Paused at {sent} of {total}."),
    "upload_resumable": _(
        "{name} was uploaded up to {sent} of {total}. Choose the same file to go on."
    ),
    "upload_retrying": _("The connection was lost. Trying again in {seconds} s."),
    "upload_done": _("Uploaded and verified: {total} in {time}."),
    "upload_failed": _("The upload stopped: {detail}"),
    "upload_cancelled": _("Cancelled. The part that had been sent was removed."),
    "search_results": _("{n} results"),
}
