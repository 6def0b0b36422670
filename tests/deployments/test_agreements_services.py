from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from console.actors import Actor
from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound
from console.models import AuditEntry, Notice
from deployments.models import AgreementState, Endpoint, Exclusion, Incident, MaintenanceWindow
from deployments.rules.objectives.spans import Span
from deployments.selectors.objectives.exclusions import excluded_spans, under_maintenance
from deployments.services.objectives.exclusions import (
    agree_to_exclusion,
    propose_exclusion,
    withdraw_exclusion,
)
from deployments.services.objectives.maintenance import (
    agree_to_maintenance,
    propose_maintenance,
    withdraw_maintenance,
)
from models_registry.models import Seat, SeatHolder
from tests import factories

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 20, 12, 0, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
START = datetime(2026, 3, 21, 2, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock() -> Any:
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


@pytest.fixture
def endpoint() -> Endpoint:
    model = factories.make_model()
    factories.make_contract(model)
    return Endpoint.objects.create(model=model, environment=factories.make_environment())


def who(name: str) -> Actor:
    return factories.actor(getattr(factories.people(), name))


def propose(start: datetime = START, hours: float = 2, by: str = "sam") -> MaintenanceWindow:
    return propose_maintenance(
        environment="production",
        model="fraud_detector",
        starts_at=start,
        ends_at=start + hours * HOUR,
        reason="New disks.",
        actor=who(by),
    )


def exclude(start: datetime, end: datetime, *, by: str = "sam", **more: Any) -> Exclusion:
    return propose_exclusion(
        environment="production",
        model="fraud_detector",
        starts_at=start,
        ends_at=end,
        reason="The provider's network was down.",
        evidence="Report 4711 of the provider",
        actor=who(by),
        **more,
    )


def refusal(act: Any) -> str:
    with pytest.raises(CovenantError) as caught:
        act()
    return caught.value.code


def asked(kind: str = "agreement.asked") -> set[str]:
    open_ones = Notice.objects.filter(kind=kind, ended_at__isnull=True)
    return set(open_ones.values_list("recipient__username", flat=True))


def test_it_is_in_force_when_all_three_seats_agreed(endpoint: Endpoint) -> None:
    window = propose()
    assert (window.state, window.agreements.get().seat) == (AgreementState.PROPOSED, Seat.SRE)
    assert asked() == {"dana", "bea"}
    assert excluded_spans([endpoint.pk], NOW, START + 9 * HOUR) == {}
    agree_to_maintenance(window_id=window.pk, actor=who("dana"))
    assert agree_to_maintenance(window_id=window.pk, actor=who("dana")).agreed_at is None
    assert asked() == {"bea"}
    window = agree_to_maintenance(window_id=window.pk, actor=who("bea"))
    assert (window.state, window.agreed_at, asked()) == (AgreementState.AGREED, NOW, set())
    assert excluded_spans([endpoint.pk], NOW, START + 9 * HOUR) == {
        endpoint.pk: [Span(START, START + 2 * HOUR)]
    }
    assert under_maintenance([endpoint.pk], START + HOUR) == {endpoint.pk}
    entries = AuditEntry.objects.filter(action__startswith="maintenance.").order_by("sequence")
    assert [(one.actor_username, one.action, one.subject) for one in entries] == [
        ("sam", "maintenance.propose", "production/fraud_detector"),
        ("sam", "maintenance.agree", "production/fraud_detector"),
        ("dana", "maintenance.agree", "production/fraud_detector"),
        ("bea", "maintenance.agree", "production/fraud_detector"),
    ]


def test_who_sits_in_no_seat_may_propose_and_agrees_to_nothing(endpoint: Endpoint) -> None:
    window = propose(by="ada")
    assert not window.agreements.exists()
    assert asked() == {"sam", "dana", "bea"}
    for name, code in (("ada", "no_seat"), ("vic", "not_allowed")):
        with pytest.raises(NotAllowed) as caught:
            agree_to_maintenance(window_id=window.pk, actor=who(name))
        assert caught.value.code == code
    with pytest.raises(NotAllowed):
        propose(by="vic")


def test_a_seat_that_changed_hands_agrees_once(endpoint: Endpoint) -> None:
    window = propose()
    other = factories.make_user("sid", "sre")
    SeatHolder.objects.filter(model=endpoint.model, seat=Seat.SRE).update(user=other)
    assert (
        refusal(lambda: agree_to_maintenance(window_id=window.pk, actor=factories.actor(other)))
        == "seat_agreed"
    )


def test_nobody_agrees_once_its_time_has_begun(endpoint: Endpoint, clock: Any) -> None:
    window = propose()
    agree_to_maintenance(window_id=window.pk, actor=who("dana"))
    clock.move_to(START)
    assert (
        refusal(lambda: agree_to_maintenance(window_id=window.pk, actor=who("bea")))
        == "maintenance_begun"
    )
    assert under_maintenance([endpoint.pk], START + HOUR) == set()
    # What never came into force stands in nobody's way afterwards.
    clock.move_to(START + 3 * HOUR)
    assert exclude(START, START + HOUR).state == AgreementState.PROPOSED


@pytest.mark.parametrize(
    ("start", "hours", "code"),
    [
        (NOW.replace(second=0), 1, "maintenance_begun"),
        (NOW, 1, "not_a_whole_minute"),
        (START, 0, "span_is_empty"),
        (START, -1, "span_is_empty"),
        (START, 12.5, "span_too_long"),
        (START + timedelta(days=92), 1, "too_far_ahead"),
    ],
)
def test_what_may_not_be_proposed(
    endpoint: Endpoint, start: datetime, hours: float, code: str
) -> None:
    with pytest.raises(Invalid) as caught:
        propose(start, hours)
    assert (caught.value.code, len(caught.value.errors)) == (code, 1)
    assert not MaintenanceWindow.objects.exists()


def test_windows_do_not_overlap_and_a_month_has_twelve_hours(endpoint: Endpoint) -> None:
    propose(START, 6)
    assert refusal(lambda: propose(START + 5 * HOUR, 2)) == "maintenance_overlaps"
    second = propose(START + 6 * HOUR, 5)
    assert refusal(lambda: propose(START + 48 * HOUR, 2)) == "maintenance_limit"
    propose(START + 48 * HOUR, 1)
    # From the last hour of March into April: only the hour of March is too much.
    last = datetime(2026, 3, 31, 23, 0, tzinfo=UTC)
    assert refusal(lambda: propose(last, 3)) == "maintenance_limit"
    withdraw_maintenance(window_id=second.pk, reason="Not needed.", actor=who("sam"))
    assert propose(last, 3).state == AgreementState.PROPOSED


def test_words_are_asked_for(endpoint: Endpoint) -> None:
    window = propose()
    with pytest.raises(Invalid, match="words"):
        withdraw_maintenance(window_id=window.pk, reason="  ", actor=who("sam"))


def test_withdrawn_while_it_runs_it_ends_now_and_the_rest_counts(
    endpoint: Endpoint, clock: Any
) -> None:
    window = propose()
    for name in ("dana", "bea"):
        agree_to_maintenance(window_id=window.pk, actor=who(name))
    clock.move_to(START + HOUR + timedelta(seconds=20))
    window = withdraw_maintenance(window_id=window.pk, reason="Done early.", actor=who("bea"))
    end = START + HOUR + timedelta(minutes=1)
    assert (window.state, window.ends_at) == (AgreementState.AGREED, end)
    assert excluded_spans([endpoint.pk], NOW, START + 9 * HOUR) == {endpoint.pk: [Span(START, end)]}
    assert asked("agreement.withdrawn") == {"sam", "dana"}
    clock.move_to(START + 2 * HOUR)
    assert (
        refusal(lambda: withdraw_maintenance(window_id=window.pk, reason="x", actor=who("sam")))
        == "maintenance_over"
    )


def test_withdrawn_before_it_begins_nothing_is_set_aside(endpoint: Endpoint) -> None:
    window = propose()
    for name in ("dana", "bea"):
        agree_to_maintenance(window_id=window.pk, actor=who(name))
    with pytest.raises(NotAllowed) as caught:
        withdraw_maintenance(window_id=window.pk, reason="x", actor=who("ada"))
    assert caught.value.code == "no_seat"
    withdraw_maintenance(window_id=window.pk, reason="Postponed.", actor=who("dana"))
    assert excluded_spans([endpoint.pk], NOW, START + 9 * HOUR) == {}
    assert agree_to_maintenance(window_id=window.pk, actor=who("sam")).state == "withdrawn"
    assert (
        refusal(lambda: withdraw_maintenance(window_id=window.pk, reason="x", actor=who("sam")))
        == "agreement_withdrawn"
    )


def test_time_that_is_over_is_excluded_by_three_words_and_counts_again_when_withdrawn(
    endpoint: Endpoint,
) -> None:
    start = NOW.replace(second=0) - 5 * HOUR
    incident = Incident.objects.create(
        endpoint=endpoint, cause="by_hand", title="Network down", started_at=start
    )
    made = exclude(start, start + HOUR, incident=incident.pk)
    assert asked() == {"dana", "bea"}
    for name in ("dana", "bea"):
        made = agree_to_exclusion(exclusion_id=made.pk, actor=who(name))
    assert (made.state, made.incident) == (AgreementState.AGREED, incident)
    assert excluded_spans([endpoint.pk], start - HOUR, NOW) == {
        endpoint.pk: [Span(start, start + HOUR)]
    }
    withdraw_exclusion(exclusion_id=made.pk, reason="It was us.", actor=who("bea"))
    assert excluded_spans([endpoint.pk], start - HOUR, NOW) == {}
    assert asked("agreement.withdrawn") == {"sam", "dana"}
    actions = AuditEntry.objects.filter(action__startswith="exclusion.").order_by("sequence")
    assert [one.action.partition(".")[2] for one in actions] == [
        "propose",
        "agree",
        "agree",
        "agree",
        "withdraw",
    ]
    assert actions[4].reason == "It was us."


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [
        (-timedelta(hours=1), timedelta(), "not_a_whole_minute"),
        (-timedelta(days=93), -timedelta(days=92, hours=23), "too_long_ago"),
        (-timedelta(days=9), -timedelta(days=1), "span_too_long"),
        (-timedelta(hours=1), timedelta(hours=1), "exclusion_not_over"),
    ],
)
def test_what_may_not_be_excluded(
    endpoint: Endpoint, start: timedelta, end: timedelta, code: str
) -> None:
    whole = NOW if code == "not_a_whole_minute" else NOW.replace(second=0)
    assert refusal(lambda: exclude(whole + start, whole + end)) == code


def test_nothing_is_left_out_twice_and_the_incident_is_the_endpoints(endpoint: Endpoint) -> None:
    start = NOW.replace(second=0) - 5 * HOUR
    exclude(start, start + HOUR)
    assert refusal(lambda: exclude(start + HOUR / 2, start + 2 * HOUR)) == "exclusion_overlaps"
    elsewhere = Endpoint.objects.create(
        model=factories.make_model("other_model"), environment=endpoint.environment
    )
    foreign = Incident.objects.create(
        endpoint=elsewhere, cause="by_hand", title="Other", started_at=start
    )
    assert (
        refusal(lambda: exclude(start + HOUR, start + 2 * HOUR, incident=foreign.pk))
        == "unknown_incident"
    )
    with pytest.raises(NotFound):
        agree_to_exclusion(exclusion_id=foreign.pk, actor=who("sam"))
    with pytest.raises(Conflict):
        exclude(start, start + HOUR)
