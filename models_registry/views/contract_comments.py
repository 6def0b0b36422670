"""What is said of a proposal: commenting, answering, resolving."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.api.authentication import actor_of, user_of
from models_registry.selectors.contracts import find_contract
from models_registry.services.contract_comments import (
    add_comment,
    reopen_comment,
    resolve_comment,
)
from models_registry.services.contract_records import url_of
from models_registry.views.refusals import REFUSED, tell


@require_POST
def add(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    """Say something of the proposal, or answer."""
    contract = find_contract(name, revision, user=user_of(request))
    answers = request.POST.get("answers", "")
    try:
        comment = add_comment(
            contract=contract,
            text=request.POST.get("text", ""),
            pointer=request.POST.get("pointer", ""),
            answers=int(answers) if answers.isdecimal() and len(answers) < 18 else None,
            actor=actor_of(request),
        )
    except REFUSED as error:
        tell(request, error)
        return redirect(f"{url_of(contract)}#comments")
    messages.success(request, _("Said. The seats and the proposer have been told."))
    return redirect(f"{url_of(contract)}#comment-{comment.pk}")


@require_POST
def resolve(request: HttpRequest, name: str, revision: int, comment_id: int) -> HttpResponse:
    """The comment is dealt with."""
    return _settle(request, name, revision, comment_id, resolve_comment)


@require_POST
def reopen(request: HttpRequest, name: str, revision: int, comment_id: int) -> HttpResponse:
    """The comment is not dealt with after all."""
    return _settle(request, name, revision, comment_id, reopen_comment)


def _settle(
    request: HttpRequest, name: str, revision: int, comment_id: int, settle: Any
) -> HttpResponse:
    contract = find_contract(name, revision, user=user_of(request))
    try:
        settle(contract=contract, comment_id=comment_id, actor=actor_of(request))
    except REFUSED as error:
        tell(request, error)
    return redirect(f"{url_of(contract)}#comment-{comment_id}")
