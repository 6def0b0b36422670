"""Enrolling passkeys as signing keys, and every answer that is not taken."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from django.core.cache import cache
from webauthn.helpers import base64url_to_bytes

from console.errors import Conflict, CovenantError, Invalid, NotAllowed
from console.models import AuditEntry, SigningKey, User
from console.services.key_rows import public_key
from console.services.signing_passkeys import begin_passkey, enrol_passkey
from tests.factories import PASSWORD, People, actor
from tests.passkey_device import AT, UP, UV, Device, b64url

pytestmark = pytest.mark.django_db
HERE = "http://localhost:8000"


@pytest.fixture(autouse=True)
def site(settings: Any) -> Iterator[None]:
    cache.clear()
    before = settings.CONFIG
    settings.CONFIG = before.__class__(**{**_fields(before), "base_url": HERE})
    yield
    settings.CONFIG = before


def _fields(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


def challenge_for(user: User) -> bytes:
    options = begin_passkey(actor=actor(user))
    return base64url_to_bytes(options["challenge"])


def enrol(user: User, answer: dict[str, Any], **how: Any) -> SigningKey:
    wanted = {"name": "yubikey", "password": PASSWORD} | how
    return enrol_passkey(credential=answer, actor=actor(user), **wanted)


def refusal(user: User, answer: dict[str, Any], **how: Any) -> CovenantError:
    with pytest.raises(CovenantError) as refused:
        enrol(user, answer, **how)
    return refused.value


def test_what_the_browser_is_asked_for(with_passwords: People) -> None:
    options = begin_passkey(actor=actor(with_passwords.dana))
    assert options["rp"] == {"id": "localhost", "name": "Covenant"}
    assert [one["alg"] for one in options["pubKeyCredParams"]] == [-7, -8]
    assert options["authenticatorSelection"]["userVerification"] == "required"
    assert options["attestation"] == "none"
    again = begin_passkey(actor=actor(with_passwords.dana))
    assert options["user"]["id"] != again["user"]["id"]
    assert options["challenge"] != again["challenge"]


@pytest.mark.parametrize("kind", ["es256", "eddsa"])
def test_a_passkey_is_enrolled(with_passwords: People, kind: str) -> None:
    private: Any = ec.generate_private_key(ec.SECP256R1())
    if kind == "eddsa":
        private = ed25519.Ed25519PrivateKey.generate()
    device = Device(private=private, count=3)
    dana = with_passwords.dana
    key = enrol(dana, device.register(challenge_for(dana)), days=90)
    assert (key.origin, key.rp_id, key.sign_count) == ("passkey", "localhost", 3)
    assert key.credential_id == b64url(device.credential_id)
    assert public_key(key) == device.public
    assert AuditEntry.objects.get(action="key.enrol").after["rp_id"] == "localhost"
    known = begin_passkey(actor=actor(dana))["excludeCredentials"]
    assert [one["id"] for one in known] == [key.credential_id]


def test_a_challenge_is_for_one_answer_of_one_person(with_passwords: People) -> None:
    dana, sam = with_passwords.dana, with_passwords.sam
    challenge = challenge_for(dana)
    answer = Device().register(challenge)
    assert refusal(sam, answer).code == "challenge_unknown"
    assert refusal(dana, answer, password="wrong").code == "wrong_password"
    enrol(dana, answer)
    assert refusal(dana, answer).code == "challenge_unknown"
    assert refusal(dana, Device().register(b"never given out")).code == "challenge_unknown"
    assert SigningKey.objects.count() == 1


def test_a_challenge_is_spent_by_a_wrong_answer_too(with_passwords: People) -> None:
    dana = with_passwords.dana
    challenge = challenge_for(dana)
    assert refusal(dana, Device().register(challenge, flags=UP | AT)).code == "passkey_refused"
    assert refusal(dana, Device().register(challenge)).code == "challenge_unknown"


@pytest.mark.parametrize(
    ("device", "how", "code"),
    [
        ({}, {"flags": UP | AT}, "passkey_refused"),
        ({}, {"flags": UV | AT}, "passkey_refused"),
        ({}, {"kind": "webauthn.get"}, "passkey_refused"),
        ({}, {"crossOrigin": True}, "passkey_refused"),
        ({}, {"topOrigin": "https://evil.example"}, "passkey_refused"),
        ({"origin": "https://evil.example"}, {}, "passkey_refused"),
        ({"origin": "http://localhost:8001"}, {}, "passkey_refused"),
        ({"rp_id": "evil.example"}, {}, "passkey_refused"),
        ({}, {"fmt": "none", "statement": {"x5c": [b"junk"]}}, "passkey_refused"),
        ({}, {"fmt": "packed", "statement": {"alg": -7, "sig": b"junk"}}, "passkey_refused"),
        ({}, {"fmt": "packed", "statement": {"alg": -7, "sig": b"j", "x5c": [b"junk"]}}, "passkey"),
        ({}, {"fmt": "tpm", "statement": {"ver": "2.0"}}, "passkey"),
        ({}, {"fmt": "android-safetynet", "statement": {"response": b"a.b.c"}}, "passkey"),
        ({}, {"fmt": "of my own", "statement": {}}, "passkey_"),
        ({}, {"cose": {1: 2, 3: -7, -1: 1, -2: b"x" * 32, -3: b"y" * 32}}, "passkey_malformed"),
        ({}, {"cose": {}}, "passkey_"),
        ({"credential_id": b"x" * 1100}, {}, "passkey_malformed"),
        ({"credential_id": b"x" * 60_000}, {}, "passkey_malformed"),
    ],
)
def test_an_answer_that_is_not_right_is_refused(
    with_passwords: People, device: dict[str, Any], how: dict[str, Any], code: str
) -> None:
    dana = with_passwords.dana
    error = refusal(dana, Device(**device).register(challenge_for(dana), **how))
    assert isinstance(error, Invalid)
    assert error.code.startswith(code)
    assert error.hint
    assert not SigningKey.objects.exists()


@pytest.mark.parametrize("kind", ["rs256", "es384"])
def test_other_algorithms_do_not_sign_here(with_passwords: People, kind: str) -> None:
    dana = with_passwords.dana
    if kind == "rs256":
        device = Device(private=rsa.generate_private_key(65537, 2048))
        answer = device.register(challenge_for(dana))
    else:
        answer = Device().register(
            challenge_for(dana), cose={1: 2, 3: -35, -1: 2, -2: b"x" * 48, -3: b"y" * 48}
        )
    assert refusal(dana, answer).code == "unsupported_key"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"response": None},
        {"response": {"clientDataJSON": 1}},
        {"response": {"clientDataJSON": "!!!"}},
        {"response": {"clientDataJSON": "e30"}},
        {"response": {"clientDataJSON": b64url(b'{"challenge":7}')}},
    ],
)
def test_an_answer_without_a_challenge_is_none(
    with_passwords: People, answer: dict[str, Any]
) -> None:
    assert refusal(with_passwords.dana, answer).code == "passkey_malformed"


def test_rubbish_in_an_attestation_is_refused_and_never_a_fault_of_ours(
    with_passwords: People,
) -> None:
    dana, chance = with_passwords.dana, random.Random(5)
    for _ in range(150):
        answer = Device().register(challenge_for(dana))
        written = bytearray(base64url_to_bytes(answer["response"]["attestationObject"]))
        for _ in range(chance.randint(1, 6)):
            written[chance.randrange(len(written))] = chance.randrange(256)
        cut = chance.choice([len(written), chance.randrange(len(written))])
        answer["response"]["attestationObject"] = b64url(bytes(written[:cut]))
        # Whatever else is raised fails the test. What nobody checks may have changed alone
        # (the authenticator's model), and then a key is enrolled.
        with contextlib.suppress(Invalid, Conflict):
            enrol_passkey(name="x", credential=answer, actor=actor(dana, scopes={"sign"}))


def test_a_token_without_the_scope_sign_enrols_nothing(with_passwords: People) -> None:
    with pytest.raises(NotAllowed):
        begin_passkey(actor=actor(with_passwords.dana, scopes={"write"}))


def test_a_site_without_a_name_has_no_passkeys(with_passwords: People, settings: Any) -> None:
    fields = {**_fields(settings.CONFIG), "base_url": "http://127.0.0.1:8000"}
    settings.CONFIG = settings.CONFIG.__class__(**fields)
    with pytest.raises(Conflict) as refused:
        begin_passkey(actor=actor(with_passwords.dana))
    assert refused.value.code == "passkeys_unavailable"


def test_one_credential_is_one_key(with_passwords: People) -> None:
    dana = with_passwords.dana
    enrol(dana, Device().register(challenge_for(dana)))
    again = refusal(dana, Device().register(challenge_for(dana)))
    assert (type(again), again.code) == (Conflict, "key_exists")
