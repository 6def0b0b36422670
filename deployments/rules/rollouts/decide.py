"""What a rollout does next: `decide(plan, progress, look, now)`, one pure function.

One call makes one move at most: it ends the rollout, pauses it, sets a weight, begins the next
step, or waits. Called twice for one instant it moves once. It knows no clock but `now`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from deployments.rules.rollouts.analysis import Judged, Phase
from deployments.rules.rollouts.looks import Act, Action, Decision, Look, Traffic
from deployments.rules.rollouts.measuring import (
    SOON_S,
    measure,
    runs_of,
    step_of,
    unproved,
    verdict,
    with_runs,
)
from deployments.rules.rollouts.progress import HELD, Cause, Progress
from deployments.rules.rollouts.types import Pause, Plan, SetWeight
from deployments.rules.states import RolloutState

LATER_S = 15.0
"""A rollout that waits for nothing that has a time is looked at so often all the same."""
UNACKNOWLEDGED_S = 10.0
"""From then on a weight that gateways have not acknowledged is said to hold the rollout up."""
NEVER = timedelta(days=365)

Measured = tuple[tuple[str, Judged], ...]


def decide(plan: Plan, progress: Progress, look: Look, now: datetime) -> Decision:
    """The next move, see above. A rollout that has ended waits for ever."""
    if not progress.is_active:
        return Decision(Action(Act.WAIT), progress, now + NEVER)
    if (moved := _what_others_did(progress, look)) is not None:
        return _end_or_pause(progress, moved, now)
    if look.traffic is not Traffic.OURS:
        return _Turn(plan, progress, look, now).wait()
    progress = _acknowledged(progress, look, now)
    if (ending := _ends_at_once(progress, look)) is not None:
        return _end_or_pause(progress, ending, now)
    if progress.moved_at == now:
        return _Turn(plan, progress, look, now).wait()
    progress, judged = measure(plan, with_runs(plan, progress, now), look, now)
    if (come_to := verdict(plan, progress)) is not None:
        return _end_or_pause(progress, come_to, now, judged)
    turn = _Turn(plan, progress, look, now, judged)
    return turn.wait() if progress.state is RolloutState.PAUSED else turn.move()


def _what_others_did(progress: Progress, look: Look) -> Action | None:
    if look.traffic is Traffic.ROLLED_BACK:
        return Action(Act.ABORT, None, Cause.ROLLED_BACK_BY_HAND, look.traffic_message)
    if look.traffic is Traffic.MOVED and progress.cause != Cause.TRAFFIC_MOVED:
        return Action(Act.PAUSE, None, Cause.TRAFFIC_MOVED, look.traffic_message)
    if look.traffic is Traffic.REFUSED and progress.cause != Cause.REFUSED_BY_GATEWAY:
        return Action(Act.PAUSE, None, Cause.REFUSED_BY_GATEWAY, look.traffic_message)
    return None


def _acknowledged(progress: Progress, look: Look, now: datetime) -> Progress:
    """The progress once every gateway has the weight that was set last."""
    if progress.weight_since is not None or look.acknowledged != progress.weight:
        return progress
    exposed = progress.exposed_since or (now if progress.weight else None)
    return replace(progress, weight_since=now, exposed_since=exposed)


def _ends_at_once(progress: Progress, look: Look) -> Action | None:
    if not look.ready and progress.weight:
        return Action(Act.ROLL_BACK, 0, Cause.NO_NODE, "No node has the new version ready.")
    if not look.ready and progress.cause != Cause.NOT_READY:
        message = "No node has the new version ready, so it cannot take traffic."
        return Action(Act.PAUSE, None, Cause.NOT_READY, message)
    if look.alarm is not None and progress.weight:
        return Action(Act.ROLL_BACK, 0, look.alarm.cause, look.alarm.message)
    return None


def _end_or_pause(
    progress: Progress, action: Action, now: datetime, judged: Measured = ()
) -> Decision:
    state = {
        Act.PAUSE: RolloutState.PAUSED,
        Act.ROLL_BACK: RolloutState.ROLLED_BACK,
        Act.ABORT: RolloutState.ABORTED,
    }[action.act]
    after = replace(progress, state=state, cause=str(action.cause), message=action.message)
    if action.points is not None:
        after = replace(after, weight=action.points, weight_since=None)
    return Decision(action, after, now + timedelta(seconds=SOON_S), judged)


class _Turn:
    """One move of a rollout that nothing has ended or paused."""

    def __init__(
        self, plan: Plan, progress: Progress, look: Look, now: datetime, judged: Measured = ()
    ) -> None:
        self._plan, self._progress, self._look = plan, progress, look
        self._now, self._judged = now, judged

    def move(self) -> Decision:
        """Go on with the step under way, or begin the next."""
        plan, progress = self._plan, self._progress
        step = step_of(plan, progress)
        if isinstance(step, SetWeight) and self._is_under_way(step):
            return self._until_acknowledged()
        if (held := self._held()) is not None:
            return self._hold(held)
        if step is None:
            after = replace(
                progress, state=RolloutState.PROMOTED, cause=Cause.PROMOTED.value, message=""
            )
            return self._decided(Action(Act.PROMOTE, None, Cause.PROMOTED), after)
        if isinstance(step, SetWeight):
            return self._set_weight(step)
        if isinstance(step, Pause):
            return self._pause(step)
        if progress.inline is not None and progress.inline.phase is Phase.SUCCESSFUL:
            return self._next_step()
        return self.wait()

    def wait(self) -> Decision:
        """Nothing to do; a rollout that was held is no longer."""
        progress = self._progress
        if progress.state is RolloutState.RUNNING and progress.cause in HELD:
            return self._decided(Action(Act.RELEASE), replace(progress, cause="", message=""))
        return self._decided(Action(Act.WAIT), progress)

    def _is_under_way(self, step: SetWeight) -> bool:
        return self._progress.weight == step.points and self._progress.weight_since is None

    def _until_acknowledged(self) -> Decision:
        waited = (self._now - self._progress.moved_at).total_seconds()
        if waited < UNACKNOWLEDGED_S:
            return self.wait()
        words = "Not every gateway has acknowledged the step's weight yet."
        return self._hold(Action(Act.HOLD, None, Cause.NOT_ACKNOWLEDGED, words))

    def _set_weight(self, step: SetWeight) -> Decision:
        if self._progress.weight == step.points:
            return self._next_step()
        after = replace(
            self._progress,
            weight=step.points,
            weight_since=None,
            moved_at=self._now,
            cause="",
            message="",
        )
        return self._decided(Action(Act.SET_WEIGHT, step.points), after)

    def _pause(self, step: Pause) -> Decision:
        if step.seconds is None:
            words = "It waits until somebody lets it go on."
            action = Action(Act.PAUSE, None, Cause.APPROVAL, words)
            return _end_or_pause(self._progress, action, self._now, self._judged)
        if (self._now - self._progress.moved_at).total_seconds() < step.seconds:
            return self.wait()
        if self._progress.weight and (names := unproved(self._plan, self._progress)):
            words = f"Not yet measured successfully at this weight: {', '.join(names)}."
            return self._hold(Action(Act.HOLD, None, Cause.TOO_FEW_REQUESTS, words))
        return self._next_step()

    def _held(self) -> Action | None:
        """Why no step may go on now, though nobody paused it."""
        if self._look.frozen:
            return Action(Act.HOLD, None, Cause.FROZEN, self._look.frozen)
        opening = self._plan.opening(self._now)
        if opening is not None and opening <= self._now:
            return None
        when = f" before {opening:%Y-%m-%d %H:%M} UTC" if opening else ""
        words = f"The plan lets no step begin{when}."
        return Action(Act.HOLD, None, Cause.OUTSIDE_WINDOW, words)

    def _hold(self, held: Action) -> Decision:
        progress = self._progress
        if (progress.cause, progress.message) == (held.cause, held.message):
            return self._decided(Action(Act.WAIT), progress)
        return self._decided(held, replace(progress, cause=str(held.cause), message=held.message))

    def _next_step(self) -> Decision:
        after = replace(
            self._progress,
            step=self._progress.step + 1,
            moved_at=self._now,
            cause="",
            message="",
            inline=None,
        )
        return self._decided(Action(Act.NEXT_STEP), after)

    def _decided(self, action: Action, after: Progress) -> Decision:
        at = next_look(self._plan, after, self._now)
        return Decision(action, after, at, self._judged)


def next_look(plan: Plan, progress: Progress, now: datetime) -> datetime:
    """When something can have changed: each second while the fast check has something to see."""
    soon, later = now + timedelta(seconds=SOON_S), now + timedelta(seconds=LATER_S)
    running = progress.state is RolloutState.RUNNING
    waiting = progress.weight_since is None or progress.moved_at == now
    if (progress.weight and plan.fast is not None) or (running and waiting):
        return soon
    times = [
        state.next_at
        for _, _, run in runs_of(plan, progress)
        if run is not None and run.phase is Phase.RUNNING
        for state in run.metrics.values()
        if state.next_at is not None
    ]
    step = step_of(plan, progress)
    if isinstance(step, Pause) and step.seconds is not None:
        times.append(progress.moved_at + timedelta(seconds=step.seconds))
    return max(min([later, *times]), soon)
