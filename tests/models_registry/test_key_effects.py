"""What becomes of contracts and releases when a key that signed them ends."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from console.errors import Conflict, Invalid
from console.models import AuditEntry, Notice, SigningKey, User
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from console.rules.signing_keys import create_private_key, public_key_of
from console.services.keys import effects_of, enrol_key, revoke_key
from models_registry.models import (
    ContractSignature,
    ContractState,
    ReleaseApproval,
    ReleaseState,
    ServiceContract,
)
from models_registry.rules.bundles import verify_bundle
from models_registry.selectors.contracts import contract_page
from models_registry.services.contracts import contract_bundle, sign_contract, verify_in_force
from models_registry.services.releases import approve_release, verify_release
from models_registry.services.signatures import take_in, verify_stored
from tests import factories
from tests.factories import People, actor
from tests.models_registry import signing
from tests.passkey_device import Device

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def contract(people: People) -> ServiceContract:
    made = factories.make_contract(factories.make_model())
    ContractSignature.objects.update(signed_at=timezone.now() - timedelta(days=10))
    return made


def key_of(user: User) -> SigningKey:
    return SigningKey.objects.get(user=user)


def compromise(user: User, since: datetime) -> SigningKey:
    return revoke_key(
        key_id=key_of(user).keyid,
        reason="somebody had the laptop",
        kind="compromised",
        doubted_from=since,
        actor=actor(user),
    )


# ---- what signs nothing new


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, "key_expired"),
        ({"revoked_at": timezone.now()}, "key_revoked"),
        ({"user": "sam"}, "key_not_yours"),
    ],
)
def test_a_key_that_ended_or_is_another_s_signs_nothing(
    people: People, what: dict[str, Any], code: str
) -> None:
    key = signing.enrol(people.dana)
    given = {name: people.sam if value == "sam" else value for name, value in what.items()}
    SigningKey.objects.filter(pk=key.pk).update(**given)
    envelope = signing.contract_envelope(people.dana, b"{}")
    with pytest.raises(Invalid) as refused:
        take_in(
            envelope,
            payload_type=CONTRACT_PAYLOAD_TYPE,
            payload=b"{}",
            actor=actor(people.dana),
        )
    assert refused.value.code == code
    assert "My keys" in refused.value.hint or "enrolled for you" in refused.value.hint


def test_a_passkey_signs_here_alone_and_its_counter_goes_forward(
    people: People, settings: Any
) -> None:
    fields = {name: getattr(settings.CONFIG, name) for name in settings.CONFIG.__dataclass_fields__}
    settings.CONFIG = settings.CONFIG.__class__(**{**fields, "base_url": "http://localhost:8000"})
    device = Device(count=5)
    key = SigningKey.objects.create(
        user=people.dana, name="ring", keyid=device.public.key_id, algorithm="ecdsa-p256",
        origin="passkey", public_key_pem=device.public.pem, rp_id="localhost", credential_id="a",
        sign_count=4,
    )  # fmt: skip

    def take(**how: Any) -> None:
        envelope = device.sign(CONTRACT_PAYLOAD_TYPE, b"{}", **how).to_dict()
        take_in(
            envelope, payload_type=CONTRACT_PAYLOAD_TYPE, payload=b"{}", actor=actor(people.dana)
        )

    take()
    key.refresh_from_db()
    assert key.sign_count == 5
    for how, code in (
        ({}, "passkey_counter"),
        ({"origin": "http://localhost:1"}, "passkey_other_origin"),
        ({"flags": 1}, "passkey_not_verified"),
    ):
        with pytest.raises(Invalid) as refused:
            take(**how)
        assert refused.value.code == code
    # A plain key is no passkey for having its row changed, nor the other way round.
    SigningKey.objects.update(rp_id="")
    with pytest.raises(Invalid) as refused:
        take()
    assert refused.value.code == "signature_invalid"


# ---- what it signed before


def test_what_an_expired_or_lost_key_signed_stays_valid(contract: ServiceContract) -> None:
    dana, sam = factories.people().dana, factories.people().sam
    SigningKey.objects.filter(user=dana).update(expires_at=timezone.now() - timedelta(days=1))
    revoke_key(key_id=key_of(sam).keyid, reason="gone", kind="lost", actor=actor(sam))
    (note,) = verify_in_force(contract)
    assert note.endswith("was revoked after it signed (lost).")
    (effect,) = effects_of(key_of(sam))
    assert (effect.kind, effect.outcome) == ("contract", "stays_valid")
    assert not Notice.objects.exists()
    report = verify_bundle(contract_bundle(contract))
    assert report.ok
    assert "key_revoked_later" in [finding.code for finding in report.findings]


@pytest.mark.parametrize(
    ("change", "code"),
    [("expires_at", "signed_after_expiry"), ("revoked_at", "signed_after_revocation")],
)
def test_a_stored_signature_of_after_the_end_was_made_up(
    contract: ServiceContract, change: str, code: str
) -> None:
    signature = contract.signatures.select_related("key").first()
    assert signature is not None
    SigningKey.objects.filter(pk=signature.key_id).update(
        **{change: signature.signed_at - timedelta(days=1)}
    )
    with pytest.raises(Invalid) as refused:
        verify_in_force(contract)
    assert refused.value.code == ("key_expired" if change == "expires_at" else "key_revoked")
    assert code in [fault.code for fault in verify_bundle(contract_bundle(contract)).faults]


def test_what_a_compromised_key_signed_since_no_longer_counts(
    contract: ServiceContract, people: People
) -> None:
    signed_at = contract.signatures.get(signer=people.dana).signed_at
    after = effects_of(key_of(people.dana), signed_at + timedelta(seconds=1))
    assert [effect.outcome for effect in after] == ["stays_valid"]
    before = effects_of(key_of(people.dana), signed_at)
    assert [effect.outcome for effect in before] == ["no_longer_counts"]
    compromise(people.dana, signed_at)
    with pytest.raises(Invalid) as refused:
        verify_in_force(contract)
    assert refused.value.code == "key_doubted"
    told = set(Notice.objects.filter(ended_at=None).values_list("recipient__username", flat=True))
    assert {"dana", "sam", "bea"} <= told
    assert {notice.severity for notice in Notice.objects.all()} == {"critical"}
    (fault,) = verify_bundle(contract_bundle(contract)).faults
    assert fault.code == "key_doubted"
    # Who heard of it by the exported keys finds it in an older bundle as well: see test_bundles.
    contract.refresh_from_db()
    assert contract.state == ContractState.IN_FORCE


def test_a_key_compromised_later_than_it_signed_leaves_its_signatures(
    contract: ServiceContract, people: People
) -> None:
    compromise(people.dana, timezone.now() - timedelta(days=1))
    (note,) = verify_in_force(contract)
    assert "compromised" in note
    assert not Notice.objects.exists()


def test_the_seat_signs_again_and_the_contract_holds_again(
    contract: ServiceContract, people: People
) -> None:
    old = contract.signatures.get(signer=people.dana)
    compromise(people.dana, old.signed_at)
    assert contract_page(people.dana, "fraud_detector", 1).can_sign_as == "data_scientist"
    assert contract_page(people.sam, "fraud_detector", 1).can_sign_as == ""
    # Not by the compromised key, nor by somebody of another seat.
    with pytest.raises(Invalid) as refused:
        sign_contract(
            contract=contract,
            envelope=signing.contract_envelope(people.dana, bytes(contract.payload), p256=True),
            actor=actor(people.dana),
        )
    assert refused.value.code == "key_unknown"
    signing.enrol(people.sam, device="other")
    with pytest.raises(Conflict):
        sign_contract(
            contract=contract,
            envelope=signing.contract_envelope(people.sam, contract.payload, device="other"),
            actor=actor(people.sam),
        )
    signing.enrol(people.dana, device="new laptop")
    sign_contract(
        contract=contract,
        envelope=signing.contract_envelope(people.dana, contract.payload, device="new laptop"),
        actor=actor(people.dana),
    )
    assert verify_in_force(contract) == ()
    assert contract_page(people.dana, "fraud_detector", 1).can_sign_as == ""
    assert not Notice.objects.filter(ended_at=None).exists()
    entry = AuditEntry.objects.get(action="contract.sign_again")
    assert (entry.before["key"], entry.before["envelope"]) == (old.key.keyid, old.envelope)


def test_a_compromised_approval_stops_new_deploys_and_not_what_serves(people: People) -> None:
    release = factories.make_release()
    ReleaseApproval.objects.update(at=F("at") - timedelta(hours=1))
    ContractSignature.objects.update(signed_at=F("signed_at") - timedelta(days=10))
    approval = ReleaseApproval.objects.select_related("person").get()
    kinds = [effect.kind for effect in effects_of(SigningKey.objects.get(pk=approval.key_id))]
    assert "release" in kinds
    key = SigningKey.objects.get(pk=approval.key_id)
    revoke_key(
        key_id=key.keyid, reason="x", kind="compromised", doubted_from=approval.at,
        actor=actor(approval.person),
    )  # fmt: skip
    with pytest.raises(Conflict):
        verify_release(release, read_files=False)
    notes = verify_release(release, read_files=False, restoring=True).notes
    assert any("no longer counts" in note for note in notes)
    assert Notice.objects.filter(kind="signature.doubted", ended_at=None).exists()
    signing.enrol(approval.person, device="new")
    approve_release(
        release=release,
        envelope=signing.release_envelope(approval.person, bytes(release.payload), device="new"),
        actor=actor(approval.person),
    )
    release.refresh_from_db()
    assert release.state == ReleaseState.APPROVED
    open_ones = Notice.objects.filter(ended_at=None, subject_url__startswith="/releases/")
    assert not open_ones.exists()


def test_a_replaced_key_keeps_what_it_signed(contract: ServiceContract, people: People) -> None:
    old = key_of(people.dana)
    enrol_key(
        name="new", public_key=public_key_of(create_private_key()).pem, origin="cli",
        password=None, replaces=old.keyid, actor=actor(people.dana, scopes={"sign"}),
    )  # fmt: skip
    (note,) = verify_in_force(contract)
    assert note.endswith("(replaced).")


def test_a_doubted_signature_is_a_note_where_what_serves_is_put_back(
    contract: ServiceContract, people: People
) -> None:
    signature = contract.signatures.select_related("key").get(signer=people.dana)
    compromise(people.dana, signature.signed_at)
    said = verify_stored(
        signature.envelope,
        key=SigningKey.objects.get(pk=signature.key_id),
        signer_id=people.dana.pk,
        signed_at=signature.signed_at,
        payload_type=CONTRACT_PAYLOAD_TYPE,
        payload=bytes(contract.payload),
        restoring=True,
    )
    assert "no longer counts" in said
