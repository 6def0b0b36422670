"""Drafts: saved right or wrong, never over each other's, proposed once; for the model's people."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from console.errors import Conflict, Invalid, NotAllowed, NotFound, TooLarge
from console.models import AuditEntry, User
from models_registry.models import ContractDraft, RegisteredModel, ServiceContract
from models_registry.rules.contract_proposal import to_yaml
from models_registry.selectors.contract_drafts import draft_list, find_draft
from models_registry.services import contract_drafts
from models_registry.services.contract_drafts import (
    StaleDraft,
    change_draft,
    create_draft,
    discard_draft,
    propose_draft,
)
from models_registry.services.contract_starts import Start, starting_text
from tests import factories
from tests.factories import People

pytestmark = pytest.mark.django_db
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


def written(model: RegisteredModel, user: User, text: str = SOUND) -> ContractDraft:
    return create_draft(model=model, text=text, actor=factories.actor(user))


def test_a_wrong_text_is_kept_and_each_save_is_on_record(
    model: RegisteredModel, people: People
) -> None:
    draft = written(model, people.dana, "objectives: [\r\n")
    assert (draft.text, draft.edition, draft.title) == ("objectives: [\n", 1, "Revision 1")
    saved = change_draft(draft=draft, edition=1, text=SOUND, actor=factories.actor(people.sam))
    assert (saved.edition, saved.changed_by, saved.created_by) == (2, people.sam, people.dana)
    again = change_draft(draft=draft, edition=1, text=SOUND, actor=factories.actor(people.sam))
    assert again.edition == 2, "the same text again is no change"
    actions = AuditEntry.objects.order_by("sequence").values_list("action", "subject")
    assert list(actions) == [
        (action, f"fraud_detector draft {draft.pk}") for action in ("draft.create", "draft.change")
    ]


def test_who_was_slower_is_refused_with_what_the_faster_saved(
    model: RegisteredModel, people: People
) -> None:
    draft = written(model, people.dana)
    change_draft(draft=draft, edition=1, text="by: sam\n", actor=factories.actor(people.sam))
    with pytest.raises(StaleDraft) as refused:
        change_draft(draft=draft, edition=1, text="by: dana\n", actor=factories.actor(people.dana))
    assert refused.value.status == 412
    assert refused.value.current.text == "by: sam\n"
    assert "sam saved edition 2" in refused.value.message
    with pytest.raises(StaleDraft):
        propose_draft(draft=draft, edition=1, text=SOUND, actor=factories.actor(people.dana))
    assert ContractDraft.objects.get().text == "by: sam\n"


def test_proposing_twice_is_one_proposal_and_closes_the_draft(
    model: RegisteredModel, people: People
) -> None:
    dana = factories.actor(people.dana)
    draft = written(model, people.dana, "model: fraud_detector\n")
    made = propose_draft(draft=draft, edition=1, text=SOUND, note="First.", actor=dana)
    again = propose_draft(draft=draft, edition=1, text=SOUND, note="First.", actor=dana)
    assert made == again == ServiceContract.objects.get()
    assert made.note == "First."
    assert ContractDraft.objects.get().proposed_as == made
    for act in (
        lambda: change_draft(draft=draft, edition=2, text="x: 1\n", actor=dana),
        lambda: discard_draft(draft=draft, actor=dana),
    ):
        with pytest.raises(Conflict) as refused:
            act()
        assert refused.value.code == "draft_closed"


def test_a_refused_proposal_leaves_the_draft_as_it_was(
    model: RegisteredModel, people: People
) -> None:
    draft = written(model, people.dana)
    wrong = SOUND.replace("fraud_detector", "churn_model")
    with pytest.raises(Invalid) as refused:
        propose_draft(draft=draft, edition=1, text=wrong, actor=factories.actor(people.dana))
    assert refused.value.code == "other_model"
    draft.refresh_from_db()
    assert (draft.text, draft.edition, draft.proposed_as) == (SOUND, 1, None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("#" * (1024 * 1024), TooLarge),
        ("ä" * (200 * 1024), TooLarge),
        ("model: \x00", Invalid),
        ("model: \ud800", Invalid),
    ],
    ids=["one megabyte", "many bytes", "zero", "half a pair"],
)
def test_what_cannot_be_kept_is_refused(
    model: RegisteredModel, people: People, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        written(model, people.dana, text)
    assert not ContractDraft.objects.exists()


def test_open_drafts_have_a_limit(
    model: RegisteredModel, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract_drafts, "MAX_OPEN_DRAFTS", 1)
    first = written(model, people.dana)
    with pytest.raises(Conflict) as refused:
        written(model, people.dana)
    assert refused.value.code == "too_many_drafts"
    discard_draft(draft=first, actor=factories.actor(people.dana))
    written(model, people.dana)


def test_drafts_are_of_the_people_of_their_model_alone(
    model: RegisteredModel, people: People
) -> None:
    draft = written(model, people.dana)
    other = factories.make_model("churn_model", seats=False)
    stranger = factories.make_user("stranger", "data_scientist")
    for user in (people.vic, stranger):
        assert not draft_list(user, model.name).exists()
        with pytest.raises(NotFound):
            find_draft(user, model.name, draft.pk)
        with pytest.raises(NotAllowed):
            change_draft(draft=draft, edition=1, text="x: 1\n", actor=factories.actor(user))
        with pytest.raises(NotAllowed):
            propose_draft(draft=draft, edition=1, actor=factories.actor(user))
    for user in (people.sam, people.ada):
        assert find_draft(user, model.name, draft.pk) == draft
    with pytest.raises(NotFound):
        find_draft(people.dana, other.name, draft.pk)
    with pytest.raises(NotAllowed) as refused:
        discard_draft(draft=draft, actor=factories.actor(people.sam))
    assert refused.value.code == "not_your_draft"


def test_a_draft_starts_from_a_template_a_report_a_revision_or_nothing(
    model: RegisteredModel, people: People
) -> None:
    assert "model: fraud_detector" in starting_text(model, Start())
    empty = starting_text(model, Start(template="online_scoring"))
    assert "inputs: []" in empty
    version = factories.make_version(model)
    filled = starting_text(model, Start(template="online_scoring"))
    assert "name: risk_score" in filled
    assert "# What callers get while the model is down" in filled
    assert "threshold_ms: 80" in starting_text(model, Start(version=version.number))
    contract = factories.make_contract(model, revision=1)
    again = starting_text(model, Start(revision=contract.revision))
    assert "risk_score: 0.3" in again
    assert "revision:" not in again
    for start in (Start(version=9), Start(revision=9), Start(template="nothing")):
        with pytest.raises(NotFound):
            starting_text(model, start)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_propose_at_once_there_is_one_proposal(people: People) -> None:
    model = factories.make_model()
    RegisteredModel.objects.update(risk_class="low")
    draft = written(model, people.dana)
    barrier, made = threading.Barrier(2), []

    def propose() -> None:
        try:
            barrier.wait(timeout=10)
            contract = propose_draft(draft=draft, edition=1, actor=factories.actor(people.dana))
            made.append(contract.revision)
        finally:
            connection.close()

    threads = [threading.Thread(target=propose) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert made == [1, 1]
    assert ServiceContract.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_who_save_at_once_one_is_told(people: People) -> None:
    model = factories.make_model()
    draft = written(model, people.dana)
    barrier, ended = threading.Barrier(2), []

    def save(user: User) -> None:
        try:
            barrier.wait(timeout=10)
            change_draft(
                draft=draft, edition=1, text=f"by: {user.username}\n", actor=factories.actor(user)
            )
            ended.append("saved")
        except StaleDraft:
            ended.append("stale")
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=(user,)) for user in (people.dana, people.sam)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert sorted(ended) == ["saved", "stale"]
    assert ContractDraft.objects.get().edition == 2
