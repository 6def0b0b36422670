"""Each kind of channel against a receiver that judges as its vendor documents, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import pytest

from console.errors import CovenantError, Unavailable
from deployments.adapters.alert_channels import dingtalk, slack, sms
from deployments.adapters.alert_channels.pagerduty import body as pagerduty_event
from deployments.adapters.alert_channels.places import Place
from deployments.adapters.alert_channels.sending import SENDERS
from deployments.models import ChannelKind
from deployments.rules.alerts.letters import Letter, plain
from tests.deployments import vendors

LOOPBACK = (ip_network("127.0.0.0/8"),)
KEY = "0123456789abcdef0123456789abcdef"
SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="


def letter(why: str = "firing", **more: Any) -> Letter:
    fields: dict[str, Any] = {
        "id": "0c0ffee0-0000-4000-8000-000000000001",
        "thread": "alert:1:c1",
        "why": why,
        "severity": "P1",
        "headline": "P1 production/churn: <!channel> 中文 & more",
        "text": "Acknowledge it.",
        "subject": "production/churn",
        "url": "https://covenant.example.com/alerts/1/",
        "link_words": "Open it",
        "at": datetime(2026, 3, 1, 3, 0, tzinfo=UTC),
        "facts": (("Value", "97.2 %"), ("Since", "2026-03-01 02:58:00 UTC")),
        "others": ("P2 production/churn: too slow",),
        "data": {"environment": "production", "model": "churn", "rule": "success-rate", "to": ""},
    }
    return Letter(**{**fields, **more})


@pytest.fixture
def vendor(request: pytest.FixtureRequest) -> Iterator[vendors.Vendor]:
    with vendors.serving(request.param) as running:
        yield running


def send(kind: str, place: Place, what: Letter) -> str:
    return SENDERS[kind](place, what, now=datetime.now(tz=UTC))


def test_every_kind_but_mail_has_a_sender() -> None:
    assert set(SENDERS) | {"email"} == set(ChannelKind.values)


@pytest.mark.parametrize("vendor", [vendors.slack()], indirect=True)
def test_slack_gets_what_it_shows_and_no_name_calls_the_room(vendor: vendors.Vendor) -> None:
    place = Place(f"{vendor.address}/services/T0/B0/x", allowed=LOOPBACK)
    assert send("slack", place, letter()) == "200 ok"
    [message] = vendor.got
    assert message["text"] == "P1 production/churn: &lt;!channel&gt; 中文 &amp; more"
    [attachment] = message["attachments"]
    assert attachment["title_link"] == "https://covenant.example.com/alerts/1/"
    assert attachment["fields"][0] == {"title": "Value", "value": "97.2 %", "short": True}
    assert slack.body(letter("resolved"))["attachments"][0]["color"] == slack.OVER


@pytest.mark.parametrize("vendor", [vendors.feishu("geheim")], indirect=True)
def test_feishu_takes_a_signed_card_and_says_no_to_another_secret(
    vendor: vendors.Vendor,
) -> None:
    place = Place(f"{vendor.address}/open-apis/bot/v2/hook/x", "geheim", allowed=LOOPBACK)
    send("feishu", place, letter())
    assert vendor.got[0]["card"]["header"]["template"] == "red"
    wrong = Place(place.address, "another", allowed=LOOPBACK)
    with pytest.raises(Unavailable, match="sign match fail") as refusal:
        send("feishu", wrong, letter())
    assert (refusal.value.retryable, "secret" in refusal.value.hint) == (False, True)
    vendor.scripted.append((200, json.dumps({"code": 11232, "msg": "frequency limited"})))
    with pytest.raises(Unavailable) as busy:
        send("feishu", place, letter())
    assert busy.value.retryable


@pytest.mark.parametrize("vendor", [vendors.dingtalk("SECgeheim")], indirect=True)
def test_dingtalk_takes_a_signed_address_and_says_no_to_another_secret(
    vendor: vendors.Vendor,
) -> None:
    address = f"{vendor.address}/robot/send?access_token=x"
    send("dingtalk", Place(address, "SECgeheim", allowed=LOOPBACK), letter())
    assert vendor.got[0]["markdown"]["text"].startswith("### P1 production/churn: \\<\\!channel")
    with pytest.raises(Unavailable, match="sign not match") as refusal:
        send("dingtalk", Place(address, "", allowed=LOOPBACK), letter())
    assert not refusal.value.retryable
    vendor.scripted.append((200, json.dumps({"errcode": 410100, "errmsg": "too fast"})))
    with pytest.raises(Unavailable) as busy:
        send("dingtalk", Place(address, "SECgeheim", allowed=LOOPBACK), letter())
    assert busy.value.retryable
    assert "Covenant" in dingtalk.body(letter())["markdown"]["text"], "the keyword of a robot"


@pytest.mark.parametrize("vendor", [vendors.pagerduty(KEY)], indirect=True)
def test_pagerduty_is_triggered_and_resolved_by_one_key(vendor: vendors.Vendor) -> None:
    place = Place(f"{vendor.address}/v2/enqueue", KEY, allowed=LOOPBACK)
    send("pagerduty", place, letter(headline="x" * 2000, thread="t" * 300))
    send("pagerduty", place, letter("reminder", thread="t" * 300))
    send("pagerduty", place, letter("resolved", thread="t" * 300))
    actions = [(one["event_action"], one["dedup_key"]) for one in vendor.got]
    assert actions == [("trigger", "t" * 255)] * 2 + [("resolve", "t" * 255)]
    assert vendor.got[0]["payload"]["timestamp"] == "2026-03-01T03:00:00+00:00"
    with pytest.raises(Unavailable, match="routing_key") as refusal:
        send("pagerduty", Place(place.address, "f" * 32, allowed=LOOPBACK), letter())
    assert not refusal.value.retryable
    assert pagerduty_event(letter(severity="P3"), routing_key=KEY)["payload"]["severity"] == (
        "warning"
    )


@pytest.mark.parametrize("vendor", [vendors.gateway_of_texts("k")], indirect=True)
@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("application/json", '{"to": "{to}", "text": "{text}"}'),
        ("application/x-www-form-urlencoded", "to={to}&text={text}"),
    ],
)
def test_a_text_is_filled_into_the_form_of_the_gateway(
    vendor: vendors.Vendor, kind: str, form: str
) -> None:
    options = {"form": form, "content_type": kind, "header": "X-Api-Key"}
    nasty = letter(headline='P1 "quoted" \\ & =+ {to} 中文 ' + "y" * 400, data={"to": "+15550100"})
    vendor.got.clear()
    send("sms", Place(vendor.address, "k", options, LOOPBACK), nasty)
    [message] = vendor.got
    assert message["to"] == "+15550100"
    assert message["text"] == sms.text(nasty)
    assert message["text"].startswith('P1 "quoted" \\ & =+ {to} 中文')
    assert len(message["text"]) <= sms.MOST_TEXT
    assert message["text"].endswith("https://covenant.example.com/alerts/1/")


@pytest.mark.parametrize("vendor", [vendors.webhook(SECRET)], indirect=True)
def test_a_webhook_is_signed_and_says_by_its_id_that_it_came_again(
    vendor: vendors.Vendor,
) -> None:
    place = Place(vendor.address, SECRET, allowed=LOOPBACK)
    send("webhook", place, letter())
    send("webhook", place, letter())
    assert vendor.got[0]["type"] == "alert.firing"
    assert vendor.got[0]["data"]["rule"] == "success-rate"
    assert len({headers["webhook-id"] for _, headers, _ in vendor.seen}) == 1
    with pytest.raises(Unavailable, match="answered 401"):
        send("webhook", Place(vendor.address, SECRET[:-4] + "AAA=", allowed=LOOPBACK), letter())


@pytest.mark.parametrize("vendor", [vendors.slack()], indirect=True)
@pytest.mark.parametrize(
    ("answer", "again"),
    [
        ((429, "slow down"), True),
        ((503, "away"), True),
        ((404, "no_service"), False),
        ((302, ""), False),
        ((403, "action_prohibited"), False),
    ],
)
def test_what_will_not_change_is_not_tried_again(
    vendor: vendors.Vendor, answer: tuple[int, str], again: bool
) -> None:
    vendor.scripted.append(answer)
    with pytest.raises(Unavailable) as refusal:
        send("slack", Place(vendor.address, allowed=LOOPBACK), letter())
    assert refusal.value.retryable is again
    assert str(answer[0]) in refusal.value.message


@pytest.mark.parametrize("kind", sorted(SENDERS))
def test_no_kind_reaches_inside_unless_it_is_allowed(kind: str) -> None:
    for address in ("http://127.0.0.1:9/x", "https://169.254.169.254/latest", "http://[::1]:9/"):
        place = Place(address, SECRET if kind == "webhook" else KEY, {"form": "{to}{text}"})
        with pytest.raises(CovenantError) as refusal:
            send(kind, place, letter(data={"to": "+15550100"}))
        assert refusal.value.code == "address_not_allowed"


def test_a_mail_is_plain_words_with_the_address_last() -> None:
    text = plain(letter())
    assert text.splitlines()[0] == "Acknowledge it."
    assert "Value: 97.2 %" in text
    assert text.endswith("Open it: https://covenant.example.com/alerts/1/\n")
