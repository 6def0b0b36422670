"""Proving again who one is: by password, by a code, or by having just signed in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.core.cache import cache
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from console.errors import Invalid, TooMany
from console.models import AuditEntry, User
from console.rules.fresh_sign_ins import is_fresh
from console.services.reauthentication import confirm, ways_to_confirm
from tests.factories import PASSWORD, actor, make_user

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    cache.clear()


def with_app(user: User) -> TOTPDevice:
    return TOTPDevice.objects.create(user=user, name="phone", confirmed=True)


def test_a_password_or_a_code_proves_it_and_nothing_does_not() -> None:
    dana = make_user("dana", password=PASSWORD)
    confirm(actor=actor(dana), password=PASSWORD)
    with pytest.raises(Invalid) as refused:
        confirm(actor=actor(dana))
    assert refused.value.code == "confirmation_needed"
    with pytest.raises(Invalid) as refused:
        confirm(actor=actor(dana), password="wrong")
    assert refused.value.code == "wrong_password"
    entry = AuditEntry.objects.get(action="sign_in.failed")
    assert (entry.actor_username, entry.subject) == ("dana", "user dana")
    assert entry.after == {"by": "password", "why": "wrong_password", "again": True}


def test_a_code_is_taken_once_and_guessing_is_stopped() -> None:
    dana = make_user("dana")
    device = with_app(dana)
    with time_machine.travel(NOW, tick=False):
        code = f"{totp(device.bin_key):06d}"
        confirm(actor=actor(dana), code=code)
        with pytest.raises(Invalid) as refused:
            confirm(actor=actor(dana), code=code)
        assert refused.value.code == "wrong_code"
        assert AuditEntry.objects.get(action="sign_in.failed").after["by"] == "totp"
        with pytest.raises(TooMany) as waiting:
            confirm(actor=actor(dana), code=code)
        assert waiting.value.retry_after <= 2


def test_a_fresh_sign_in_counts_only_for_people_without_a_password() -> None:
    just_now = {"signed_in_at": datetime.now(tz=UTC).timestamp() - 60}
    vic, dana = make_user("vic"), make_user("dana", password=PASSWORD)
    confirm(actor=actor(vic), session=just_now)
    with pytest.raises(Invalid):
        confirm(actor=actor(dana), session=just_now)
    with pytest.raises(Invalid) as refused:
        confirm(actor=actor(vic), session={"signed_in_at": 1.0})
    assert "ten minutes" in refused.value.message
    assert ways_to_confirm(user=vic, session=just_now).fresh


@pytest.mark.parametrize(
    ("ago", "fresh"), [(0, True), (600, True), (601, False), (-5, False)], ids=str
)
def test_how_long_a_sign_in_is_fresh(ago: int, fresh: bool) -> None:
    at = (NOW - timedelta(seconds=ago)).timestamp()
    assert is_fresh({"confirmed_at": at}, NOW) is fresh
    assert not is_fresh({"confirmed_at": "soon"}, NOW)
