"""A release's page: what is approved, who is still asked, and approving, refusing, withdrawing."""

from __future__ import annotations

import json

import pytest

from models_registry.models import Release, ReleaseApproval, ReleaseState
from tests import factories
from tests.factories import People
from tests.models_registry import signing
from tests.models_registry.browsing import Shown, Visitor

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def release(people: People) -> Release:
    return factories.make_release(state=ReleaseState.PROPOSED)


def page(release: Release) -> str:
    return f"/releases/{release.pk}/"


def approve(visitor: Visitor, release: Release, person: str) -> Shown:
    user = getattr(factories.people(), person)
    signing.enrol(user)
    envelope = signing.release_envelope(user, bytes(release.payload))
    return visitor.post(f"{page(release)}approve/", {"envelope": json.dumps(envelope)})


def test_it_shows_what_is_approved_and_who_is_asked(people: People, release: Release) -> None:
    shown = Visitor(people.sam).get(page(release))
    for words in (
        "fraud_detector v1 to production",
        "What production asks for. One person counts once.",
        "1 SRE, who neither asked for it nor uploaded it",
        "A contract in force",
        "Can approve:",
        "Sam",
        "Missing",
        release.digest,
        release.digests["onnx"][:12],
        release.digests["config"][:12],
        "The exported model is the same model, and good enough",
    ):
        assert words in shown, words
    assert "/models/fraud_detector/contracts/1/" in shown.links
    assert f"{page(release)}approve/" in shown.forms


def test_the_person_who_asked_is_told_why_they_may_not_approve(
    people: People, release: Release
) -> None:
    dana = Visitor(people.dana)
    shown = dana.get(page(release))
    assert "You asked for it, so somebody else has to approve it." in shown
    assert f"{page(release)}approve/" not in shown.forms
    refused = approve(dana, release, "dana")
    assert refused.status == 403
    assert "does not let the person who asks also approve" in refused
    assert not ReleaseApproval.objects.exists()


def test_an_approval_is_signed_and_verified(people: People, release: Release) -> None:
    sam = Visitor(people.sam)
    assert approve(sam, release, "sam").address == page(release)
    shown = sam.get(page(release))
    assert "Approved" in shown
    assert "Signatures and digests hold" in shown
    assert f"{page(release)}approve/" not in shown.forms
    assert Release.objects.get().state == ReleaseState.APPROVED


def test_an_approved_release_that_does_not_hold_any_more_says_so(people: People) -> None:
    release = factories.make_release()
    approval = ReleaseApproval.objects.get()
    approval.envelope = signing.release_envelope(people.sam, b"{}")
    approval.save()
    shown = Visitor(people.sam).get(page(release))
    assert "does not hold" in shown
    assert "Signatures and digests hold" not in shown


def test_bytes_that_are_not_the_releases_are_not_an_approval(
    people: People, release: Release
) -> None:
    signing.enrol(people.sam)
    other = signing.release_envelope(people.sam, b"{}")
    sam = Visitor(people.sam)
    refused = sam.post(f"{page(release)}approve/", {"envelope": json.dumps(other)})
    assert refused.status == 422
    assert f"{page(release)}approve/" in refused.forms


def test_a_refusal_needs_a_reason_which_is_shown(people: People, release: Release) -> None:
    sam = Visitor(people.sam)
    assert "A refusal needs a reason." in sam.post(f"{page(release)}refuse/", {"reason": " "})
    assert (
        sam.post(f"{page(release)}refuse/", {"reason": "P99 is too near the limit."}).status == 302
    )
    shown = Visitor(people.dana).get(page(release))
    assert "P99 is too near the limit." in shown
    assert "Refused" in shown


def test_a_person_whose_word_is_not_asked_cannot_refuse(people: People, release: Release) -> None:
    refused = Visitor(people.bea).post(f"{page(release)}refuse/", {"reason": "No."})
    assert refused.status == 403
    assert "that is not a role of yours" in refused
    assert Release.objects.get().state == ReleaseState.PROPOSED


def test_the_person_who_asked_takes_it_back(people: People, release: Release) -> None:
    address = f"{page(release)}withdraw/"
    assert address not in Visitor(people.vic).get(page(release)).forms
    dana = Visitor(people.dana)
    assert address in dana.get(page(release)).forms
    dana.post(address, {"reason": ""})
    assert Release.objects.get().state == ReleaseState.WITHDRAWN
    again = approve(Visitor(people.sam), release, "sam")
    assert again.status == 409
    assert "already" in again


def test_a_release_without_approvals_says_that_policy_approved_it(people: People) -> None:
    release = factories.make_release(environment=factories.make_environment("staging"))
    shown = Visitor(people.dana).get(page(release))
    assert "staging asks for no approval: the release is approved by policy." in shown
    assert "none: this environment does not ask for one" in shown


def test_the_part_that_is_fetched_anew_brings_the_state_with_it(
    people: People, release: Release
) -> None:
    text = Visitor(people.sam).get(page(release), part=True).response.content.decode()
    assert 'id="release-state" hx-swap-oob="true"' in text
    assert "<h1" not in text


def test_a_release_that_is_not_there(people: People) -> None:
    shown = Visitor(people.sam).get("/releases/00000000-0000-0000-0000-000000000000/")
    assert shown.status == 404
    assert "There is no such release." in shown
