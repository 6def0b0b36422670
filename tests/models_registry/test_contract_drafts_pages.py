"""Writing a contract on pages: starting, the form and its YAML, saving, proposing, the list."""

from __future__ import annotations

from datetime import timedelta
from html import unescape

import pytest
from django.utils import timezone

from models_registry.models import ContractDraft, ContractState, RegisteredModel, ServiceContract
from models_registry.rules.contract_proposal import to_yaml
from models_registry.services.contract_drafts import create_draft, url_of
from models_registry.services.contracts import withdraw_contract
from tests import factories
from tests.factories import People
from tests.models_registry.browsing import Shown, Visitor

pytestmark = pytest.mark.django_db
NEW = "/models/fraud_detector/contracts/new/"
LIST = "/models/fraud_detector/contracts/"
SOUND = to_yaml(factories.contract_body())


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def model(people: People) -> RegisteredModel:
    model = factories.make_model()
    RegisteredModel.objects.filter(pk=model.pk).update(risk_class="low")
    model.refresh_from_db()
    return model


@pytest.fixture
def draft(model: RegisteredModel, people: People) -> ContractDraft:
    return create_draft(model=model, text=SOUND, actor=factories.actor(people.dana))


def text_of(shown: Shown) -> str:
    """The YAML in the page's text area; fails where there is none."""
    page = shown.response.content.decode()
    return unescape(
        page.split('<textarea class="editor', 1)[1].split(">\n", 1)[1].split("</text")[0]
    )


def sent(draft: ContractDraft, **values: str) -> dict[str, str]:
    given = {"document": draft.text, "edition": str(draft.edition), "title": draft.title}
    return {**given, "act": "save", **values}


def test_a_contract_is_started_from_what_the_page_offers(
    model: RegisteredModel, people: People
) -> None:
    dana = Visitor(people.dana)
    before = dana.get(NEW)
    assert "No version of this model has been validated yet" in before
    factories.make_version(model)
    factories.make_contract(model)
    offered = dana.get(NEW)
    for words in ("Version 1", "Revision 1", "Batch scoring", "fits the risk class", "A blank"):
        assert words in offered, words
    made = dana.post(NEW, {"start": "template:online_scoring", "version": "1", "title": "Next"})
    draft = ContractDraft.objects.get()
    assert made.address == url_of(draft)
    assert (draft.title, "name: risk_score" in draft.text) == ("Next", True)
    for start, words in (("revision:1", "risk_score: 0.3"), ("version", "drift"), ("", "[]")):
        address = dana.post(NEW, {"start": start, "version": "1"}).address
        assert words in text_of(dana.get(address)), start
    assert dana.post(NEW, {"start": "template:nothing"}).status == 404


def test_the_editor_tells_meaning_change_and_faults(
    model: RegisteredModel, draft: ContractDraft, people: People
) -> None:
    factories.make_contract(model)
    dana = Visitor(people.dana)
    shown = dana.get(url_of(draft))
    assert "The document is sound and can be proposed." in shown
    assert "Nothing that matters: both promise the same." in shown
    assert text_of(shown) == SOUND
    wrong = SOUND.replace("threshold_ms: 80", "threshold_ms: -1").replace("fallback:", "fallbak:")
    part = dana.post(
        f"{url_of(draft)}check/", {"document": wrong, "changed": "yaml", "edition": "1"}, part=True
    )
    assert "places to mend" in part
    assert "/objectives/0/threshold_ms" in part
    assert "did you mean fallback?" in part
    assert 'id="editor-fields"' in part.response.content.decode()
    saved = dana.post(url_of(draft), sent(draft, document=wrong))
    assert saved.address == url_of(draft)
    draft.refresh_from_db()
    assert draft.text == wrong, "wrong, but kept"
    broken = dana.post(url_of(draft), sent(draft, document="a: [", edition="2"))
    assert broken.status == 302
    assert "The YAML cannot be read." in dana.get(url_of(draft))


def test_the_form_is_written_into_the_yaml_as_one_types(
    draft: ContractDraft, people: People
) -> None:
    dana = Visitor(people.dana)
    shape = dana.get(url_of(draft)).response.content.decode().split('name="shape" value="')[1][:16]
    form = {"changed": "form", "edition": "1", "shape": shape, "document": f"# mine\n{SOUND}"}
    form["field:/objectives/0/threshold_ms"] = "120"
    part = dana.post(f"{url_of(draft)}check/", form, part=True)
    assert text_of(part).startswith("# mine\n")
    assert "threshold_ms: 120" in text_of(part)
    assert 'id="editor-fields"' not in part.response.content.decode(), "what one types in stays"
    assert "within 120 ms" in part
    added = dana.post(f"{url_of(draft)}check/", {**form, "act": "add:/errors"}, part=True)
    assert "field:/errors/2/status" in added.response.content.decode()
    # Saved before the answer came: the form's change counts all the same.
    dana.post(url_of(draft), sent(draft, changed="form", **{"field:/load/qps": "700"}))
    draft.refresh_from_db()
    assert "qps: 700" in draft.text
    # Nothing of a text that cannot be read is written over.
    refused = dana.post(
        f"{url_of(draft)}check/", {**form, "document": "model: [", "changed": "form"}, part=True
    )
    assert text_of(refused) == "model: ["


def test_of_two_who_write_at_once_the_slower_sees_both_texts(
    draft: ContractDraft, people: People
) -> None:
    dana, sam = Visitor(people.dana), Visitor(people.sam)
    sam.post(url_of(draft), sent(draft, document=SOUND.replace("99.9", "99.5")))
    checked = dana.post(
        f"{url_of(draft)}check/", sent(draft, changed="yaml", document=SOUND), part=True
    )
    assert "sam" in checked.text.lower()
    assert "has saved edition 2 since" in checked
    mine = SOUND.replace("99.9", "99.95")
    refused = dana.post(url_of(draft), sent(draft, document=mine))
    assert refused.status == 412
    assert text_of(refused) == mine
    page = refused.response.content.decode()
    assert 'class="both-theirs"' in page
    assert 'class="both-mine"' in page
    assert 'name="edition" value="2"' in page
    dana.post(url_of(draft), sent(draft, document=mine, edition="2"))
    draft.refresh_from_db()
    assert (draft.edition, "99.95" in draft.text) == (3, True)


def test_a_draft_is_proposed_once_and_says_what_breaks(
    model: RegisteredModel, draft: ContractDraft, people: People
) -> None:
    factories.make_contract(model)
    dana = Visitor(people.dana)
    body = factories.contract_body()
    body["interface"]["inputs"][0]["dtype"] = "FP64"
    text = to_yaml(body)
    refused = dana.post(url_of(draft), sent(draft, document=text, act="propose"))
    assert refused.status == 409
    assert "breaks callers" in refused
    assert "acknowledge_breaking" in refused.response.content.decode()
    accepted = {"act": "propose", "document": text, "acknowledge_breaking": "on", "note": "Agreed"}
    first = dana.post(url_of(draft), sent(draft, **accepted))
    second = dana.post(url_of(draft), sent(draft, **accepted))
    assert first.address == second.address == f"{LIST}2/"
    contract = ServiceContract.objects.get(revision=2)
    assert contract.note == "Agreed"
    assert "was proposed as revision 2" in dana.get(url_of(draft))


def test_one_megabyte_is_refused_in_words_and_not_lost(
    draft: ContractDraft, people: People
) -> None:
    dana = Visitor(people.dana)
    refused = dana.post(url_of(draft), sent(draft, document="# " + "x" * 1024**2))
    assert refused.status == 413
    assert "larger than 256 KiB" in refused
    assert len(text_of(refused)) > 1024**2
    part = dana.post(
        f"{url_of(draft)}check/", {"document": "x: 1\n" * 200_000, "changed": "form"}, part=True
    )
    assert part.status == 200
    assert "is larger than 262144 bytes" in part


def test_drafts_of_others_do_not_exist(draft: ContractDraft, people: People) -> None:
    factories.make_model("churn_model", seats=False)
    elsewhere = url_of(draft).replace("fraud_detector", "churn_model")
    stranger = factories.make_user("stranger", "data_scientist")
    here = url_of(draft)
    for user, address in ((people.dana, elsewhere), (people.vic, here), (stranger, here)):
        visitor = Visitor(user)
        assert visitor.get(address).status == 404
        refused = 403 if user == people.vic else 404
        for act in ("", "check/", "discard/"):
            given = sent(draft, document="x: 1\n")
            assert visitor.post(f"{address}{act}", given).status == refused
    assert Visitor(people.vic).get(NEW).status == 403
    draft.refresh_from_db()
    assert (draft.edition, draft.discarded_at) == (1, None)
    assert draft.title not in Visitor(people.vic).get("/models/fraud_detector/")
    assert draft.title in Visitor(people.sam).get("/models/fraud_detector/")


def test_a_draft_is_discarded_and_can_still_be_read(draft: ContractDraft, people: People) -> None:
    dana = Visitor(people.dana)
    assert dana.post(f"{url_of(draft)}discard/", {"reason": ""}).address == LIST
    assert draft.title not in dana.get(LIST)
    shown = dana.get(url_of(draft))
    assert "This draft was discarded." in shown
    assert dana.post(url_of(draft), sent(draft, document="x: 1\n")).status == 409


def test_the_list_shows_each_state_the_time_left_and_the_way_between_two(
    model: RegisteredModel, draft: ContractDraft, people: People
) -> None:
    today = timezone.now().date()
    for number in range(2):
        factories.make_contract(model, load={"qps": 100 + number})
    factories.make_contract(model, state=ContractState.EXPIRED, signed_by=("sre",))
    last = factories.make_contract(
        model, state=ContractState.PROPOSED, signed_by=("sre",), load={"qps": 500}
    )
    ServiceContract.objects.filter(revision=2).update(valid_until=today + timedelta(days=9))
    withdrawn = factories.make_contract(model, state=ContractState.PROPOSED, load={"qps": 7})
    withdraw_contract(contract=withdrawn, actor=factories.actor(people.dana))
    bea = Visitor(people.bea)
    shown = bea.get(LIST)
    for words in ("Superseded", "In force", "Expired", "Awaiting", "Withdrawn", "9 days left"):
        assert words in shown, words
    assert "1 of 3" in shown
    assert draft.title in shown
    assert "Revision 2" not in bea.get(f"{LIST}?state=proposed").text.split("Compare")[0]
    moved = bea.get(f"{LIST}compare/?revision={last.revision}&against=2")
    assert moved.address == f"{LIST}{last.revision}/?against=2#changes"
    assert "500" in bea.get(f"{LIST}{last.revision}/?against=2")
    assert bea.get(f"{LIST}compare/?revision=x&against=2").address == LIST
    assert "9 days left" in bea.get(f"{LIST}2/")
