"""Which route takes an alert, and what a channel may be made of."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from console.errors import Invalid
from deployments.rules.alerts.channel_options import addresses, checked, shown
from deployments.rules.alerts.route_terms import (
    LayerTerms,
    RouteTerms,
    ScheduleTerms,
    StepTerms,
    check_route,
    check_schedule,
    check_steps,
)
from deployments.rules.alerts.routing import INCIDENT, Match, Occasion, routes_of, takes

CHURN = Occasion("P1", "production", "churn", "risk", "success-rate", "")


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (Match(1), True),
        (Match(1, severities=frozenset({"P1", "P2"})), True),
        (Match(1, severities=frozenset({"P3"})), False),
        (Match(1, environment="production", model="churn", team="risk"), True),
        (Match(1, environment="staging"), False),
        (Match(1, model="fraud"), False),
        (Match(1, team="pricing"), False),
        (Match(1, rule_name="success-*"), True),
        (Match(1, rule_name="gpu-*"), False),
        (Match(1, label="*"), True),
        (Match(1, label="age"), False),
    ],
)
def test_what_is_empty_takes_everything(match: Match, expected: bool) -> None:
    assert takes(match, CHURN) is expected


def test_the_first_that_matches_decides_unless_it_goes_on() -> None:
    routes = [
        Match(1, environment="staging"),
        Match(2, severities=frozenset({"P1"}), goes_on=True),
        Match(3, team="risk"),
        Match(4),
    ]
    assert routes_of(routes, CHURN) == [2, 3]
    assert routes_of(routes, Occasion("P2", "staging", "churn")) == [1]
    assert routes_of(routes, Occasion("P3")) == [4]
    assert routes_of(routes[:1], CHURN) == []


def test_incidents_can_be_taken_alone() -> None:
    assert takes(Match(1, rule_name=INCIDENT), Occasion("P1", rule_name=INCIDENT))
    assert not takes(Match(1, rule_name=INCIDENT), CHURN)


KEY = "a1" * 16


@pytest.mark.parametrize(
    ("kind", "address", "secret", "options", "pointer"),
    [
        ("email", "", "", {}, "/address"),
        ("email", "ann@example.com, ben", "", {}, "/address"),
        ("email", "a@b.example\r\nBcc: x@y.example <z>", "", {}, "/address"),
        ("slack", "ftp://hooks.example.com/x", "", {}, "/address"),
        ("slack", "https://user:word@hooks.example.com/x", "", {}, "/address"),
        ("slack", "https://hooks.example.com/x", "", {"to": "1"}, "/options/to"),
        ("feishu", "https://open.example.com/x", "ge\nheim", {}, "/secret"),
        ("pagerduty", "", "short", {}, "/secret"),
        ("sms", "https://sms.example.com", "", {}, "/options/to"),
        ("sms", "https://sms.example.com", "", {"to": ["12"]}, "/options/to"),
        ("sms", "https://sms.example.com", "", {"to": ["+15550100"], "form": "hi"},
         "/options/form"),
        ("sms", "https://sms.example.com", "", {"to": ["+15550100"], "form": "{to} {text}"},
         "/options/form"),
        ("sms", "https://sms.example.com", "", {"to": ["+15550100"], "header": "X: y"},
         "/options/header"),
        ("sms", "https://sms.example.com", "", {"to": ["+15550100"], "header": "Content-Length"},
         "/options/header"),
        ("sms", "https://sms.example.com", "", {"to": ["+15550100"], "content_type": "text/xml"},
         "/options/content_type"),
    ],
)  # fmt: skip
def test_what_no_channel_can_be_made_of(
    kind: str, address: str, secret: str, options: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        checked(kind, address, secret, options)
    assert [error.pointer for error in refusal.value.errors] == [pointer]


def test_what_is_shown_lets_nobody_send() -> None:
    assert shown("slack", "https://hooks.slack.com/services/T0/B0/abcdefWXYZ") == (
        "https://hooks.slack.com/…WXYZ"
    )
    assert "token" not in shown(
        "dingtalk", "https://oapi.dingtalk.com/robot/send?access_token=12345"
    )
    assert shown("webhook", "https://hooks.example.com/in?key=1") == "https://hooks.example.com/in"
    assert checked("pagerduty", "", KEY, {}).shown == "https://events.pagerduty.com/v2/enqueue"


def test_a_form_and_numbers_are_put_in_order() -> None:
    terms = checked("sms", "https://sms.example.com/send", "Bearer x", {"to": "+1 555-0100, 4930"})
    assert terms.options["to"] == ["+15550100", "4930"]
    assert terms.options["header"] == "Authorization"
    assert addresses("ann@example.com; ben@example.com, ann@example.com") == [
        "ann@example.com",
        "ben@example.com",
    ]


DAY = date(2026, 1, 5)
LAYER = LayerTerms(("ann",), DAY)


@pytest.mark.parametrize(
    ("terms", "pointer"),
    [
        (ScheduleTerms(time_zone="Mars/Base", layers=(LAYER,)), "/time_zone"),
        (ScheduleTerms(covers="all", layers=(LAYER,)), "/covers"),
        (ScheduleTerms(covers="team", layers=(LAYER,)), "/team"),
        (ScheduleTerms(), "/layers"),
        (ScheduleTerms(layers=(LayerTerms((), DAY),)), "/layers/0/people"),
        (ScheduleTerms(layers=(LayerTerms(("ann",), DAY, days_each=0),)), "/layers/0/days_each"),
        (ScheduleTerms(layers=(LayerTerms(("ann",), date.max),)), "/layers/0/starts_on"),
        (ScheduleTerms(layers=(LayerTerms(("ann",), date.min),)), "/layers/0/starts_on"),
        (ScheduleTerms(layers=(LayerTerms(("ann",), DAY, weekdays=(7,)),)), "/layers/0/weekdays"),
    ],
)
def test_a_schedule_that_nobody_could_keep_is_refused(terms: ScheduleTerms, pointer: str) -> None:
    with pytest.raises(Invalid) as refusal:
        check_schedule(terms)
    assert refusal.value.errors[0].pointer == pointer


@pytest.mark.parametrize(
    ("steps", "pointer"),
    [
        ([], "/steps"),
        ([StepTerms(0, "on_call")], "/steps/0/after_minutes"),
        ([StepTerms(5, "boss")], "/steps/0/target"),
        ([StepTerms(5, "person")], "/steps/0/name"),
        ([StepTerms(5, "on_call", "ann")], "/steps/0/name"),
    ],
)
def test_an_escalation_that_says_nothing_is_refused(steps: list[StepTerms], pointer: str) -> None:
    with pytest.raises(Invalid) as refusal:
        check_steps(steps, 0)
    assert refusal.value.errors[0].pointer == pointer


def test_a_route_that_tells_nobody_is_refused() -> None:
    for terms in (RouteTerms(people="nobody"), RouteTerms(people="inbox", policy="default")):
        with pytest.raises(Invalid):
            check_route(terms)
    check_route(RouteTerms(people="nobody", channels=("ops",)))
