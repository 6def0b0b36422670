"""Signing keys and API tokens, by service, API and page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound
from console.models import ApiToken, AuditEntry, SigningKey, User
from console.rules.signing_keys import KeyAlgorithm, create_private_key, public_key_of
from console.services import attempts
from console.services.keys import enrol_key, revoke_key
from console.services.tokens import authenticate_token, create_token, revoke_token
from tests.factories import PASSWORD, People, actor

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    cache.clear()
    attempts._counts.clear()


def new_pem(algorithm: KeyAlgorithm = "ed25519") -> str:
    return public_key_of(create_private_key(algorithm)).pem


def with_token(user: User, *scopes: str) -> APIClient:
    _, clear = create_token(name="test", scopes=list(scopes), actor=actor(user))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {clear}")
    return client


# ---- keys


@pytest.mark.parametrize(("algorithm", "origin"), [("ed25519", "cli"), ("ecdsa-p256", "browser")])
def test_a_key_is_enrolled_after_the_password_was_asked_again(
    with_passwords: People, algorithm: KeyAlgorithm, origin: str
) -> None:
    private = create_private_key(algorithm)
    key = enrol_key(
        name="laptop",
        public_key=public_key_of(private).pem,
        origin=origin,
        password=PASSWORD,
        actor=actor(with_passwords.dana),
    )
    assert (key.user, key.algorithm, key.origin) == (with_passwords.dana, algorithm, origin)
    assert key.keyid == public_key_of(private).key_id
    entry = AuditEntry.objects.get(action="key.enrol")
    assert (entry.subject, entry.after["keyid"]) == (f"key {key.keyid[:12]}", key.keyid)


@pytest.mark.parametrize(
    ("password", "code"),
    [("", "confirmation_needed"), ("wrong", "wrong_password"), (None, "confirmation_needed")],
)
def test_without_the_password_no_key_is_enrolled(
    with_passwords: People, password: str | None, code: str
) -> None:
    with pytest.raises(Invalid) as refused:
        enrol_key(
            name="laptop",
            public_key=new_pem(),
            origin="browser",
            password=password,
            actor=actor(with_passwords.dana),
        )
    assert refused.value.code == code
    assert not SigningKey.objects.exists()


def test_a_token_needs_the_scope_sign_and_its_owner_again(with_passwords: People) -> None:
    dana = with_passwords.dana
    for scopes in ({"write"}, {"read", "admin"}):
        with pytest.raises(NotAllowed):
            enrol_key(
                name="ci",
                public_key=new_pem(),
                origin="cli",
                password=PASSWORD,
                actor=actor(dana, scopes=scopes),
            )
    with_token = actor(dana, scopes={"sign"})
    with pytest.raises(Invalid) as refused:
        enrol_key(name="ci", public_key=new_pem(), origin="cli", password="wrong", actor=with_token)
    assert refused.value.code == "wrong_password"
    with pytest.raises(Invalid) as refused:
        enrol_key(name="ci", public_key=new_pem(), origin="cli", password=None, actor=with_token)
    assert refused.value.code == "confirmation_needed", "who took a token makes no key by it"
    enrol_key(name="ci", public_key=new_pem(), origin="cli", password=PASSWORD, actor=with_token)


def test_a_key_belongs_to_one_person_once_and_never_comes_back(with_passwords: People) -> None:
    pem = new_pem()
    dana, sam = (actor(user, scopes={"sign"}) for user in (with_passwords.dana, with_passwords.sam))
    key = enrol_key(name="one", public_key=pem, origin="cli", password=PASSWORD, actor=dana)
    for who in (dana, sam):
        with pytest.raises(Conflict) as refused:
            enrol_key(name="two", public_key=pem, origin="cli", password=PASSWORD, actor=who)
        assert refused.value.code == "key_exists"
    revoke_key(key_id=key.keyid, reason="lost", actor=dana)
    with pytest.raises(Conflict):
        enrol_key(name="again", public_key=pem, origin="cli", password=PASSWORD, actor=dana)


def test_revoking_takes_a_reason_happens_once_and_is_for_the_owner_or_an_admin(
    with_passwords: People,
) -> None:
    dana = actor(with_passwords.dana, scopes={"sign"})
    key = enrol_key(name="one", public_key=new_pem(), origin="cli", password=PASSWORD, actor=dana)
    with pytest.raises(Invalid) as refused:
        revoke_key(key_id=key.keyid, reason=" ", actor=dana)
    assert refused.value.code == "reason_missing"
    with pytest.raises(NotFound):
        revoke_key(key_id=key.keyid, reason="x", actor=actor(with_passwords.sam))
    revoked = revoke_key(key_id=key.keyid, reason="laptop lost", actor=actor(with_passwords.ada))
    again = revoke_key(key_id=str(key.pk), reason="twice", actor=dana)
    assert again.revoked_at == revoked.revoked_at
    assert again.revoked_reason == "laptop lost"
    assert AuditEntry.objects.filter(action="key.revoke").count() == 1


def test_keys_by_the_api(with_passwords: People, api: Callable[[User], APIClient]) -> None:
    client = api(with_passwords.dana)
    body = {"name": "laptop", "public_key": new_pem(), "origin": "browser"}
    refused = client.post("/api/v1/keys/", body, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "confirmation_needed")
    made = client.post("/api/v1/keys/", {**body, "password": PASSWORD}, format="json")
    assert made.status_code == 201
    private = create_private_key("ecdsa-p256")
    by_jwk = {"name": "jwk", "public_key": public_key_of(private).jwk, "password": PASSWORD}
    assert client.post("/api/v1/keys/", by_jwk, format="json").status_code == 201
    listed = client.get("/api/v1/keys/").json()["results"]
    assert [key["name"] for key in listed] == ["jwk", "laptop"]
    assert listed[1]["keyid"] == made.json()["keyid"]
    revoke = f"/api/v1/keys/{made.json()['keyid']}/revoke/"
    assert client.post(revoke, {}, format="json").json()["errors"][0]["pointer"] == "/reason"
    revoked = client.post(revoke, {"reason": "lost"}, format="json")
    assert revoked.json()["revoked_at"] is not None
    bad = {"name": "x", "public_key": "nonsense", "password": PASSWORD}
    assert client.post("/api/v1/keys/", bad, format="json").json()["code"] == "invalid_key"


def test_keys_by_the_page_as_the_browsers_script_and_as_a_person_do_it(
    with_passwords: People, signed_in: Callable[[User], Client]
) -> None:
    client = signed_in(with_passwords.dana)
    by_script = {"Accept": "application/problem+json, application/json"}
    form = {"name": "browser", "public_key": new_pem("ecdsa-p256"), "origin": "browser"}
    refused = client.post("/settings/keys/enrol/", {**form, "password": "wrong"}, headers=by_script)
    assert (refused.status_code, refused.json()["code"]) == (422, "wrong_password")
    made = client.post("/settings/keys/enrol/", {**form, "password": PASSWORD}, headers=by_script)
    assert made.status_code == 201
    typed = {"name": "cli", "public_key": new_pem(), "password": PASSWORD}
    wrong = client.post("/settings/keys/enrol/", {**typed, "public_key": "no key!"})
    assert wrong.status_code == 422
    assert "neither PEM nor base64 nor a JWK" in wrong.content.decode()
    assert client.post("/settings/keys/enrol/", typed).status_code == 302
    page = client.get("/settings/keys/").content.decode()
    key = SigningKey.objects.get(name="cli")
    assert key.keyid in page
    assert (key.origin, SigningKey.objects.get(name="browser").origin) == ("cli", "browser")
    gone = {"kind": "replaced", "reason": "old"}
    assert client.post(f"/settings/keys/{key.keyid}/revoke/", gone).status_code == 302
    assert "Revoked" in client.get("/settings/keys/").content.decode()


# ---- tokens


def test_a_token_is_shown_once_and_kept_as_a_digest(persons: People) -> None:
    token, clear = create_token(name="ci", scopes=["read", "write"], actor=actor(persons.dana))
    assert clear.startswith(token.prefix)
    stored = ApiToken.objects.get()
    assert clear not in str(vars(stored))
    found = authenticate_token(clear)
    assert found is not None
    assert found.user == persons.dana
    assert clear not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize("how", ["expired", "revoked", "inactive", "other"])
def test_a_token_that_is_not_valid_opens_nothing(persons: People, how: str) -> None:
    token, clear = create_token(name="ci", scopes=["read"], actor=actor(persons.dana))
    if how == "expired":
        ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif how == "revoked":
        revoke_token(token_id=token.pk, actor=actor(persons.dana))
    elif how == "inactive":
        User.objects.filter(pk=persons.dana.pk).update(is_active=False)
    else:
        clear += "x"
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {clear}")
    answer = client.get("/api/v1/me/")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Token"
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "bad_token"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"scopes": []}, "bad_scope"),
        ({"scopes": ["root"]}, "bad_scope"),
        ({"days": 0}, "bad_token_request"),
        ({"days": 366}, "bad_token_request"),
        ({"name": " "}, "bad_token_request"),
    ],
)
def test_what_a_token_may_not_be(persons: People, fields: dict[str, object], code: str) -> None:
    wanted = {"name": "ci", "scopes": ["read"], **fields}
    with pytest.raises(CovenantError) as refused:
        create_token(**wanted, actor=actor(persons.dana))  # type: ignore[arg-type]
    assert refused.value.code == code


def test_a_token_makes_no_token_that_may_do_more(persons: People) -> None:
    few = actor(persons.dana, scopes={"read", "admin"})
    with pytest.raises(NotAllowed) as refused:
        create_token(name="more", scopes=["sign"], actor=few)
    assert refused.value.code == "scope_missing"
    create_token(name="less", scopes=["read"], actor=few)
    with pytest.raises(NotAllowed):
        create_token(name="x", scopes=["read"], actor=actor(persons.dana, scopes={"read"}))


def test_ones_tokens_are_ones_own_but_an_admin_may_end_them(persons: People) -> None:
    token, clear = create_token(name="ci", scopes=["read"], actor=actor(persons.dana))
    with pytest.raises(NotFound):
        revoke_token(token_id=token.pk, actor=actor(persons.sam))
    assert authenticate_token(clear, address="203.0.113.7") is not None
    token.refresh_from_db()
    assert token.last_used_from == "203.0.113.7"
    revoke_token(token_id=token.pk, reason="seen in a log", actor=actor(persons.ada))
    assert authenticate_token(clear) is None
    entry = AuditEntry.objects.get(action="token.revoke")
    assert (entry.actor_username, entry.after["owner"]) == ("ada", "dana")


def test_the_command_line_signs_in_by_name_and_password_and_is_throttled(
    with_passwords: People,
) -> None:
    client = APIClient()
    wanted = {"name": "covenant cli", "username": "dana", "password": PASSWORD}
    made = client.post("/api/v1/tokens/", wanted, format="json")
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    caller = APIClient()
    caller.credentials(HTTP_AUTHORIZATION=f"Token {made.json()['token']}")
    me = caller.get("/api/v1/me/").json()
    assert (me["username"], me["roles"]) == ("dana", ["data_scientist"])
    assert me["scopes"] == ["admin", "operate", "read", "sign", "write"]
    for _ in range(5):
        wrong = client.post("/api/v1/tokens/", {**wanted, "password": "wrong"}, format="json")
        assert (wrong.status_code, wrong.json()["code"]) == (403, "wrong_credentials")
    stopped = client.post("/api/v1/tokens/", wanted, format="json")
    assert (stopped.status_code, stopped.json()["code"]) == (429, "too_many_attempts")
    assert stopped["Retry-After"] == "900"


def test_nobody_makes_a_token_without_saying_who(with_passwords: People) -> None:
    answer = APIClient().post("/api/v1/tokens/", {"name": "x"}, format="json")
    assert answer.status_code == 401
    half = APIClient().post("/api/v1/tokens/", {"name": "x", "username": "dana"}, format="json")
    assert (half.status_code, half.json()["code"]) == (422, "credentials_missing")


def test_scopes_bound_what_a_token_does(persons: People) -> None:
    assert with_token(persons.dana, "write").get("/api/v1/jobs/").status_code == 403
    reader = with_token(persons.dana, "read")
    assert reader.get("/api/v1/jobs/").status_code == 200
    refused = reader.post("/api/v1/keys/", {}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")


def test_tokens_by_the_page(persons: People, signed_in: Callable[[User], Client]) -> None:
    client = signed_in(persons.dana)
    made = client.post("/settings/tokens/create/", {"name": "ci", "scopes": ["read"], "days": 30})
    assert made.status_code == 201
    assert "no-store" in made["Cache-Control"]
    clear = made.context["clear"]
    assert clear in made.content.decode()
    page = client.get("/settings/tokens/").content.decode()
    assert clear not in page
    token = ApiToken.objects.get()
    assert client.post(f"/settings/tokens/{token.pk}/revoke/").status_code == 302
    assert authenticate_token(clear) is None
    bad = client.post("/settings/tokens/create/", {"name": "ci", "days": 30})
    assert bad.status_code == 422
