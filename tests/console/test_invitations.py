"""Invitations: a link that makes one account, mailed by a real server."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from email import message_from_bytes
from email.message import Message
from email.policy import default
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from django.core.cache import cache
from django.db import connections
from django.test import Client, override_settings
from django.utils import timezone
from rest_framework.test import APIClient

from console.env_values import ConfigError, EmailServer, read_email
from console.errors import CovenantError
from console.models import AuditEntry, Invitation, User
from console.rules.invitations import username_from
from console.services.invitations import accept_invitation, invite, revoke_invitation
from console.services.teams import create_team
from tests import stack
from tests.factories import PASSWORD, People, actor, people

pytestmark = pytest.mark.django_db


class Postbox:
    """What a real SMTP server took in."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.messages.append(message_from_bytes(envelope.content, policy=default))
        return "250 taken"


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    cache.clear()


@pytest.fixture
def postbox() -> Iterator[tuple[Postbox, EmailServer]]:
    box = Postbox()
    server = Controller(box, hostname="127.0.0.1", port=stack.free_port())
    server.start()
    url = f"smtp://{server.hostname}:{server.port}"
    sender = "Covenant <covenant@example.com>"
    yield box, read_email({"COVENANT_EMAIL_URL": url, "COVENANT_EMAIL_FROM": sender})  # type: ignore[misc]
    server.stop()


def secret_of(link: str) -> str:
    return link.rstrip("/").rsplit("/", 1)[1]


def test_an_invited_person_makes_their_account_by_the_link_from_the_mail(
    persons: People, postbox: tuple[Postbox, EmailServer], signed_in: Callable[[User], Client]
) -> None:
    box, server = postbox
    create_team(name="Risk", actor=actor(persons.ada))
    form = {
        "email": "kim.lee@example.com",
        "display_name": "Kim Lee",
        "roles": ["viewer"],
        "team": "risk",
        "team_roles": ["sre"],
        "days": 3,
    }
    with override_settings(MAIL_SERVER=server):
        made = signed_in(persons.ada).post("/settings/invitations/", form)
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    [mail] = box.messages
    assert (mail["To"], mail["From"]) == ("kim.lee@example.com", "Covenant <covenant@example.com>")
    link = re.search(r"http\S+/invitation/\S+", mail.get_content())  # type: ignore[attr-defined]
    assert link is not None
    secret = secret_of(link.group())
    assert secret not in str(list(AuditEntry.objects.values()) + list(Invitation.objects.values()))

    guest = Client(headers={"Accept-Language": "zh-hans"})
    entered = guest.get(f"/invitation/{secret}/")
    assert (entered.status_code, entered["Location"]) == (302, "/invitation/")
    page = guest.get("/invitation/").content.decode()
    assert "kim-lee" in page
    assert secret not in page
    weak = guest.post("/invitation/", {"password": "12345678", "again": "12345678"})
    other = guest.post("/invitation/", {"password": PASSWORD, "again": "else"})
    assert weak.status_code == other.status_code == 422
    done = guest.post("/invitation/", {"password": PASSWORD, "again": PASSWORD})
    assert done.status_code == 302
    assert guest.get("/settings/").status_code == 200
    kim = User.objects.get(username="kim-lee")
    assert (kim.roles, kim.language) == (["viewer"], "zh-hans")
    assert kim.memberships.get().roles == ["sre"]
    assert kim.check_password(PASSWORD)
    entry = AuditEntry.objects.get(action="invitation.accept")
    assert (entry.actor_username, entry.after["invited_by"]) == ("kim-lee", "ada")
    assert Client().get(f"/invitation/{secret}/").status_code == 404


@pytest.mark.parametrize("how", ["used", "expired", "revoked", "made up"])
def test_every_link_that_opens_nothing_says_the_same(persons: People, how: str) -> None:
    invited = invite(email="kim@example.com", actor=actor(persons.ada))
    secret = secret_of(invited.link)
    if how == "used":
        accept_invitation(secret=secret, password=PASSWORD, address="x", source="test")
    elif how == "expired":
        Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif how == "revoked":
        revoke_invitation(invitation_id=str(invited.invitation.pk), actor=actor(persons.ada))
    else:
        secret = "x" * 43
    answer = Client().get(f"/invitation/{secret}/")
    assert answer.status_code == 404
    assert "was used, revoked or is too old" in answer.content.decode()
    with pytest.raises(CovenantError) as refused:
        accept_invitation(secret=secret, password=PASSWORD, address="y", source="test")
    assert refused.value.code == "invitation_not_valid"
    assert User.objects.filter(username="kim").count() == (1 if how == "used" else 0)


def test_of_two_who_accept_at_once_one_makes_the_account(transactional_db: None) -> None:
    secret = secret_of(invite(email="kim@example.com", actor=actor(people().ada)).link)
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def accept() -> None:
        start.wait()
        try:
            accept_invitation(secret=secret, password=PASSWORD, address="x", source="test")
            outcomes.append("made")
        except CovenantError as error:
            outcomes.append(error.code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=accept) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["invitation_not_valid", "made"]
    assert User.objects.filter(username="kim").count() == 1


def test_of_two_clicks_at_once_one_makes_a_link(transactional_db: None) -> None:
    ada = people().ada
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def click() -> None:
        start.wait()
        try:
            invite(email="kim@example.com", actor=actor(ada))
            outcomes.append("made")
        except CovenantError as error:
            outcomes.append(error.code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=click) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["invited_already", "made"]
    assert Invitation.objects.count() == 1


def test_trying_links_is_throttled(persons: People) -> None:
    guest = Client()
    for _ in range(30):
        assert guest.get("/invitation/made-up/").status_code == 404
    stopped = guest.get("/invitation/made-up/")
    assert (stopped.status_code, stopped["Retry-After"]) == (429, "900")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"email": "dana@example.com"}, "name_taken"),
        ({"email": "no address"}, "invalid_input"),
        ({"email": "x@example.com", "roles": ["king"]}, "unknown_role"),
        ({"email": "x@example.com", "teams": [{"team": "none", "roles": []}]}, "unknown_team"),
        ({"email": "x@example.com", "days": 31}, "invalid_input"),
        ({"email": "first@example.com"}, "invited_already"),
    ],
)
def test_who_is_not_invited(persons: People, fields: dict[str, Any], code: str) -> None:
    invite(email="first@example.com", actor=actor(persons.ada))
    with pytest.raises(CovenantError) as refused:
        invite(**fields, actor=actor(persons.ada))
    assert refused.value.code == code


def test_a_mail_that_is_not_taken_leaves_the_link(
    persons: People, api: Callable[[User], APIClient]
) -> None:
    away = EmailServer("127.0.0.1", stack.free_port(), "", "", False, False, "x@example.com")
    with override_settings(MAIL_SERVER=away):
        made = api(persons.ada).post(
            "/api/v1/invitations/", {"email": "kim@example.com"}, format="json"
        )
    body = made.json()
    assert (made.status_code, body["mailed"], body["state"]) == (201, False, "open")
    assert "did not take the message" in body["mail_fault"]
    assert Client().get(f"/invitation/{secret_of(body['link'])}/").status_code == 302
    assert "link" not in api(persons.ada).get("/api/v1/invitations/").json()["results"][0]
    assert api(persons.sam).get("/api/v1/invitations/").status_code == 403
    revoke = f"/api/v1/invitations/{body['id']}/revoke/"
    assert api(persons.ada).post(revoke, {}, format="json").json()["state"] == "revoked"


@pytest.mark.parametrize(
    ("url", "sender"),
    [
        ("http://mail.example.com", "a@example.com"),
        ("smtp://", "a@example.com"),
        ("smtp://mail.example.com:x", "a@example.com"),
        ("smtp://mail.example.com", ""),
        ("smtp://mail.example.com", "a@example.com\r\nBcc: b@example.com"),
    ],
)
def test_a_mail_server_that_is_not_accepted(url: str, sender: str) -> None:
    with pytest.raises(ConfigError, match="COVENANT_EMAIL"):
        read_email({"COVENANT_EMAIL_URL": url, "COVENANT_EMAIL_FROM": sender})


def test_how_mail_servers_are_read() -> None:
    sender = {"COVENANT_EMAIL_FROM": "a@example.com"}
    far = read_email({"COVENANT_EMAIL_URL": "smtp://me:p%40ss@mail.example.com", **sender})
    assert far is not None
    assert (far.port, far.start_tls, far.tls, far.password) == (587, True, False, "p@ss")
    assert "p@ss" not in repr(far)
    tls = read_email({"COVENANT_EMAIL_URL": "smtps://mail.example.com", **sender})
    assert tls is not None
    assert (tls.port, tls.tls, tls.start_tls) == (465, True, False)
    assert read_email({}) is None
    assert username_from("Zoë.Müller+x@example.com") == "zoe-muller-x"
