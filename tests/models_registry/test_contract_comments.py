"""Comments on proposals: threads of two levels, plain text, told to those whom it concerns."""

from __future__ import annotations

import pytest

from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound
from console.models import AuditEntry, Notice
from models_registry.models import ContractComment, ContractState, ServiceContract
from models_registry.selectors.contract_comments import discussion_of
from models_registry.services import contract_comments
from models_registry.services.contract_comments import (
    add_comment,
    reopen_comment,
    resolve_comment,
)
from models_registry.services.contracts import url_of
from tests import factories
from tests.factories import People
from tests.models_registry.api import Caller
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def contract(people: People) -> ServiceContract:
    return factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)


def open_notices(username: str) -> list[str]:
    notices = Notice.objects.filter(recipient__username=username, ended_at__isnull=True)
    return [notice.data["text"] for notice in notices.filter(kind="contract.comment")]


def test_a_comment_is_told_to_the_other_seats_and_gone_when_it_is_resolved(
    contract: ServiceContract, people: People
) -> None:
    sam, dana = factories.actor(people.sam), factories.actor(people.dana)
    first = add_comment(
        contract=contract, text=" Too slow. ", pointer="/objectives/0/threshold_ms", actor=sam
    )
    add_comment(contract=contract, text="It is measured.", answers=first.pk, actor=dana)
    assert open_notices("dana") == ["Too slow."]
    assert sorted(open_notices("bea")) == ["It is measured.", "Too slow."]
    assert open_notices("sam") == ["It is measured."]
    thread = discussion_of(contract).threads[0]
    assert thread.clause is not None
    assert (thread.clause.path, thread.clause.shown) == (
        "objectives › latency › threshold_ms",
        "80",
    )
    assert [answer.text for answer in thread.answers] == ["It is measured."]
    for _ in range(2):
        done = resolve_comment(contract=contract, comment_id=first.pk, actor=dana)
    assert done.resolved_by == people.dana
    assert open_notices("bea") == []
    assert not discussion_of(contract).unresolved
    reopen_comment(contract=contract, comment_id=first.pk, actor=sam)
    resolve_comment(contract=contract, comment_id=first.pk, actor=dana)
    add_comment(contract=contract, text="No.", answers=first.pk, actor=sam)
    assert discussion_of(contract).unresolved, "an answer opens it again"
    actions = AuditEntry.objects.order_by("sequence").values_list("action", flat=True)
    assert list(actions) == [
        "contract.comment",
        "contract.comment",
        "contract.resolve_comment",
        "contract.reopen_comment",
        "contract.resolve_comment",
        "contract.comment",
    ]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"text": "  \n"}, "bad_comment"),
        ({"text": "x" * 4001}, "bad_comment"),
        ({"text": "a\x00b"}, "bad_comment"),
        ({"text": "a\x1b[31m"}, "bad_comment"),
        ({"text": "x", "pointer": "/objectives/9"}, "no_such_clause"),
        ({"text": "x", "pointer": "objectives"}, "no_such_clause"),
        ({"text": "x", "answers": 0}, "not_found"),
    ],
)
def test_what_is_no_comment_is_refused(
    contract: ServiceContract, people: People, given: dict[str, object], code: str
) -> None:
    with pytest.raises(CovenantError) as refused:
        add_comment(contract=contract, actor=factories.actor(people.sam), **given)  # type: ignore[arg-type]
    assert refused.value.code == code
    assert not ContractComment.objects.exists()


def test_ids_of_another_contract_and_answers_to_answers_are_refused(
    contract: ServiceContract, people: People
) -> None:
    sam = factories.actor(people.sam)
    other = factories.make_contract(factories.make_model("churn_model"), state="proposed")
    foreign = add_comment(contract=other, text="Elsewhere.", actor=sam)
    for act in (
        lambda: add_comment(contract=contract, text="x", answers=foreign.pk, actor=sam),
        lambda: resolve_comment(contract=contract, comment_id=foreign.pk, actor=sam),
    ):
        with pytest.raises(NotFound):
            act()
    first = add_comment(contract=contract, text="x", actor=sam)
    answer = add_comment(contract=contract, text="y", answers=first.pk, actor=sam)
    with pytest.raises(Invalid) as refused:
        add_comment(contract=contract, text="z", answers=answer.pk, actor=sam)
    assert refused.value.code == "answer_of_answer"
    with pytest.raises(Invalid):
        resolve_comment(contract=contract, comment_id=answer.pk, actor=sam)


def test_comments_are_of_the_models_people_on_proposals_and_not_without_end(
    contract: ServiceContract, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = factories.make_user("stranger", "data_scientist")
    for user in (people.vic, stranger):
        with pytest.raises(NotAllowed):
            add_comment(contract=contract, text="x", actor=factories.actor(user))
    monkeypatch.setattr(contract_comments, "MAX_COMMENTS", 1)
    sam = factories.actor(people.sam)
    said = add_comment(contract=contract, text="x", actor=sam)
    with pytest.raises(Conflict) as refused:
        add_comment(contract=contract, text="y", actor=sam)
    assert refused.value.code == "too_many_comments"
    ServiceContract.objects.update(state=ContractState.WITHDRAWN)
    for act in (
        lambda: add_comment(contract=contract, text="y", actor=sam),
        lambda: resolve_comment(contract=contract, comment_id=said.pk, actor=sam),
    ):
        with pytest.raises(Conflict) as refused:
            act()
        assert refused.value.code == "contract_not_proposed"


def test_the_contracts_page_takes_comments_and_names_them_where_one_signs(
    contract: ServiceContract, people: People
) -> None:
    sam, bea, vic = Visitor(people.sam), Visitor(people.bea), Visitor(people.vic)
    address = f"{url_of(contract)}comments/"
    made = sam.post(address, {"text": "<b>Why</b> 80?", "pointer": "/objectives/0/threshold_ms"})
    comment = ContractComment.objects.get()
    assert made.address == f"{url_of(contract)}#comment-{comment.pk}"
    shown = bea.get(url_of(contract))
    assert "<b>Why</b> 80?" in shown, "text, never markup"
    assert "1 comment is not resolved. You can sign all the same." in shown
    assert "objectives › latency › threshold_ms" in shown
    bea.post(address, {"text": "Checkout.", "answers": str(comment.pk)})
    bea.post(f"{address}{comment.pk}/resolve/")
    part = sam.get(url_of(contract), part=True)
    assert "Checkout." in part
    assert "resolved by" in part
    assert "is not resolved" not in part
    assert address not in vic.get(url_of(contract)).forms
    assert vic.post(address, {"text": "x"}).status == 403
    bea.post(f"{address}{comment.pk}/reopen/")
    comment.refresh_from_db()
    assert comment.resolved_at is None
    assert ContractComment.objects.count() == 2


def test_comments_over_the_api(contract: ServiceContract, people: People) -> None:
    sam, vic = Caller(people.sam), Caller(people.vic)
    base = "/models/fraud_detector/contracts/1/comments/"
    made = sam.post(base, {"text": "Too slow.", "pointer": "/load"})
    assert (made.status_code, made.json()["code"]) == (422, "no_such_clause")
    made = sam.post(base, {"text": "Too slow.", "pointer": "/objectives/0"})
    assert made.status_code == 201, made.content
    comment = made.json()["id"]
    answer = sam.post(base, {"text": "Is it?", "answers": comment}).json()
    assert (answer["answers"], answer["pointer"]) == (comment, "/objectives/0")
    assert sam.post(f"{base}{comment}/resolve/").json()["resolved_by"] == "sam"
    assert sam.post(f"{base}{comment}/reopen/").json()["resolved_at"] is None
    listed = vic.get(base).json()["results"]
    assert [one["text"] for one in listed] == ["Too slow.", "Is it?"]
    assert vic.post(base, {"text": "x"}).status_code == 403
    assert sam.post(f"{base}{2**62}/resolve/").status_code == 404
    assert sam.get("/models/fraud_detector/contracts/9/comments/").status_code == 404
