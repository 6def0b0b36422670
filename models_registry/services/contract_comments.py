"""Comments on a proposed contract: on the whole or on one place, answered, resolved, reopened."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import User
from console.rules.canonical import text_fault
from console.services import notices
from models_registry.models import (
    ContractComment,
    ContractState,
    SeatHolder,
    ServiceContract,
)
from models_registry.rules.contract_places import clauses
from models_registry.services.catalog import require_part_in
from models_registry.services.contract_records import record, subject_of, url_of

MAX_TEXT = 4000
MAX_COMMENTS = 200
_SHOWN = 140


def add_comment(
    *,
    contract: ServiceContract,
    text: str,
    pointer: str = "",
    answers: int | None = None,
    actor: Actor,
) -> ContractComment:
    """Say something of a proposal; `answers` is the id of the comment that it replies to.

    An answer is about what its comment is about, and opens it again when it was resolved. The
    seats, the proposer and who took part are told. Raises Conflict `contract_not_proposed`,
    `too_many_comments`, NotFound for a comment that is not of this contract, Invalid for a text or
    a place that does not do and for an answer to an answer.
    """
    require(actor, "contract.comment", contract.model.team_id)
    require_part_in(contract.model, actor)
    text = _checked_text(text)
    with transaction.atomic():
        contract = _locked(contract)
        _check_open(contract)
        if contract.comments.count() >= MAX_COMMENTS:
            raise Conflict(
                f"{contract} has {MAX_COMMENTS} comments; more would not be read.",
                code="too_many_comments",
                hint="Talk, then withdraw the proposal and propose what came of it.",
            )
        parent = _parent(contract, answers) if answers is not None else None
        if parent is None:
            _check_place(contract, pointer)
        elif parent.resolved_at is not None:
            _set_resolved(parent, None)
        comment = ContractComment.objects.create(
            contract=contract,
            author=actor.user,
            pointer=parent.pointer if parent else pointer,
            text=text,
            answers=parent,
        )
        record(
            contract,
            "contract.comment",
            actor,
            after={
                "comment": comment.pk,
                "place": comment.pointer,
                "answers": parent.pk if parent else None,
                "text": text[:_SHOWN],
            },
        )
        _tell(comment, actor)
        _publish(contract)
    return comment


def resolve_comment(*, contract: ServiceContract, comment_id: int, actor: Actor) -> ContractComment:
    """A comment is dealt with; its notices go. Doing it twice changes nothing."""
    return _resolve(contract, comment_id, resolved=True, actor=actor)


def reopen_comment(*, contract: ServiceContract, comment_id: int, actor: Actor) -> ContractComment:
    """A comment is not dealt with after all. Doing it twice changes nothing."""
    return _resolve(contract, comment_id, resolved=False, actor=actor)


def _resolve(
    contract: ServiceContract, comment_id: int, *, resolved: bool, actor: Actor
) -> ContractComment:
    require(actor, "contract.comment", contract.model.team_id)
    require_part_in(contract.model, actor)
    with transaction.atomic():
        contract = _locked(contract)
        comment = _of_contract(contract, comment_id)
        if comment.answers_id is not None:
            raise Invalid(
                "An answer is resolved with the comment that it answers.",
                code="answer_of_answer",
                hint=f"Resolve comment {comment.answers_id}.",
            )
        if (comment.resolved_at is not None) is resolved:
            return comment
        _check_open(contract)
        _set_resolved(comment, actor.user if resolved else None)
        action = "contract.resolve_comment" if resolved else "contract.reopen_comment"
        record(contract, action, actor, after={"comment": comment.pk, "place": comment.pointer})
        if resolved:
            thread = contract.comments.filter(answers=comment).values_list("pk", flat=True)
            for pk in (comment.pk, *thread):
                notices.end(key=_key(pk))
        _publish(contract)
    return comment


def _set_resolved(comment: ContractComment, by: User | None) -> None:
    comment.resolved_by = by
    comment.resolved_at = timezone.now() if by is not None else None
    comment.save(update_fields=["resolved_by", "resolved_at"])


def _locked(contract: ServiceContract) -> ServiceContract:
    return (
        ServiceContract.objects.select_for_update(of=("self",))
        .select_related("model", "proposed_by")
        .get(pk=contract.pk)
    )


def _check_open(contract: ServiceContract) -> None:
    if contract.state != ContractState.PROPOSED:
        raise Conflict(
            f"{contract} is {contract.get_state_display()}: only a proposal is commented on.",
            code="contract_not_proposed",
            hint="Start a draft of the next revision, or propose it and comment there.",
        )


def _of_contract(contract: ServiceContract, comment_id: int) -> ContractComment:
    comment = contract.comments.select_related("author").filter(pk=comment_id).first()
    if comment is None:
        raise NotFound(f"{contract} has no comment {comment_id}.")
    return comment


def _parent(contract: ServiceContract, comment_id: int) -> ContractComment:
    parent = _of_contract(contract, comment_id)
    if parent.answers_id is not None:
        raise Invalid(
            "An answer cannot be answered.",
            code="answer_of_answer",
            hint=f"Answer comment {parent.answers_id}, which it belongs to.",
            errors=(FieldError("/answers", "is an answer itself"),),
        )
    return parent


def _check_place(contract: ServiceContract, pointer: str) -> None:
    if pointer and pointer not in {clause.pointer for clause in clauses(contract.document)}:
        raise Invalid(
            f"{contract} has no clause at {pointer[:200]}.",
            code="no_such_clause",
            hint="Leave the place empty to comment on the whole.",
            errors=(FieldError("/pointer", "is no place of the document"),),
        )


def _checked_text(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    detail = ""
    if not text:
        detail = "is empty"
    elif len(text) > MAX_TEXT:
        detail = f"is longer than {MAX_TEXT} characters"
    elif any(ord(one) < 32 and one not in "\n\t" for one in text) or text_fault(text):
        detail = "holds characters that cannot be shown"
    if detail:
        raise Invalid(
            f"The comment {detail}.",
            code="bad_comment",
            hint=f"Write plain text of at most {MAX_TEXT} characters.",
            errors=(FieldError("/text", detail),),
        )
    return text


def _tell(comment: ContractComment, actor: Actor) -> None:
    """The seats, the proposer and the others of the thread; never the author."""
    contract = comment.contract
    holders = SeatHolder.objects.filter(model=contract.model).select_related("user")
    people = [*(holder.user for holder in holders), contract.proposed_by]
    if comment.answers is not None:
        people.append(comment.answers.author)
    notices.notify(
        people=[person for person in people if person.pk != actor.user.pk],
        kind="contract.comment",
        key=_key(comment.pk),
        subject=subject_of(contract),
        subject_url=f"{url_of(contract)}#comment-{comment.pk}",
        data={
            "model": contract.model.name,
            "revision": contract.revision,
            "author": actor.user.username,
            "answer": comment.answers_id is not None,
            "text": comment.text[:_SHOWN],
        },
    )


def _key(comment_id: int) -> str:
    return f"contract.comment:{comment_id}"


def _publish(contract: ServiceContract) -> None:
    data = {"model": contract.model.name, "revision": contract.revision}
    topic = f"contract:{contract.model.name}/{contract.revision}"
    live.publish(topic, "contract.commented", data)
