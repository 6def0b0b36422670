"""Signing in with a second factor: the two steps, what opens nothing, and what is on record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.test import Client
from django_otp.oath import totp
from django_otp.plugins.otp_static.models import StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from rest_framework.test import APIClient

from console.api.events import _session_reader
from console.env_sign_in import SignInConfig
from console.errors import Conflict, Invalid, NotAllowed, NotFound
from console.models import AuditEntry, Notice, Session, User
from console.services import attempts
from console.services.recovery_codes import make_recovery_codes, use_recovery_code
from console.services.second_factors import (
    begin_app,
    confirm_app,
    factors_of,
    remove_app,
    renew_recovery_codes,
    reset_second_factors,
)
from console.services.sessions import forget_old_sessions
from tests.console.counting_hasher import CountingHasher
from tests.factories import PASSWORD, actor, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    cache.clear()
    attempts._counts.clear()


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel("2026-05-04 09:30:00+00:00", tick=False) as traveller:
        yield traveller


@pytest.fixture
def policy(settings: Any) -> Callable[[str], None]:
    """`policy("everybody")` asks a second factor of them."""

    def choose(name: Any) -> None:
        settings.CONFIG = replace(settings.CONFIG, sign_in=SignInConfig(require_second_factor=name))

    return choose


def dana_with_app() -> tuple[User, TOTPDevice]:
    dana = make_user("dana", "data_scientist", password=PASSWORD)
    return dana, TOTPDevice.objects.create(user=dana, name="phone", confirmed=True)


def code_of(device: TOTPDevice) -> str:
    return f"{totp(device.bin_key):06d}"


def first_step(client: Client, **more: str) -> Any:
    return client.post("/sign-in/", {"username": "dana", "password": PASSWORD, **more})


def last_of(action: str) -> AuditEntry:
    entry = AuditEntry.objects.filter(action=action).order_by("sequence").last()
    assert entry is not None
    return entry


def reader_of_events(client: Client) -> User | None:
    """Whom the stream of live events takes the browser's session for."""
    request: Any = SimpleNamespace(session=client.session)
    return _session_reader(request)


def test_the_password_alone_opens_no_page_and_the_code_does(
    clock: time_machine.Traveller,
) -> None:
    _, device = dana_with_app()
    client = Client()
    answer = first_step(client, next="/jobs/")
    assert answer["Location"] == "/sign-in/code/"
    between = client.session.session_key
    for page in ("/", "/jobs/", "/settings/", "/settings/security/", "/api/v1/me/"):
        assert client.get(page).status_code in {302, 401}, page
    assert not AuditEntry.objects.filter(action="sign_in.succeeded").exists()
    answer = client.post("/sign-in/code/", {"code": code_of(device)})
    assert answer["Location"] == "/jobs/"
    assert client.get("/jobs/").status_code == 200
    assert client.session.session_key != between
    assert not Session.objects.filter(session_key=between).exists()
    assert last_of("sign_in.succeeded").after == {"by": "password+totp"}
    assert Session.objects.get(user__username="dana").means == "password+totp"


def test_a_code_is_taken_once_even_by_another_browser(clock: time_machine.Traveller) -> None:
    _, device = dana_with_app()
    code = code_of(device)
    one, two = Client(), Client()
    first_step(one)
    first_step(two)
    assert one.post("/sign-in/code/", {"code": code}).status_code == 302
    again = two.post("/sign-in/code/", {"code": code})
    assert again.status_code == 422
    assert "used already" in again.content.decode()
    failed = last_of("sign_in.failed")
    assert (failed.actor_username, failed.after["why"]) == ("dana", "wrong_code")


def test_guessing_codes_is_stopped_for_the_person_not_for_the_browser(
    clock: time_machine.Traveller,
) -> None:
    _, device = dana_with_app()
    wrong = f"{(int(code_of(device)) + 1) % 1_000_000:06d}"
    statuses = []
    for _ in range(6):
        client = Client()
        first_step(client)
        statuses.append(client.post("/sign-in/code/", {"code": wrong}).status_code)
        clock.shift(60)
    assert statuses == [422] * 5 + [429]
    client = Client()
    first_step(client)
    assert client.post("/sign-in/code/", {"code": code_of(device)}).status_code == 429


@pytest.mark.parametrize("what", ["too late", "password changed", "deactivated", "never began"])
def test_the_second_step_needs_the_first_one_fresh(
    clock: time_machine.Traveller, what: str
) -> None:
    dana, device = dana_with_app()
    client = Client()
    if what != "never began":
        first_step(client)
    if what == "too late":
        clock.shift(601)
    if what == "password changed":
        dana.set_password("another correct horse")
        dana.save()
    if what == "deactivated":
        User.objects.filter(pk=dana.pk).update(is_active=False)
    answer = client.post("/sign-in/code/", {"code": code_of(device)})
    assert answer["Location"] == "/sign-in/"
    assert client.get("/jobs/").status_code == 302


def test_a_recovery_code_works_once_and_is_not_kept_in_clear(
    clock: time_machine.Traveller,
) -> None:
    dana, _ = dana_with_app()
    codes = make_recovery_codes(dana)
    assert len(set(codes)) == 10
    kept = set(StaticToken.objects.values_list("token", flat=True))
    assert not kept & {code.replace("-", "") for code in codes}
    client = Client()
    first_step(client)
    assert client.post("/sign-in/code/", {"code": codes[3].upper()}).status_code == 302
    assert last_of("sign_in.succeeded").after == {"by": "password+recovery_code"}
    assert factors_of(dana).recovery_codes == 9
    assert not use_recovery_code(user=dana, code=codes[3])
    sam = make_user("sam")
    assert not use_recovery_code(user=sam, code=codes[4])


def test_an_app_is_set_up_with_a_first_code_and_a_proof(clock: time_machine.Traveller) -> None:
    dana = make_user("dana", "data_scientist", password=PASSWORD)
    client = Client()
    client.force_login(dana)
    page = client.get("/settings/security/app/").content.decode()
    assert "<svg" in page
    device = TOTPDevice.objects.get(user=dana, confirmed=False)
    sent = {"first-code": code_of(device)}
    refused = client.post("/settings/security/app/", sent)
    assert "Prove again" in refused.content.decode()
    assert not factors_of(dana).app
    done = client.post("/settings/security/app/", {**sent, "password": PASSWORD})
    assert done.status_code == 201
    assert factors_of(dana).app
    assert factors_of(dana).recovery_codes == 10
    assert last_of("second_factor.add").after == {"factor": "totp"}
    # A secret that was on a screen before is not taken into use later.
    client.get("/settings/security/app/")
    seen = TOTPDevice.objects.get(user=dana, confirmed=False).key
    client.get("/settings/security/app/")
    assert TOTPDevice.objects.get(user=dana, confirmed=False).key != seen


def test_factors_end_and_codes_go_with_the_last_of_them(clock: time_machine.Traveller) -> None:
    dana = make_user("dana")
    with pytest.raises(Conflict):
        renew_recovery_codes(actor=actor(dana))
    begin_app(user=dana, renew=True)
    with pytest.raises(Invalid):
        confirm_app(code="000000", actor=actor(dana))
    confirm_app(code=code_of(TOTPDevice.objects.get(user=dana)), actor=actor(dana))
    assert len(renew_recovery_codes(actor=actor(dana))) == 10
    remove_app(actor=actor(dana))
    assert not factors_of(dana).any
    assert factors_of(dana).recovery_codes == 0
    with pytest.raises(NotFound):
        remove_app(actor=actor(dana))
    actions = list(AuditEntry.objects.order_by("sequence").values_list("action", flat=True))
    assert actions == ["second_factor.add", "recovery_codes.renew", "second_factor.remove"]


def test_an_admin_takes_lost_factors_away_and_the_person_is_told(
    clock: time_machine.Traveller,
) -> None:
    dana, device = dana_with_app()
    ada, vic = make_user("ada", "platform_admin"), make_user("vic", "viewer")
    client = Client()
    first_step(client)
    client.post("/sign-in/code/", {"code": code_of(device)})
    assert client.get("/jobs/").status_code == 200
    with pytest.raises(NotAllowed):
        reset_second_factors(username="dana", reason="lost", actor=actor(vic))
    with pytest.raises(Invalid):
        reset_second_factors(username="dana", reason=" ", actor=actor(ada))
    admin = Client()
    admin.force_login(ada)
    admin.post("/settings/people/dana/second-factor/", {"reason": "Met her at the desk."})
    assert not factors_of(dana).any
    assert client.get("/jobs/").status_code == 302
    assert last_of("second_factor.reset").reason == "Met her at the desk."
    assert Notice.objects.get(recipient=dana).kind == "second_factor.reset"
    assert first_step(Client())["Location"] == "/"


@pytest.mark.parametrize(
    ("name", "role", "asked"),
    [
        ("none", "platform_admin", False),
        ("admins", "data_scientist", False),
        ("admins", "platform_admin", True),
        ("everybody", "viewer", True),
    ],
)
def test_an_installation_may_ask_for_a_second_factor(
    clock: time_machine.Traveller, policy: Any, name: str, role: str, asked: bool
) -> None:
    policy(name)
    dana = make_user("dana", role, password=PASSWORD)
    client = Client()
    answer = first_step(client)
    assert (answer["Location"] == "/sign-in/set-up/") is asked
    if not asked:
        return
    assert client.get("/jobs/").status_code == 302
    assert "otpauth" not in client.get("/sign-in/code/").content.decode()
    assert client.get("/sign-in/set-up/").status_code == 200
    code = code_of(TOTPDevice.objects.get(user=dana))
    shown = client.post("/sign-in/set-up/", {"code": code})
    assert shown.content.decode().count("-") > 30
    assert client.get("/jobs/").status_code == 200
    # A session that began without one opens nothing where one is asked for.
    weak = Client()
    weak.force_login(dana)
    assert weak.get("/jobs/").status_code == 302
    assert weak.get("/api/v1/me/").status_code == 401
    assert reader_of_events(weak) is None, "live events look at the session by themselves"
    assert reader_of_events(client) == dana


def test_a_program_gives_the_code_beside_the_password(
    clock: time_machine.Traveller, policy: Any
) -> None:
    dana, device = dana_with_app()
    client = APIClient()
    wanted = {"username": "dana", "password": PASSWORD, "name": "CLI"}
    refused = client.post("/api/v1/tokens/", wanted, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "second_factor_required")
    assert refused.json()["errors"][0]["pointer"] == "/code"
    wrong = client.post("/api/v1/tokens/", {**wanted, "code": "12345"}, format="json")
    assert (wrong.status_code, wrong.json()["code"]) == (403, "wrong_code")
    code = code_of(device)
    made = client.post("/api/v1/tokens/", {**wanted, "code": code}, format="json")
    assert made.status_code == 201, made.json()
    again = client.post("/api/v1/tokens/", {**wanted, "code": code}, format="json")
    assert again.json()["code"] == "wrong_code"
    policy("everybody")
    make_user("sam", password=PASSWORD)
    none = client.post("/api/v1/tokens/", {**wanted, "username": "sam"}, format="json")
    assert none.json()["code"] == "second_factor_missing"
    assert dana.api_tokens.count() == 1


def test_an_unknown_name_costs_and_says_the_same_as_a_wrong_password(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["tests.console.counting_hasher.CountingHasher"]
    make_user("dana", password=PASSWORD)
    make_user("sam")
    answers = {}
    for name in ("dana", "sam", "nobody"):
        CountingHasher.times = 0
        answer = Client().post("/sign-in/", {"username": name, "password": "wrong"})
        said = answer.content.decode().partition("<form")[2].partition("</form>")[0]
        answers[name] = (answer.status_code, CountingHasher.times, "is not right" in said)
    assert answers["dana"] == answers["sam"] == answers["nobody"] == (422, 1, True)


def test_people_see_and_end_their_sessions(clock: time_machine.Traveller) -> None:
    dana = make_user("dana", password=PASSWORD)
    phone = Client(headers={"user-agent": "Mozilla/5.0 (iPhone) Version/17 Safari/604"})
    desk, third = Client(), Client()
    for client in (phone, desk, third):
        first_step(client)
    sam = Client()
    sam.force_login(make_user("sam"))
    page = desk.get("/settings/security/").content.decode()
    assert "Safari, iPhone" in page
    handle = Session.objects.get(browser="Safari, iPhone").handle
    assert handle in page
    assert phone.session.session_key not in page
    assert sam.post(f"/settings/security/sessions/{handle}/end/").status_code == 404
    assert desk.post(f"/settings/security/sessions/{handle}/end/").status_code == 302
    assert phone.get("/jobs/").status_code == 302
    assert last_of("session.end").subject == f"session {handle}"
    desk.post("/settings/security/sessions/end-others/")
    assert third.get("/jobs/").status_code == 302
    assert desk.get("/jobs/").status_code == 200
    assert sam.get("/jobs/").status_code == 200
    assert last_of("session.end_others").after == {"ended": 1}
    desk.post("/sign-out/")
    assert last_of("session.sign_out").actor_username == "dana"
    assert not Session.objects.filter(user=dana).exists()


def test_the_api_shows_factors_and_sessions_ends_them_and_resets(
    clock: time_machine.Traveller,
) -> None:
    dana, _ = dana_with_app()
    ada, vic = make_user("ada", "platform_admin"), make_user("vic", "viewer")
    here, other, admin = APIClient(), APIClient(), APIClient()
    for client, user in ((here, dana), (other, dana), (admin, ada)):
        client.force_login(user)
    factors = {"app": True, "passkeys": 0, "recovery_codes": 0}
    factors["second_factor_required"] = False
    assert here.get("/api/v1/me/security/").json() == factors
    assert sorted(one["here"] for one in here.get("/api/v1/me/sessions/").json()) == [False, True]
    assert here.delete("/api/v1/me/sessions/").json() == {"ended": 1}
    assert other.get("/api/v1/me/").status_code == 401
    reset = "/api/v1/people/dana/second-factor/reset/"
    weak = APIClient()
    weak.force_login(vic)
    assert weak.post(reset, {"reason": "x"}, format="json").status_code == 403
    answer = admin.post(reset, {"reason": "Met her."}, format="json")
    assert answer.json() == {**factors, "app": False}
    assert here.get("/api/v1/me/").status_code == 401


def test_a_sessions_last_sight_is_noted_to_the_minute(clock: time_machine.Traveller) -> None:
    make_user("dana", password=PASSWORD)
    client = Client()
    first_step(client)
    first = Session.objects.get(user__username="dana").last_seen_at
    clock.shift(30)
    client.get("/jobs/")
    assert Session.objects.get(user__username="dana").last_seen_at == first
    clock.shift(40)
    client.get("/jobs/")
    assert Session.objects.get(user__username="dana").last_seen_at > first
    clock.shift(14 * 86400)
    assert forget_old_sessions() == 1
    assert client.get("/jobs/").status_code == 302
