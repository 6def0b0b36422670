"""Down the rollback levels by itself, and carefully back: what to do now, as a pure rule.

The way back is that of a circuit breaker that is half open (M. Nygard, Release It!, 2007): first
the version is asked directly, without a caller; then a small share of callers tries it, then more.
A return that fails is tried again later, each time twice as late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from deployments.rules.incidents.escalation_faults import (
    fault_of,
    find_unhealthy,
    look_for_nodes,
    nodes_of,
)
from deployments.rules.incidents.escalation_state import (
    Act,
    Decision,
    Health,
    Phase,
    Progress,
    VersionHealth,
)
from deployments.rules.incidents.rollback_policies import RollbackPolicy
from deployments.rules.incidents.severity import FALLBACK, NORMAL, OPEN, OTHER_VERSION
from deployments.rules.traffic.splits import WHOLE

LOOK = timedelta(seconds=1)
HOUR = timedelta(hours=1)
RESERVE = 3
"""Moves that a return leaves for going down every level again: it must never be stuck at a version
that fails because the way down is used up."""
ANSWERS_INSTEAD = {
    FALLBACK: "The contract’s fallback answers.",
    OPEN: "Nothing is left to answer with: callers get a clear 503.",
}
QUICK_MOVES = 4
"""Within so many moves of an hour, a version of which nothing but the node was missing is returned
to at once; a node that comes and goes is waited for as long as any other fault."""
QUIET_PROBES = 3
"""Where too few callers come, a probe lasts so many times as long, and the version is asked."""


def decide(policy: RollbackPolicy, progress: Progress, health: Health, now: datetime) -> Decision:
    """What to do at an endpoint now. Deciding twice on the same knowledge decides the same.

    `Decision.progress` is to be stored together with what was done; where a split was written, with
    its revision.
    """
    recent = tuple(moment for moment in progress.moves if now - moment < HOUR)
    progress = replace(progress, moves=recent)
    if progress.phase in (Phase.HANDED_OVER, Phase.STOPPED):
        return _stay(progress if health.incident_open else Progress(moves=recent), now)
    if health.starting:
        return _stay(look_for_nodes(progress, health, now), now)
    if progress.phase is Phase.WATCHING:
        return _watch(policy, progress, health, now)
    if health.refused:
        return _refused(policy, progress, health, now)
    if health.revision != progress.revision:
        return Decision(
            Act.HAND_OVER,
            replace(progress, phase=Phase.HANDED_OVER, since=now, missing_since=None),
            now + LOOK,
            cause="by_hand",
            message="The traffic was moved by somebody else: it is left to them.",
        )
    match progress.phase:
        case Phase.SETTLING:
            return _settle(policy, progress, health, now)
        case Phase.HELD:
            return _hold(policy, progress, health, now)
    return _probe(policy, progress, health, now)


def hold_of(policy: RollbackPolicy, failures: int) -> timedelta:
    """How long a level is held after so many returns that failed."""
    doubled = policy.hold_s * 2 ** min(failures, 16)
    return timedelta(seconds=min(doubled, max(policy.longest_hold_s, policy.hold_s)))


def _watch(policy: RollbackPolicy, progress: Progress, health: Health, now: datetime) -> Decision:
    if not health.incident_open:
        progress = Progress(
            missing_since=progress.missing_since, moves=progress.moves, back_at=progress.back_at
        )
    if health.mode != "normal":
        # Somebody has switched it: their decision.
        return _stay(replace(progress, missing_since=None), now)
    progress, bad, cause = find_unhealthy(policy, progress, health, now)
    if not bad:
        return _stay(progress, now)
    return _descend(policy, progress, health, now, bad, cause)


def _settle(policy: RollbackPolicy, progress: Progress, health: Health, now: datetime) -> Decision:
    progress, bad, cause = find_unhealthy(policy, progress, health, now)
    if bad:
        return _descend(policy, progress, health, now, bad, cause)
    if not health.settled or progress.missing_since is not None or not _over(progress, now, policy):
        return _stay(progress, now)
    left = progress.left if progress.level == OTHER_VERSION else ()
    over = Progress(level=progress.level, left=left, moves=progress.moves)
    return Decision(
        Act.END, over, now + LOOK, cause="well", message="Callers have been answered well since."
    )


def _hold(policy: RollbackPolicy, progress: Progress, health: Health, now: datetime) -> Decision:
    held = now - (progress.since or now)
    itself = health.versions.get(0, VersionHealth())
    if (
        progress.level == FALLBACK
        and held >= timedelta(seconds=policy.window_s)
        and fault_of(policy, itself, fewest=policy.min_requests, fresh=health.fresh)
    ):
        return _descend(policy, progress, health, now, (), "fallback_fails", above=FALLBACK)
    quick = _only_nodes_were_missing(progress, health)
    if held < hold_of(policy, progress.failures) and not quick:
        return _stay(progress, now)
    tried, unknown = _fit_to_try(progress, health)
    if unknown:
        return Decision(Act.ASK, progress, now, versions=unknown)
    if tried is None:
        if not health.asked:
            return _stay(progress, now)
        later = replace(progress, since=now, failures=progress.failures + 1)
        return Decision(
            Act.STAY,
            later,
            now + LOOK,
            cause="asked_in_vain",
            message=f"{_named(sorted(health.asked))} does not answer rightly when asked directly.",
        )
    if len(progress.moves) + 1 + RESERVE > policy.moves_per_hour:
        return _stop(progress, now, "Too many returns have failed within an hour.")
    step = replace(
        progress,
        phase=Phase.PROBING,
        since=now,
        step=len(policy.probes_percent) - 1 if quick and tried == health.carriers else 0,
        versions=() if tried == health.carriers else tried,
        moves=(*progress.moves, now),
    )
    return _try(policy, step, tried, now)


def _only_nodes_were_missing(progress: Progress, health: Health) -> bool:
    """Whether the versions are back on nodes and have done nothing that speaks against them."""
    return (
        progress.cause == "no_node"
        and progress.failures == 0
        and len(progress.moves) < QUICK_MOVES
        and bool(health.carriers)
        and all(nodes_of(health, version) for version in health.carriers)
    )


def _fit_to_try(
    progress: Progress, health: Health
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """The first versions that answer rightly when asked, or those that have to be asked first.

    Those that have the weights come first where nothing but their node was missing, else last.
    """
    choices: list[tuple[int, ...]] = [(v,) for v in health.others if v not in progress.left]
    if health.carriers and all(nodes_of(health, v) for v in health.carriers):
        blameless = progress.cause == "no_node"
        choices.insert(0 if blameless else len(choices), health.carriers)
    for tried in choices:
        if unknown := tuple(v for v in tried if v not in health.asked):
            return None, unknown
        if all(health.asked[version] for version in tried):
            return tried, ()
    return None, ()


def _probe(policy: RollbackPolicy, progress: Progress, health: Health, now: datetime) -> Decision:
    tried = progress.versions or health.carriers
    for version in tried:
        numbers = health.versions.get(version, VersionHealth())
        cause = fault_of(policy, numbers, fewest=policy.probe_requests, fresh=health.fresh)
        if cause or not numbers.nodes:
            return _back(progress, now, cause or "no_node", tried)
    if not health.settled or not health.fresh or not _over(progress, now, policy):
        return _stay(progress, now)
    came = sum(health.versions.get(version, VersionHealth()).requests for version in tried)
    if came < policy.probe_requests:
        if not _over(progress, now, policy, times=QUIET_PROBES):
            return _stay(progress, now)
        if unknown := tuple(v for v in tried if v not in health.asked):
            return Decision(Act.ASK, progress, now, versions=unknown)
        if not all(health.asked[version] for version in tried):
            return _back(progress, now, "asked_in_vain", tried)
    following = replace(progress, step=progress.step + 1, since=now)
    if following.step < len(policy.probes_percent):
        return _try(policy, following, tried, now)
    level = OTHER_VERSION if progress.versions else NORMAL
    return Decision(
        Act.RETURN,
        replace(following, phase=Phase.SETTLING, level=level, step=0),
        now + LOOK,
        cause="well",
        message=f"{_named(tried)} answers well: all callers are on it again.",
        versions=progress.versions,
        level=level,
    )


def _try(
    policy: RollbackPolicy, progress: Progress, tried: tuple[int, ...], now: datetime
) -> Decision:
    percent = policy.probes_percent[progress.step]
    return Decision(
        Act.PROBE,
        progress,
        now + LOOK,
        cause="probe",
        message=f"{_named(tried)} is tried by {percent:g} % now: half-open.",
        versions=progress.versions,
        level=progress.level,
        probe=round(percent * WHOLE / 100),
    )


def _back(progress: Progress, now: datetime, cause: str, tried: tuple[int, ...]) -> Decision:
    held = replace(
        progress,
        phase=Phase.HELD,
        since=now,
        step=0,
        versions=(),
        left=tuple(dict.fromkeys((*progress.left, *tried))),
        failures=progress.failures + 1,
        moves=(*progress.moves, now),
        cause=cause,
    )
    return Decision(
        Act.MOVE,
        held,
        now + LOOK,
        cause=cause,
        message=f"The return to {_named(tried)} has failed.",
        level=progress.level,
        call=progress.level >= OPEN,
    )


def _descend(
    policy: RollbackPolicy,
    progress: Progress,
    health: Health,
    now: datetime,
    bad: tuple[int, ...],
    cause: str,
    *,
    above: int = NORMAL,
) -> Decision:
    """The next level below `above` that can be taken; a version is asked before it is used."""
    left = tuple(dict.fromkeys((*progress.left, *bad)))
    if len(progress.moves) >= policy.moves_per_hour:
        return _stop(progress, now, "Too many moves within an hour.")
    down = replace(
        progress,
        since=now,
        left=left,
        step=0,
        missing_since=None,
        moves=(*progress.moves, now),
        cause=cause,
    )
    if above < OTHER_VERSION:
        for version in (v for v in health.others if v not in left):
            if version not in health.asked:
                return Decision(Act.ASK, progress, now, versions=(version,))
            if health.asked[version]:
                moved = replace(down, phase=Phase.SETTLING, level=OTHER_VERSION, versions=())
                return Decision(
                    Act.MOVE,
                    moved,
                    now + LOOK,
                    cause=cause,
                    message=f"All traffic goes to v{version}, the last good version.",
                    level=OTHER_VERSION,
                    versions=(version,),
                )
    for level in (FALLBACK, OPEN):
        if above < level <= policy.highest_level and (level == OPEN or health.fallback):
            gone = next((v for v in health.gone if v not in left), None)
            return Decision(
                Act.MOVE,
                replace(down, phase=Phase.HELD, level=level, versions=()),
                now + LOOK,
                cause=cause,
                message=ANSWERS_INSTEAD[level],
                level=level,
                redeploy=gone if policy.redeploy else None,
                call=level == OPEN,
            )
    return _stop(progress, now, "There is no level left that may be taken by itself.", cause)


def _refused(policy: RollbackPolicy, progress: Progress, health: Health, now: datetime) -> Decision:
    """A gateway refused what was written last; the split before it serves."""
    standing = replace(progress, revision=health.revision)
    if progress.phase is Phase.PROBING:
        return _back(standing, now, "refused", progress.versions or health.carriers)
    above = progress.level if progress.level else OTHER_VERSION
    return _descend(policy, standing, health, now, (), "refused", above=above)


def _stop(progress: Progress, now: datetime, message: str, cause: str = "stopped") -> Decision:
    stopped = replace(progress, phase=Phase.STOPPED, since=now, missing_since=None)
    return Decision(
        Act.STOP,
        stopped,
        now + LOOK,
        cause=cause,
        message=f"{message} It stays as it is: a person has to decide.",
        level=progress.level,
        call=True,
    )


def _over(progress: Progress, now: datetime, policy: RollbackPolicy, times: int = 1) -> bool:
    return now - (progress.since or now) >= timedelta(seconds=policy.probe_s * times)


def _stay(progress: Progress, now: datetime) -> Decision:
    return Decision(Act.STAY, progress, now + LOOK)


def _named(versions: Iterable[int]) -> str:
    return ", ".join(f"v{version}" for version in versions)
