"""Contracts: the promise in words, what it changes, who signed; proposing and signing one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.api.authentication import actor_of, user_of
from console.api.problems import remember_refusal
from console.errors import Conflict, CovenantError, Invalid, NotAllowed
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from console.selectors.paging import page_of
from models_registry.models import ContractState, Seat, ServiceContract
from models_registry.rules import contract_proposal
from models_registry.rules.contract_order import in_reading_order
from models_registry.rules.contract_validity import days_left
from models_registry.selectors.catalog import find_model
from models_registry.selectors.contract_comments import discussion_of
from models_registry.selectors.contract_drafts import draft_list
from models_registry.selectors.contracts import (
    ContractPage,
    contract_list,
    contract_page,
    find_contract,
)
from models_registry.selectors.model_events import subject_events
from models_registry.services.contract_checks import IN_FORCE_ONCE, verify_bytes, verify_in_force
from models_registry.services.contracts import (
    sign_contract,
    subject_of,
    withdraw_contract,
)
from models_registry.views.contract_words import (
    changes_in_words,
    checklist_in_words,
    seat_rows,
    terms_in_words,
)
from models_registry.views.events import timeline
from models_registry.views.refusals import REFUSED, may, tell, wants_fragment
from models_registry.views.signing import signing_context

STILL_COUNTS = (ContractState.PROPOSED, ContractState.IN_FORCE)


@require_safe
def detail(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    """One contract; the changing part alone when htmx asks."""
    context = _detail(request, name, revision)
    fragment = wants_fragment(request)
    template = (
        "models_registry/contracts/_contract.html"
        if fragment
        else "models_registry/contracts/detail.html"
    )
    return render(request, template, context)


@require_POST
def sign(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    """Take in the signature that the browser made."""
    contract = find_contract(name, revision, user=user_of(request))
    try:
        signature = sign_contract(
            contract=contract,
            envelope=request.POST.get("envelope", ""),
            actor=actor_of(request),
        )
    except (Invalid, Conflict, NotAllowed) as error:
        remember_refusal(request, error)
        context = {**_detail(request, name, revision), "sign_error": error}
        return render(
            request, "models_registry/contracts/detail.html", context, status=error.status
        )
    if signature.contract.state == ContractState.IN_FORCE:
        messages.success(request, _("Signed. All three seats have signed: it is in force."))
    else:
        messages.success(request, _("Signed. The other seats have been told."))
    return redirect("models_registry:contract-detail", name, revision)


@require_POST
def withdraw(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    """Take a proposal back."""
    try:
        withdraw_contract(
            contract=find_contract(name, revision, user=user_of(request)),
            reason=request.POST.get("reason", "").strip(),
            actor=actor_of(request),
        )
    except REFUSED as error:
        tell(request, error)
    else:
        messages.success(request, _("The proposal is withdrawn."))
    return redirect("models_registry:contract-detail", name, revision)


@require_safe
def index(request: HttpRequest, name: str) -> HttpResponse:
    """A model's drafts and contracts in every state, and the way to compare any two."""
    actor = actor_of(request)
    model = find_model(name, user=actor.user)
    state = request.GET.get("state", "")
    state = state if state in ContractState.values else ""
    page = page_of(
        contract_list(name, user=actor.user, state=state).order_by("-revision"),
        cursor=request.GET.get("cursor", ""),
    )
    revisions = contract_list(name, user=actor.user).values_list("revision", flat=True)
    context = {
        "model": model,
        "contracts": [_row(contract) for contract in page.rows],
        "drafts": draft_list(actor.user, name)[:50],
        "states": [
            {"value": value, "label": label, "is_chosen": value == state}
            for value, label in (("", _("All")), *ContractState.choices)
        ],
        "state": state,
        "revisions": list(revisions[:200]),
        "may_draft": may(actor, "contract.draft", model),
        **page.links(request.GET),
    }
    return render(request, "models_registry/contracts/list.html", context)


@require_safe
def compare(request: HttpRequest, name: str) -> HttpResponse:
    """To the page of one revision against another, as two selects name them."""
    revision = request.GET.get("revision", "")
    against = request.GET.get("against", "")
    if not all(one.isdecimal() and len(one) < 9 for one in (revision, against)):
        return redirect("models_registry:contract-list", name)
    address = reverse("models_registry:contract-detail", args=[name, int(revision)])
    return redirect(f"{address}?against={int(against)}#changes")


def _detail(request: HttpRequest, name: str, revision: int) -> dict[str, Any]:
    asked = request.GET.get("against", "")
    against = int(asked) if asked.isdecimal() and len(asked) < 9 else None
    actor = actor_of(request)
    page = contract_page(actor.user, name, revision, against=against)
    contract = page.contract
    discussion = discussion_of(contract)
    return {
        "page": page,
        "contract": contract,
        "model": contract.model,
        "topics": terms_in_words(page.terms),
        "document": contract_proposal.to_yaml(in_reading_order(contract.document)),
        "changes": changes_in_words(page.changes),
        "checklist": checklist_in_words(page.checklist),
        "breaking": page.breaking,
        "seats": seat_rows(page, actor.user.pk),
        "discussion": discussion,
        "may_comment": contract.state == ContractState.PROPOSED
        and may(actor, "contract.comment", contract.model),
        "days_left": _days_left(contract),
        "others": [
            one for one in contract_list(name, user=user_of(request))[:50] if one.pk != contract.pk
        ],
        "events": timeline(subject_events(subject_of(contract)), with_subject=False),
        "is_open": contract.state == ContractState.PROPOSED,
        "may_withdraw": contract.state == ContractState.PROPOSED
        and may(actor, "contract.withdraw", contract.model),
        "may_propose": may(actor, "contract.propose", contract.model),
        "broken": _broken(contract),
        "here": _address(name, revision, against),
        "bundle_url": reverse("api:contract-bundle", args=[name, revision]),
        **_commands(page),
        "topic": f"contract:{name}/{revision}",
        **signing_context(
            request,
            keys=page.keys,
            payload_url=reverse("api:contract-payload", args=[name, revision]),
            payload_type=CONTRACT_PAYLOAD_TYPE,
            digest=contract.digest,
        ),
    }


def _address(name: str, revision: int, against: int | None) -> str:
    address = reverse("models_registry:contract-detail", args=[name, revision])
    return f"{address}?against={against}" if against is not None else address


def _broken(contract: ServiceContract) -> CovenantError | None:
    """Why what is stored is not what was proposed or signed; None when all of it holds."""
    try:
        if contract.state in IN_FORCE_ONCE:
            verify_in_force(contract)
        else:
            verify_bytes(contract)
    except REFUSED as error:
        # A proposal that was superseded, or expired, was never in force: its signatures are few.
        return None if error.code == "signature_missing" and not contract.in_force_at else error
    return None


def _commands(page: ContractPage) -> dict[str, str]:
    """How to check and to sign without this page."""
    name, revision = page.contract.model.name, page.contract.revision
    trust = [f"--trust {row.seat}={row.signature.key.keyid}" for row in page.seats if row.signature]
    verify = [
        f"covenant contract bundle {name} {revision} -o bundle.json",
        " \\\n  ".join(["covenant verify bundle.json", *trust]),
    ]
    return {
        "verify_command": "\n".join(verify),
        "sign_command": f"covenant contract sign {name} {revision} --key ~/.covenant-key.pem"
        if page.can_sign_as
        else "",
    }


def _row(contract: ServiceContract) -> dict[str, Any]:
    """A line of the list: the contract, its seats and what is left of its time."""
    signed = {signature.seat: signature for signature in contract.signatures.all()}
    return {
        "contract": contract,
        "seats": [{"label": seat.label, "signature": signed.get(seat.value)} for seat in Seat],
        "days_left": _days_left(contract),
    }


def _days_left(contract: ServiceContract) -> int | None:
    """Days until the last one, for what is proposed or in force and has one."""
    if contract.valid_until is None or contract.state not in STILL_COUNTS:
        return None
    return days_left(contract.valid_until, timezone.now())
