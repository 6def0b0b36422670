"""Contracts: the promise in words, what it changes, who signed; proposing and signing one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import require
from console.api.authentication import actor_of, user_of
from console.errors import Conflict, CovenantError, Invalid, NotAllowed
from console.forms import KeyForm
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from models_registry.forms import ContractForm
from models_registry.models import (
    ContractState,
    ModelVersion,
    RegisteredModel,
    ServiceContract,
    VersionState,
)
from models_registry.rules import contract_document, contract_proposal
from models_registry.rules.contract_diff import diff
from models_registry.rules.contract_order import in_reading_order
from models_registry.rules.contract_terms import terms
from models_registry.rules.contract_types import ContractDocument
from models_registry.selectors.catalog import find_model
from models_registry.selectors.contracts import (
    ContractPage,
    contract_list,
    contract_page,
    find_contract,
)
from models_registry.selectors.model_events import subject_events
from models_registry.selectors.versions import find_version, version_list
from models_registry.services.contract_checks import verify_bytes, verify_in_force
from models_registry.services.contracts import (
    contract_in_force,
    propose_contract,
    propose_document,
    sign_contract,
    subject_of,
    withdraw_contract,
)
from models_registry.views.contract_words import changes_in_words, seat_rows, terms_in_words
from models_registry.views.events import timeline
from models_registry.views.refusals import REFUSED, may, tell, wants_fragment
from models_registry.views.signing import signing_context


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


@require_http_methods(["GET", "POST"])
def propose(request: HttpRequest, name: str) -> HttpResponse:
    """The editor with a document to start from, and the proposal that it makes."""
    model, actor = find_model(name, user=user_of(request)), actor_of(request)
    require(actor, "contract.propose", model.team_id)
    status, version = 200, None
    fault: CovenantError | None = None
    if request.method == "POST":
        form = ContractForm(request.POST)
        status = 422
        if form.is_valid():
            try:
                contract = propose_contract(
                    model=model,
                    document=form.cleaned_data["document"],
                    note=form.cleaned_data["note"],
                    actor=actor,
                )
            except REFUSED as error:
                fault, status = error, error.status
            else:
                messages.success(request, _("Proposed. The three seats can sign it now."))
                return redirect("models_registry:contract-detail", name, contract.revision)
        text = request.POST.get("document", "")
    else:
        version = _version_to_start_from(request, model)
        text, fault = _document_to_start_from(request, model, version)
        form = ContractForm(initial={"document": text})
    context = {
        "model": model,
        "form": form,
        "fault": fault,
        "version": version,
        **({} if fault else _preview(model, text)),
    }
    return render(request, "models_registry/contracts/propose.html", context, status=status)


@require_POST
def preview(request: HttpRequest, name: str) -> HttpResponse:
    """What the document means and changes, or every fault of it; a fragment."""
    context = _preview(find_model(name, user=user_of(request)), request.POST.get("document", ""))
    return render(request, "models_registry/contracts/_preview.html", context)


def _detail(request: HttpRequest, name: str, revision: int) -> dict[str, Any]:
    asked = request.GET.get("against", "")
    against = int(asked) if asked.isdecimal() and len(asked) < 9 else None
    actor = actor_of(request)
    page = contract_page(actor.user, name, revision, against=against)
    contract = page.contract
    return {
        "page": page,
        "contract": contract,
        "model": contract.model,
        "topics": terms_in_words(page.terms),
        "document": contract_proposal.to_yaml(in_reading_order(contract.document)),
        "changes": changes_in_words(page.changes),
        "seats": seat_rows(page, actor.user.pk),
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
        "key_form": KeyForm(),
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
        if contract.state in (ContractState.IN_FORCE, ContractState.SUPERSEDED):
            verify_in_force(contract)
        else:
            verify_bytes(contract)
    except REFUSED as error:
        # A proposal that was superseded was never in force: it has no three signatures.
        return None if error.code == "signature_missing" and not contract.in_force_at else error
    return None


def _commands(page: ContractPage) -> dict[str, str]:
    """How to check and to sign without this page."""
    name, revision = page.contract.model.name, page.contract.revision
    trust = [f"--trust {row.seat}={row.signature.key.keyid}" for row in page.seats if row.signature]
    verify = [
        f"covenant contract bundle {name} {revision} -o bundle.json",
        " \\\n  ".join(["covenant contract verify bundle.json", *trust]),
    ]
    return {
        "verify_command": "\n".join(verify),
        "sign_command": f"covenant contract sign {name} {revision} --key ~/.covenant-key.pem"
        if page.can_sign_as
        else "",
    }


def _preview(model: RegisteredModel, text: str) -> dict[str, Any]:
    try:
        document = contract_document.load(text)
    except Invalid as error:
        return {"model": model, "fault": error}
    current = contract_in_force(model)
    changes = diff(_document_of(current), document) if current else ()
    wrong_model = (
        Invalid(
            f"The document is about {document.model}, not about {model.name}.",
            code="other_model",
            hint=f"Set “model: {model.name}”.",
        )
        if document.model != model.name
        else None
    )
    return {
        "model": model,
        "fault": wrong_model,
        "topics": terms_in_words(terms(document)),
        "changes": changes_in_words(changes),
        "current": current,
    }


def _document_of(contract: ServiceContract) -> ContractDocument:
    return contract_document.load(bytes(contract.payload), "json")


def _version_to_start_from(request: HttpRequest, model: RegisteredModel) -> ModelVersion | None:
    asked = request.GET.get("version", "")
    if asked.isdecimal() and len(asked) < 9:
        return find_version(model.name, int(asked), user=user_of(request))
    newest = (
        version_list(model.name, state=VersionState.VALIDATED, user=user_of(request))
        .order_by("-number")
        .first()
    )
    return find_version(model.name, newest.number, user=user_of(request)) if newest else None


def _document_to_start_from(
    request: HttpRequest, model: RegisteredModel, version: ModelVersion | None
) -> tuple[str, CovenantError | None]:
    """The text of the editor: an earlier revision, or a proposal for the version."""
    asked = request.GET.get("from", "")
    if asked.isdecimal() and len(asked) < 9:
        earlier = find_contract(model.name, int(asked), user=user_of(request))
        return contract_proposal.to_yaml(in_reading_order(earlier.document)), None
    if version is None:
        fault = Conflict(
            _("No version of this model has been validated yet, so its interface is not known."),
            code="version_not_validated",
            hint=_("Write the document by hand, or wait for the first validation."),
        )
        return "", fault
    try:
        return contract_proposal.to_yaml(propose_document(version)), None
    except REFUSED as error:
        return "", error
