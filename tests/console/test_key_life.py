"""Keys end, are replaced, lost, compromised; and what verifiers without an account are given."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from django.utils import timezone
from rest_framework.test import APIClient

from console.errors import Conflict, CovenantError, Invalid, NotFound
from console.models import AuditEntry, Notice, SigningKey, User
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE, sign
from console.rules.key_export import from_jwks
from console.rules.key_life import fingerprint, warning_due
from console.rules.key_rotation import rotation_payload, sign_rotation
from console.rules.signing_keys import PrivateKey, create_private_key, public_key_of
from console.services.key_warnings import warn_of_expiring_keys
from console.services.keys import enrol_key, revoke_key
from tests.factories import People, actor

pytestmark = pytest.mark.django_db


def enrolled(user: User, private: PrivateKey | None = None, **how: Any) -> SigningKey:
    private = private or create_private_key()
    wanted = {"name": "laptop", "origin": "cli", "password": None} | how
    pem = public_key_of(private).pem
    return enrol_key(public_key=pem, actor=actor(user, scopes={"sign"}), **wanted)


def refusal(act: Callable[[], object]) -> CovenantError:
    with pytest.raises(CovenantError) as refused:
        act()
    return refused.value


# ---- expiry


@pytest.mark.parametrize(
    ("origin", "days", "lives"), [("cli", None, 730), ("browser", None, 365), ("cli", 30, 30)]
)
def test_a_key_ends_by_itself(persons: People, origin: str, days: int | None, lives: int) -> None:
    key = enrolled(persons.dana, origin=origin, days=days)
    assert key.expires_at is not None
    assert abs(key.expires_at - timezone.now() - timedelta(days=lives)) < timedelta(minutes=1)
    assert key.state == ("expiring" if lives == 30 else "active")
    assert AuditEntry.objects.get(action="key.enrol").after["expires_at"].startswith("20")


@pytest.mark.parametrize(("origin", "days"), [("browser", 366), ("cli", 731), ("cli", 0)])
def test_no_key_lives_longer_than_its_kind(persons: People, origin: str, days: int) -> None:
    error = refusal(lambda: enrolled(persons.dana, origin=origin, days=days))
    assert (error.code, error.errors[0].pointer) == ("lifetime_too_long", "/days")


def test_a_key_of_before_there_was_an_end_has_none(persons: People) -> None:
    key = enrolled(persons.dana)
    SigningKey.objects.update(expires_at=None)
    key.refresh_from_db()
    assert (key.state, key.is_usable) == ("active", True)
    assert warn_of_expiring_keys(now=timezone.now()) == 0


def test_owners_are_told_30_and_7_days_ahead_once_each(persons: People) -> None:
    key = enrolled(persons.dana, days=40)
    end = key.expires_at
    assert end is not None

    def told(days: float) -> int:
        return warn_of_expiring_keys(now=end - timedelta(days=days))

    assert [told(31), told(30), told(29), told(8)] == [0, 1, 0, 0]
    assert [told(7), told(1), told(0), told(-1)] == [1, 0, 0, 0]
    open_ones = Notice.objects.filter(ended_at=None)
    assert [(n.recipient, n.severity, n.data["days"]) for n in open_ones] == [
        (persons.dana, "warning", 7)
    ]
    revoke_key(key_id=key.keyid, reason="done", kind="replaced", actor=actor(persons.dana))
    assert not Notice.objects.filter(ended_at=None).exists()
    assert warning_due(end, end + timedelta(seconds=1)) is None


# ---- rotation


def test_a_new_key_takes_the_place_of_the_old_one_when_both_sign(persons: People) -> None:
    old, new = create_private_key(), create_private_key("ecdsa-p256")
    first = enrolled(persons.dana, old)
    envelope = sign_rotation(owner="dana", old=old, new=new).to_dict()
    # A session, and no password: the old key speaks for its owner.
    second = enrol_key(
        name="new laptop",
        public_key=public_key_of(new).pem,
        origin="browser",
        password=None,
        replaces=first.keyid,
        rotation=envelope,
        actor=actor(persons.dana),
    )
    first.refresh_from_db()
    assert (first.state, first.revocation, second.replaces) == ("revoked", "replaced", first)
    entry = AuditEntry.objects.get(action="key.rotate")
    assert (entry.after["replaces"], len(entry.after["rotation"]["signatures"])) == (first.keyid, 2)
    assert AuditEntry.objects.filter(action="key.revoke").count() == 1


def test_a_rotation_that_is_not_by_both_keys_is_none(persons: People) -> None:
    old, new, other = (create_private_key() for _ in range(3))
    first = enrolled(persons.dana, old)
    pem, ids = public_key_of(new).pem, (first.keyid, public_key_of(new).key_id)
    payload = rotation_payload(owner="dana", old=ids[0], new=ids[1])
    kind = "application/vnd.covenant.key-rotation+json"
    right = sign_rotation(owner="dana", old=old, new=new).to_dict()
    by_old, by_new = right["signatures"]
    twisted = {**right, "signatures": [by_old, {**by_new, "sig": by_old["sig"]}]}
    wrong = {
        "two_signatures_expected": sign(old, kind, payload).to_dict(),
        "payload_type_mismatch": sign(old, CONTRACT_PAYLOAD_TYPE, payload).to_dict(),
        "payload_mismatch": sign_rotation(owner="sam", old=old, new=new).to_dict(),
        "signature_invalid": twisted,
    }
    for code, envelope in wrong.items():
        error = refusal(
            lambda sent=envelope: enrol_key(  # type: ignore[misc]
                name="x", public_key=pem, origin="cli", password=None, replaces=first.keyid,
                rotation=sent, actor=actor(persons.dana),
            )
        )  # fmt: skip
        assert error.code == code
    by_other = sign_rotation(owner="dana", old=other, new=new).to_dict()
    how = {"rotation": by_other, "replaces": first.keyid}
    assert refusal(lambda: enrolled(persons.dana, new, **how)).code == "payload_mismatch"
    assert SigningKey.objects.count() == 1


def test_an_old_key_that_ended_vouches_for_none_but_its_owner_may_replace_it(
    persons: People,
) -> None:
    old, new = create_private_key(), create_private_key()
    first = enrolled(persons.dana, old)
    revoke_key(key_id=first.keyid, reason="stolen", kind="lost", actor=actor(persons.dana))
    signed = sign_rotation(owner="dana", old=old, new=new).to_dict()
    error = refusal(lambda: enrolled(persons.dana, new, replaces=first.keyid, rotation=signed))
    assert (type(error), error.code) == (Conflict, "key_not_replaceable")
    second = enrolled(persons.dana, new, replaces=first.keyid)
    assert second.replaces == first
    again = refusal(lambda: enrolled(persons.dana, replaces=first.keyid))
    assert again.code == "key_not_replaceable"
    first.refresh_from_db()
    assert first.revocation == "lost"


def test_nobody_replaces_somebody_else_s_key(persons: People) -> None:
    key = enrolled(persons.sam)
    assert isinstance(refusal(lambda: enrolled(persons.dana, replaces=key.keyid)), NotFound)
    key.refresh_from_db()
    assert key.revoked_at is None


# ---- revocation


def test_what_kind_of_end_it_was_is_kept_and_a_worse_one_may_come_out_later(
    persons: People,
) -> None:
    key = enrolled(persons.dana)
    dana, now = actor(persons.dana), timezone.now()
    for how, code in (
        ({"kind": "compromised"}, "doubted_from_missing"),
        ({"kind": "lost", "doubted_from": now}, "doubted_from_wrong"),
        ({"kind": "compromised", "doubted_from": now + timedelta(days=1)}, "doubted_from_wrong"),
        ({"kind": "bored"}, "invalid_input"),
    ):
        made = {"key_id": key.keyid, "reason": "x", "actor": dana} | how
        assert refusal(lambda made=made: revoke_key(**made)).code == code  # type: ignore[misc, arg-type]
    lost = revoke_key(key_id=key.keyid, reason="left in a train", kind="lost", actor=dana)
    since = now - timedelta(days=3)
    found = {"key_id": key.keyid, "reason": "used by a thief", "kind": "compromised"}
    stolen = revoke_key(**found, doubted_from=since, actor=dana)  # type: ignore[arg-type]
    assert (stolen.revoked_at, stolen.doubted_from) == (lost.revoked_at, since)
    later = revoke_key(**found, doubted_from=now, actor=dana)  # type: ignore[arg-type]
    assert later.doubted_from == since
    entries = AuditEntry.objects.filter(action="key.revoke").order_by("pk")
    assert [entry.after["revocation"] for entry in entries] == ["lost", "compromised"]


def test_an_admin_revokes_somebody_s_key_and_they_are_told(persons: People) -> None:
    key = enrolled(persons.dana)
    revoke_key(key_id=key.keyid, reason="left us", kind="left", actor=actor(persons.ada))
    notice = Notice.objects.get()
    assert (notice.recipient, notice.kind, notice.data["by"]) == (
        persons.dana,
        "key.revoked",
        "ada",
    )


# ---- export


def test_a_verifier_without_an_account_gets_keys_and_no_names(persons: People) -> None:
    kept = enrolled(persons.dana, create_private_key("ecdsa-p256"), name="desk\n-----BEGIN")
    lost = enrolled(persons.sam)
    revoke_key(key_id=lost.keyid, reason="x", kind="lost", actor=actor(persons.sam))
    answer = APIClient().get("/api/v1/keys/export/?format=jwks")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/jwk-set+json")
    listed = {one["kid"]: one for one in json.loads(answer.content)["keys"]}
    assert set(listed) == {kept.keyid, lost.keyid}
    assert (listed[kept.keyid]["state"], listed[kept.keyid]["alg"]) == ("active", "ES256")
    assert (listed[lost.keyid]["state"], listed[lost.keyid]["revocation"]) == ("revoked", "lost")
    assert "dana" not in answer.content.decode()
    refused = APIClient().get("/api/v1/keys/export/?person=dana")
    assert (refused.status_code, refused.json()["code"]) == (422, "sign_in_needed")
    assert APIClient().get("/api/v1/keys/export/?format=p12").json()["code"] == "unknown_format"


def test_an_exported_key_set_reads_back_and_pem_opens_elsewhere(
    persons: People, api: Callable[[User], APIClient]
) -> None:
    kept = enrolled(persons.dana, name="desk\n-----BEGIN PUBLIC KEY-----")
    enrolled(persons.sam)
    client = api(persons.vic)
    found = from_jwks(client.get("/api/v1/keys/export/?person=dana").content)
    assert [(key.public.key_id, key.owner) for key in found] == [(kept.keyid, "dana")]
    assert found[0].expires_at == kept.expires_at
    pem = client.get("/api/v1/keys/export/?format=pem&person=dana").content
    assert f"# kid: {kept.keyid}".encode() in pem
    assert pem.count(b"-----BEGIN") == 1
    load_pem_public_key(pem[pem.index(b"-----BEGIN") :])


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"keys": [1]}', '{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}', "no"],
)
def test_a_file_that_is_no_key_set_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        from_jwks(text)


def test_a_key_set_that_calls_a_key_by_another_s_name_is_refused() -> None:
    jwk = public_key_of(create_private_key()).jwk
    with pytest.raises(Invalid) as refused:
        from_jwks(json.dumps({"keys": [{**jwk, "kid": "0" * 64}]}))
    assert refused.value.code == "invalid_key_set"
    with pytest.raises(Invalid):
        from_jwks(json.dumps({"keys": [{**jwk, "expires_at": "2026-01-01"}]}))


def test_a_fingerprint_is_the_key_id_in_fours() -> None:
    assert fingerprint("0123456789abcdef") == "0123 4567 89ab cdef"
