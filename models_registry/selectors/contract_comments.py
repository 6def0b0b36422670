"""Comments on a contract, as threads."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from models_registry.models import ContractComment, ServiceContract
from models_registry.rules.contract_places import Clause, clauses


@dataclass(frozen=True, slots=True)
class Thread:
    """A comment with its answers; `clause` is the place that it is about, None for the whole."""

    comment: ContractComment
    answers: tuple[ContractComment, ...]
    clause: Clause | None

    @property
    def is_resolved(self) -> bool:
        return self.comment.resolved_at is not None


@dataclass(frozen=True, slots=True)
class Discussion:
    """`places` are those that can be commented on, in the document's order."""

    threads: tuple[Thread, ...]
    places: tuple[Clause, ...]

    @property
    def unresolved(self) -> tuple[Thread, ...]:
        return tuple(thread for thread in self.threads if not thread.is_resolved)


def comment_list(contract: ServiceContract) -> QuerySet[ContractComment]:
    """A contract's comments and answers, oldest first, in 1 query."""
    return ContractComment.objects.filter(contract=contract).select_related("author", "resolved_by")


def discussion_of(contract: ServiceContract) -> Discussion:
    """All that is said of a contract, in 1 query: what is open first, each oldest first."""
    comments = list(comment_list(contract))
    places = clauses(contract.document)
    by_pointer = {clause.pointer: clause for clause in places}
    answers: dict[int, list[ContractComment]] = {}
    for comment in comments:
        if comment.answers_id is not None:
            answers.setdefault(comment.answers_id, []).append(comment)
    threads = [
        Thread(comment, tuple(answers.get(comment.pk, ())), by_pointer.get(comment.pointer))
        for comment in comments
        if comment.answers_id is None
    ]
    threads.sort(key=lambda thread: thread.is_resolved)
    return Discussion(tuple(threads), places)
