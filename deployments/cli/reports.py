"""`covenant report`: what validation found, and how two versions differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session

_MARKS = {"passed": "✓", "failed": "✗", "warning": "!", "skipped": "·"}
_EFFECTS = {"better": "better", "worse": "WORSE", "neutral": "", "same": ""}


@click.command()
@click.argument("name")
@click.argument("number", type=int)
@click.option("--against", type=int, help="Show the differences to this version instead.")
@click.option("--all", "everything", is_flag=True, help="Show what passed (or is equal), too.")
@click.pass_obj
def report(session: Session, name: str, number: int, against: int | None, everything: bool) -> None:
    """The validation report of a version: what failed first, with the way to mend it."""
    address = f"/models/{name}/versions/{number}/report/"
    if against is not None:
        found = session.client.get(f"{address}diff/", against=against)
        show(found, as_json=session.as_json, words=_diff_words(name, found, everything))
        return
    found = session.client.get(address)
    show(found, as_json=session.as_json, words=_report_words(name, number, found, everything))


def _report_words(name: str, number: int, found: dict[str, Any], everything: bool) -> str:
    lines = [f"{name} v{number}: {found['verdict']}"]
    order = ("failed", "warning", "passed", "skipped")
    for check in sorted(found["checks"], key=lambda one: order.index(one["verdict"])):
        if check["verdict"] in ("passed", "skipped") and not everything:
            continue
        lines.append(f"{_MARKS[check['verdict']]} {check['title']}: {check['detail']}")
        if check["fix"]:
            lines.append(f"    → {check['fix']}")
    lines += [
        f"  {output['name']}: largest error {_number(output['max_abs'])}, mean "
        f"{_number(output['mean_abs'])}, p99 {_number(output['p99_abs'])}"
        for output in found.get("equivalence", {}).get("outputs", ())
    ]
    lines += [
        f"  batch {row['batch']}: p50 {_number(row['p50_ms'])} ms, p95 {_number(row['p95_ms'])} ms"
        for row in found.get("latency", ())
    ]
    passed = sum(check["verdict"] == "passed" for check in found["checks"])
    if not everything:
        lines.append(f"{passed} checks passed; --all shows them.")
    return "\n".join(lines)


def _diff_words(name: str, found: dict[str, Any], everything: bool) -> str:
    verdict = found["verdict"]
    lines = [
        f"{name} v{found['before']} → v{found['after']}: {verdict['before'] or 'no report'} → "
        f"{verdict['after'] or 'no report'}"
    ]
    for check in found["checks"]:
        if check["effect"] == "same" and not everything:
            continue
        change = f"{check['before'] or 'none'} → {check['after'] or 'none'}"
        lines.append(f"{_mark(check['effect'])}{check['title']}: {change}")
        if check["effect"] == "worse" and check["fix"]:
            lines.append(f"    → {check['fix']}")
    for figure in found["figures"]:
        if figure["effect"] in ("same", "neutral") and not everything:
            continue
        unit = f" {figure['unit']}" if figure["unit"] else ""
        lines.append(
            f"{_mark(figure['effect'])}{figure['title']}: {_number(figure['before'])} → "
            f"{_number(figure['after'])}{unit}"
        )
    if len(lines) == 1:
        lines.append("No difference that matters; --all shows every check and figure.")
    return "\n".join(lines)


def _mark(effect: str) -> str:
    word = _EFFECTS[effect]
    return f"[{word}] " if word else "  "


def _number(value: object) -> str:
    return (
        f"{value:.4g}"
        if isinstance(value, int | float)
        else str(value if value is not None else "—")
    )
