"""Signing in and out, people and their roles."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.core.cache import cache
from django.db import connections
from django.test import Client, override_settings

from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound, TooMany
from console.models import AuditEntry, User
from console.services import attempts
from console.services.attempts import Limit, count_attempt, forget_attempts
from console.services.departures import deactivate_person, reactivate_person
from console.services.people import (
    change_own_password,
    change_roles,
    create_person,
    reset_password,
)
from tests.factories import PASSWORD, People, actor, make_user, people

pytestmark = pytest.mark.django_db

GONE = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:1/0",
        "OPTIONS": {"socket_connect_timeout": 0.2},
    }
}


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    cache.clear()
    attempts._counts.clear()


@pytest.fixture
def browser() -> Client:
    return Client(enforce_csrf_checks=False)


def sign_in(client: Client, password: str = PASSWORD, **more: str) -> int:
    answer = client.post("/sign-in/", {"username": "dana", "password": password, **more})
    return answer.status_code


def test_signing_in_begins_a_new_session_and_is_on_record(browser: Client) -> None:
    make_user("dana", "data_scientist", password=PASSWORD)
    browser.get("/sign-in/")
    browser.session["planted"] = "before"
    browser.session.save()
    before = browser.session.session_key
    assert sign_in(browser, next="/jobs/") == 302
    assert browser.session.session_key != before
    assert browser.get("/jobs/").status_code == 200
    assert AuditEntry.objects.get(action="sign_in.succeeded").actor_username == "dana"


def test_a_wrong_password_is_refused_in_words_that_tell_nothing(browser: Client) -> None:
    make_user("dana", password=PASSWORD)
    known = browser.post("/sign-in/", {"username": "dana", "password": "wrong"})
    unknown = browser.post("/sign-in/", {"username": "nobody", "password": "wrong"})
    assert known.status_code == unknown.status_code == 422
    sentence = "The name or the password is not right."
    assert sentence in known.content.decode()
    assert sentence in unknown.content.decode()
    entries = AuditEntry.objects.filter(action="sign_in.failed").order_by("sequence")
    assert [(e.actor_username, e.subject) for e in entries] == [
        ("dana", "user dana"),
        ("system", "user nobody"),
    ]


@pytest.mark.parametrize("redis_is_away", [False, True])
def test_guessing_is_stopped_after_five_failures_even_with_the_right_password(
    browser: Client, redis_is_away: bool
) -> None:
    make_user("dana", password=PASSWORD)
    with override_settings(**({"CACHES": GONE} if redis_is_away else {})):
        for _ in range(5):
            assert sign_in(browser, "wrong") == 422
        answer = browser.post("/sign-in/", {"username": "dana", "password": PASSWORD})
    assert answer.status_code == 429
    assert answer["Retry-After"] == "900"
    assert "Wait 15 minutes" in answer.content.decode()
    assert AuditEntry.objects.filter(action="sign_in.failed").count() == 5


def test_a_right_password_forgives_the_failures_before(browser: Client) -> None:
    make_user("dana", password=PASSWORD)
    for _ in range(4):
        sign_in(browser, "wrong")
    assert sign_in(browser) == 302
    for _ in range(4):
        assert sign_in(Client(), "wrong") == 422


def test_attempts_run_out_and_begin_anew() -> None:
    limit = Limit(attempts=2, seconds=60)
    for _ in range(2):
        count_attempt("x", limit)
    with pytest.raises(TooMany) as refused:
        count_attempt("x", limit)
    assert refused.value.retry_after == 60
    forget_attempts("x")
    count_attempt("x", limit)


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:x"])
def test_signing_in_leads_nowhere_else(browser: Client, target: str) -> None:
    make_user("dana", password=PASSWORD)
    answer = browser.post("/sign-in/", {"username": "dana", "password": PASSWORD, "next": target})
    assert answer.status_code == 302
    assert "evil" not in answer["Location"]
    assert "javascript" not in answer["Location"]


def test_a_person_who_was_deactivated_is_out_at_once(browser: Client) -> None:
    person = make_user("dana", password=PASSWORD)
    ada = make_user("ada", "platform_admin")
    sign_in(browser)
    assert browser.get("/jobs/").status_code == 200
    deactivate_person(username="dana", reason="left", actor=actor(ada))
    assert browser.get("/jobs/").status_code == 302
    assert sign_in(browser) == 422
    reactivate_person(username="dana", reason="back", actor=actor(ada))
    # The old password opens nothing: whoever comes back is given what they need anew.
    assert sign_in(browser) == 422
    assert sign_in(browser, reset_password(username="dana", actor=actor(ada))) == 302
    person.refresh_from_db()
    assert (person.is_active, person.roles) == (True, [])


def test_signing_out_is_a_post_and_ends_the_session(browser: Client) -> None:
    make_user("dana", password=PASSWORD)
    sign_in(browser)
    assert browser.get("/sign-out/").status_code == 405
    assert browser.post("/sign-out/").status_code == 302
    assert browser.get("/jobs/").status_code == 302


def test_forms_need_their_csrf_token() -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/sign-in/", {"username": "dana", "password": "x"})
    assert answer.status_code == 403
    assert "out of date" in answer.content.decode()


def test_a_fragment_asked_for_without_a_session_sends_the_page_to_the_sign_in() -> None:
    answer = Client().get("/jobs/", headers={"HX-Request": "true"})
    assert answer["HX-Redirect"].startswith("/sign-in/")


def test_the_language_is_switched_remembered_and_set_again_at_the_next_sign_in(
    browser: Client,
) -> None:
    person = make_user("dana", password=PASSWORD)
    sign_in(browser)
    browser.post("/i18n/setlang/", {"language": "zh-hans", "next": "/settings/"})
    person.refresh_from_db()
    assert person.language == "zh-hans"
    elsewhere = Client()
    answer = elsewhere.post("/sign-in/", {"username": "dana", "password": PASSWORD})
    assert answer.cookies["django_language"].value == "zh-hans"
    assert 'lang="zh-hans"' in elsewhere.get("/settings/").content.decode()
    assert Client().post("/i18n/setlang/", {"language": "en"}).status_code == 302


def test_an_admin_creates_a_person_and_sees_the_password_once(
    signed_in: Callable[[User], Client], persons: People
) -> None:
    admin = signed_in(persons.ada)
    answer = admin.post(
        "/settings/new-person/",
        {"username": "eve", "display_name": "Eve", "email": "eve@example.com", "roles": ["sre"]},
    )
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    clear = answer.context["clear"]
    assert clear in answer.content.decode()
    assert clear not in admin.get("/settings/people/eve/").content.decode()
    newcomer = Client()
    assert newcomer.post("/sign-in/", {"username": "eve", "password": clear}).status_code == 302
    assert User.objects.get(username="eve").roles == ["sre"]
    assert AuditEntry.objects.get(action="user.create").after["roles"] == ["sre"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"username": "dana"}, "name_taken"),
        ({"username": "no spaces"}, "invalid_input"),
        ({"username": "eve", "roles": ["king"]}, "unknown_role"),
        ({"username": "eve", "password": "12345678"}, "weak_password"),
        ({"username": "eve", "email": "not an address"}, "invalid_input"),
    ],
)
def test_what_a_new_person_may_not_be(
    persons: People, fields: dict[str, object], code: str
) -> None:
    with pytest.raises(CovenantError) as refused:
        create_person(**{"roles": [], **fields}, actor=actor(persons.ada))  # type: ignore[arg-type]
    assert refused.value.code == code
    assert User.objects.count() == 5


def test_only_a_platform_admin_manages_people(persons: People) -> None:
    for somebody in (persons.dana, persons.sam, persons.bea, persons.vic):
        with pytest.raises(NotAllowed):
            create_person(username="eve", roles=[], actor=actor(somebody))
        with pytest.raises(NotAllowed):
            change_roles(username="vic", roles=["platform_admin"], actor=actor(somebody))
        with pytest.raises(NotAllowed):
            deactivate_person(username="ada", reason="", actor=actor(somebody))
        with pytest.raises(NotAllowed):
            reset_password(username="ada", actor=actor(somebody))
    with pytest.raises(NotAllowed):
        change_roles(username="vic", roles=[], actor=actor(persons.ada, scopes={"write"}))


def test_the_last_platform_admin_stays_one(persons: People) -> None:
    ada = actor(persons.ada)
    for act in (
        lambda: change_roles(username="ada", roles=["sre"], actor=ada),
        lambda: deactivate_person(username="ada", reason="left", actor=ada),
    ):
        with pytest.raises(Conflict) as refused:
            act()
        assert refused.value.code == "last_admin"
    change_roles(username="sam", roles=["sre", "platform_admin"], actor=ada)
    change_roles(username="ada", roles=["sre"], reason="moved", actor=ada)
    entry = AuditEntry.objects.filter(action="user.roles").latest("sequence")
    assert (entry.before, entry.after) == (
        {"roles": ["platform_admin"]},
        {"roles": ["sre"]},
    )
    assert entry.reason == "moved"


def test_two_admins_cannot_take_the_role_from_each_other_at_once(transactional_db: None) -> None:
    ada, sam = people().ada, make_user("second", "platform_admin")
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def demote(who: User, whom: User) -> None:
        start.wait()
        try:
            change_roles(username=whom.username, roles=[], actor=actor(who))
            outcomes.append("done")
        except CovenantError as error:
            outcomes.append(error.code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=demote, args=pair) for pair in ((ada, sam), (sam, ada))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done", "last_admin"]


def test_the_installation_itself_is_nobody_to_manage(persons: People) -> None:
    make_user("system")
    with pytest.raises(NotFound):
        change_roles(username="system", roles=["sre"], actor=actor(persons.ada))


def test_a_new_password_ends_the_other_sessions_but_not_this_one(browser: Client) -> None:
    make_user("dana", password=PASSWORD)
    elsewhere = Client()
    for client in (browser, elsewhere):
        sign_in(client)
    refused = browser.post("/settings/", {"old": "wrong", "password": "another long phrase"})
    assert refused.status_code == 422
    assert "This is not your password." in refused.content.decode()
    weak = browser.post("/settings/", {"old": PASSWORD, "password": "12345678"})
    assert "entirely numeric" in weak.content.decode()
    done = browser.post("/settings/", {"old": PASSWORD, "password": "another long phrase"})
    assert done.status_code == 302
    assert browser.get("/jobs/").status_code == 200
    assert elsewhere.get("/jobs/").status_code == 302


def test_ones_own_password_cannot_be_guessed_from_an_open_session(
    with_passwords: People,
) -> None:
    dana = actor(with_passwords.dana)
    for _ in range(5):
        with pytest.raises(Invalid):
            change_own_password(old="wrong", new="another long phrase", actor=dana)
    with pytest.raises(TooMany):
        change_own_password(old=PASSWORD, new="another long phrase", actor=dana)


def test_the_pages_of_people_in_each_role(
    signed_in: Callable[[User], Client], persons: People
) -> None:
    admin, viewer = signed_in(persons.ada), signed_in(persons.vic)
    assert "New person" in admin.get("/settings/people/").content.decode()
    assert "New person" not in viewer.get("/settings/people/").content.decode()
    assert viewer.get("/settings/new-person/").status_code == 403
    assert viewer.post("/settings/people/dana/roles/", {"roles": ["sre"]}).status_code == 403
    assert viewer.post("/settings/people/dana/deactivate/", {"reason": "x"}).status_code == 403
    assert viewer.post("/settings/people/dana/password/").status_code == 403
    assert admin.get("/settings/people/nobody/").status_code == 404
    changed = admin.post("/settings/people/vic/roles/", {"roles": ["business_owner"]})
    assert changed.status_code == 302
    assert User.objects.get(username="vic").roles == ["business_owner"]
    last = admin.post("/settings/people/ada/roles/", {"roles": ["sre"]})
    assert last.status_code == 422
    assert "last platform admin" in last.content.decode()
    shown = admin.post("/settings/people/dana/password/")
    assert shown.status_code == 201
    assert Client().login(username="dana", password=shown.context["clear"])
