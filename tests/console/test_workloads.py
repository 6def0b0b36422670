"""Keyless sign-in: a real issuer's tokens, and every way in which one may be wrong."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.core.cache import cache
from django.utils import timezone
from jwt.warnings import InsecureKeyLengthWarning
from rest_framework.test import APIClient

from console.adapters import oidc_issuer as adapter
from console.errors import Conflict, CovenantError, Invalid, NotAllowed, Unavailable
from console.models import ApiToken, AuditEntry, User, WorkloadIdentity, WorkloadTokenUse
from console.rules.workload_tokens import claims_fit, is_for, issuer_fault, patterns_fault
from console.services.service_accounts import create_service_account, disable_service_account
from console.services.teams import create_team
from console.services.tokens import authenticate_token, forget_spent_tokens
from console.services.workloads import (
    add_workload,
    exchange_token,
    forget_used_tokens,
    remove_workload,
)
from tests.console.oidc_issuer import Issuer, new_key, running_issuer
from tests.factories import People, actor

pytestmark = pytest.mark.django_db
AUDIENCE = "https://covenant.example.com"


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    cache.clear()
    adapter.forget_issuers()


@pytest.fixture(scope="module")
def steady_issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def issuer(steady_issuer: Issuer) -> Issuer:
    """The module's issuer with nothing odd about it: its RSA key takes a while to make."""
    steady_issuer.answers.clear()
    steady_issuer.extra_keys.clear()
    steady_issuer.asked.clear()
    return steady_issuer


@pytest.fixture
def bot(persons: People) -> User:
    create_team(name="Risk", actor=actor(persons.ada))
    return create_service_account(
        username="ci-fraud", team="risk", roles=["data_scientist"], actor=actor(persons.ada)
    )


@pytest.fixture
def identity(persons: People, bot: User, issuer: Issuer) -> WorkloadIdentity:
    return trust(persons, issuer)


def trust(persons: People, by: Issuer, **changes: Any) -> WorkloadIdentity:
    wanted: dict[str, Any] = {
        "username": "ci-fraud",
        "name": "main branch",
        "issuer": by.url,
        "audience": AUDIENCE,
        "claims": {"sub": "repo:risk/fraud-models:*", "repository": "risk/fraud-models"},
        "scopes": ["read", "write"],
        **changes,
    }
    return add_workload(**wanted, actor=actor(persons.ada))


def exchange(token: str, **more: str) -> tuple[ApiToken, str]:
    return exchange_token(token=token, address="198.51.100.7", source="test", **more)


def unsigned(claims: dict[str, Any], header: dict[str, Any]) -> str:
    parts = [header, claims]
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_platforms_token_gives_a_short_one(
    identity: WorkloadIdentity, issuer: Issuer, bot: User, algorithm: str
) -> None:
    given, clear = exchange(issuer.token(algorithm))
    found = authenticate_token(clear)
    assert found is not None
    assert (found.user, found.scopes, found.workload) == (bot, ["read", "write"], identity)
    left = given.expires_at - timezone.now()
    assert timedelta(minutes=14) < left <= timedelta(minutes=15)
    entry = AuditEntry.objects.get(action="workload.sign_in")
    assert entry.actor_username == "ci-fraud"
    assert entry.after["subject"] == "repo:risk/fraud-models:ref:refs/heads/main"
    assert clear not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": int(time.time()) - 31}, "has expired"),
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"sub": None}, "sub"),
        ({"nbf": int(time.time()) + 3600}, "not valid yet"),
        ({"iat": int(time.time()) + 3600}, "not valid yet"),
        ({"exp": int(time.time()) + 90_000}, "lives for longer than a day"),
        ({"aud": "https://elsewhere.example.com"}, "its audience"),
        ({"aud": [AUDIENCE, "https://elsewhere.example.com"]}, "its audience"),
        ({"aud": AUDIENCE + "/"}, "its audience"),
        ({"sub": "repo:risk/fraud-models-evil:ref"}, "its claims"),
        ({"repository": "risk/other"}, "its claims"),
        ({"repository": ["risk/fraud-models"]}, "its claims"),
        ({"iss": "https://other.example.com"}, "no workload identity here trusts its issuer"),
    ],
)
def test_a_token_that_is_not_the_one_is_refused_with_its_reason(
    identity: WorkloadIdentity, issuer: Issuer, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(NotAllowed) as refused:
        exchange(issuer.token(**changes))
    assert refused.value.code == "workload_refused"
    assert why in refused.value.message
    assert not ApiToken.objects.exists()


def test_clocks_may_differ_by_half_a_minute(identity: WorkloadIdentity, issuer: Issuer) -> None:
    now = int(time.time())
    exchange(issuer.token(exp=now - 15))
    exchange(issuer.token(iat=now + 15, nbf=now + 15))


def test_no_algorithm_is_taken_for_another(identity: WorkloadIdentity, issuer: Issuer) -> None:
    _, key = issuer.keys["RS256"]
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = issuer.claims()
    # The oldest trick: the public key as a shared secret (jwt.encode itself refuses to make it).
    body = unsigned(claims, {"alg": "HS256", "kid": "RS256", "typ": "JWT"})
    mac = hmac.digest(pem, body.encode(), "sha256")
    forged = f"{body}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
    none = unsigned(claims, {"alg": "none", "kid": "RS256"}) + "."
    issuer.extra_keys.append(
        {"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(b"x" * 32).decode()}
    )
    shared = jwt.encode(claims, b"x" * 32, "HS256", headers={"kid": "shared"})
    stranger = jwt.encode(claims, new_key("ES256"), "ES256", headers={"kid": "ES256"})
    crossed = jwt.encode(claims, new_key("ES256"), "ES256", headers={"kid": "RS256"})
    unknown = jwt.encode(claims, new_key("ES256"), "ES256", headers={"kid": "else"})
    with_crit = issuer.token(headers={"crit": ["exp"], "exp": 1})
    half = issuer.token().rsplit(".", 1)[0]
    for token in (forged, none, shared, stranger, crossed, unknown, with_crit, half, "x", "a.b.c"):
        with pytest.raises(NotAllowed) as refused:
            exchange(token)
        assert refused.value.code == "workload_refused", token
    assert not ApiToken.objects.exists()


def test_a_small_rsa_key_is_refused(identity: WorkloadIdentity, issuer: Issuer) -> None:
    issuer.add("RS256", new_key("RS256", bits=1024), "small")
    try:
        with pytest.warns(InsecureKeyLengthWarning):
            token = issuer.token("small")
        with pytest.raises(NotAllowed, match="fewer than 2048 bits"):
            exchange(token)
    finally:
        del issuer.keys["small"]


def test_a_token_opens_once_also_without_an_id(identity: WorkloadIdentity, issuer: Issuer) -> None:
    for token in (issuer.token(), issuer.token(jti=None)):
        exchange(token)
        with pytest.raises(NotAllowed) as refused:
            exchange(token)
        assert refused.value.code == "workload_replayed"
    assert ApiToken.objects.count() == 2
    # The same id in another token is the same token.
    one, two = issuer.token(jti="1"), issuer.token("ES256", jti="1")
    exchange(one)
    with pytest.raises(NotAllowed):
        exchange(two)
    WorkloadTokenUse.objects.update(expires_at=timezone.now() - timedelta(hours=2))
    assert forget_used_tokens() == 3
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(days=8))
    assert forget_spent_tokens() == 3


def test_nothing_is_asked_of_an_issuer_that_nobody_registered(bot: User, issuer: Issuer) -> None:
    with pytest.raises(NotAllowed):
        exchange(issuer.token())
    assert issuer.asked == []


def test_keys_are_fetched_once_and_looked_for_again_when_they_change(
    identity: WorkloadIdentity, issuer: Issuer
) -> None:
    for _ in range(3):
        exchange(issuer.token())
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]
    for n in range(3):
        with pytest.raises(NotAllowed):
            exchange(issuer.token(headers={"kid": f"made-up-{n}"}))
    assert issuer.asked.count("/keys") <= 2


@pytest.mark.parametrize(
    ("path", "answer", "code"),
    [
        ("/keys", (302, {"Location": "http://127.0.0.1:1/keys"}, b""), "issuer_wrong"),
        ("/keys", (200, {}, b"[" + b" " * 300_000 + b"]"), "issuer_wrong"),
        ("/keys", (200, {}, b"nonsense"), "issuer_wrong"),
        ("/keys", (500, {}, b""), "issuer_wrong"),
        (
            "/.well-known/openid-configuration",
            (200, {}, b'{"issuer": "https://else.example.com", "jwks_uri": "x"}'),
            "issuer_wrong",
        ),
    ],
)
def test_an_issuer_that_answers_oddly(
    identity: WorkloadIdentity,
    issuer: Issuer,
    path: str,
    answer: tuple[int, dict[str, str], bytes],
    code: str,
) -> None:
    issuer.answers[path] = answer
    with pytest.raises(Unavailable) as refused:
        exchange(issuer.token())
    assert refused.value.code == code


@pytest.mark.parametrize("where", ["http://169.254.169.254/keys", "http://127.0.0.1:1/keys"])
def test_an_issuer_does_not_send_us_elsewhere(
    identity: WorkloadIdentity, issuer: Issuer, where: str
) -> None:
    document = json.dumps({"issuer": issuer.url, "jwks_uri": where}).encode()
    issuer.answers["/.well-known/openid-configuration"] = (200, {}, document)
    with pytest.raises(Unavailable, match="its keys lie on another host"):
        exchange(issuer.token())


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "169.254.169.254", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_a_name_that_leads_into_this_machine_is_not_called(host: str) -> None:
    with pytest.raises(Unavailable) as refused:
        adapter._get_json(f"https://{host}/.well-known/openid-configuration", loopback=False)
    assert refused.value.code == "issuer_wrong"


def test_a_token_that_fits_two_accounts_says_which(
    persons: People, identity: WorkloadIdentity, issuer: Issuer
) -> None:
    create_service_account(username="ci-two", team="risk", roles=[], actor=actor(persons.ada))
    trust(persons, issuer, username="ci-two")
    with pytest.raises(Conflict) as refused:
        exchange(issuer.token())
    assert refused.value.code == "workload_ambiguous"
    assert exchange(issuer.token(), account="ci-two")[0].user.username == "ci-two"


def test_what_is_removed_or_disabled_opens_nothing(
    persons: People, identity: WorkloadIdentity, issuer: Issuer
) -> None:
    ada = actor(persons.ada)
    _, clear = exchange(issuer.token())
    remove_workload(username="ci-fraud", workload_id=identity.pk, actor=ada)
    assert authenticate_token(clear) is None
    with pytest.raises(NotAllowed):
        exchange(issuer.token())
    trust(persons, issuer)
    _, clear = exchange(issuer.token())
    disable_service_account(username="ci-fraud", reason="x", actor=ada)
    assert authenticate_token(clear) is None
    with pytest.raises(NotAllowed):
        exchange(issuer.token())


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"issuer": "http://gitlab.example.com"}, "/issuer"),
        ({"issuer": "https://user:pw@gitlab.example.com"}, "/issuer"),
        ({"issuer": "https://gitlab.example.com?x=1"}, "/issuer"),
        ({"issuer": "file:///etc/passwd"}, "/issuer"),
        ({"audience": ""}, "/audience"),
        ({"claims": {}}, "/claims"),
        ({"claims": {"sub": "*"}}, "/claims"),
        ({"claims": {"sub": "a*b"}}, "/claims"),
        ({"claims": {"sub": "x", "n": 5}}, "/claims"),
        ({"scopes": ["sign"]}, "/scopes"),
        ({"scopes": ["admin"]}, "/scopes"),
        ({"scopes": []}, "/scopes"),
    ],
)
def test_what_is_never_trusted(
    persons: People, bot: User, issuer: Issuer, changes: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(Invalid) as refused:
        trust(persons, issuer, **changes)
    assert [fault.pointer for fault in refused.value.errors] == [pointer]


def test_patterns() -> None:
    assert claims_fit({"sub": "a:*"}, {"sub": "a:"})
    assert not claims_fit({"sub": "a"}, {"sub": "ab"})
    assert claims_fit({"n": "5", "ok": "true"}, {"n": 5, "ok": True})
    assert not claims_fit({"n": "1"}, {"n": True})
    assert not claims_fit({"sub": "*"}, {})
    assert is_for("a", ["a"])
    assert not is_for("a", ["a", "a"])
    assert issuer_fault("https://gitlab.example.com/path") == ""
    assert issuer_fault("http://localhost:8080") == ""
    assert patterns_fault({"sub": "x:*", "https://x/claim": "y"}) == ""


def test_the_door_needs_no_session_and_is_throttled(
    identity: WorkloadIdentity, issuer: Issuer
) -> None:
    client = APIClient(enforce_csrf_checks=True)
    made = client.post("/api/v1/tokens/exchange/", {"token": issuer.token()}, format="json")
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    assert made.json()["account"] == "ci-fraud"
    caller = APIClient()
    caller.credentials(HTTP_AUTHORIZATION=f"Token {made.json()['token']}")
    assert caller.get("/api/v1/me/").json()["username"] == "ci-fraud"
    for _ in range(30):
        refused = client.post("/api/v1/tokens/exchange/", {"token": "x.y.z"}, format="json")
        assert (refused.status_code, refused.json()["code"]) == (403, "workload_refused")
    stopped = client.post("/api/v1/tokens/exchange/", {"token": issuer.token()}, format="json")
    assert stopped.status_code == 429


def test_identities_by_the_api(
    persons: People, bot: User, api: Callable[[User], APIClient]
) -> None:
    path = "/api/v1/service-accounts/ci-fraud/workloads/"
    body = {
        "name": "gitlab",
        "issuer": "https://gitlab.example.com",
        "audience": AUDIENCE,
        "claims": {"sub": "project_path:risk/fraud-models:ref_type:branch:ref:main"},
        "scopes": ["read"],
    }
    assert api(persons.sam).post(path, body, format="json").status_code == 403
    made = api(persons.ada).post(path, body, format="json")
    assert made.status_code == 201
    one = f"{path}{made.json()['id']}/"
    assert api(persons.ada).delete(one, {"reason": "x"}, format="json").status_code == 204
    assert api(persons.ada).get(path).json()["results"] == []
    with pytest.raises(CovenantError):
        remove_workload(username="ci-fraud", workload_id=0, actor=actor(persons.ada))
