"""Writing a contract: what to start from, the form beside the YAML, saving, proposing."""

from __future__ import annotations

import difflib
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.actors import require
from console.api.authentication import actor_of, user_of
from console.errors import Conflict, CovenantError, Invalid, TooLarge
from models_registry.models import ContractDraft, RegisteredModel, VersionState
from models_registry.rules import contract_fields, contract_reading
from models_registry.rules.contract_changes import breaking_changes
from models_registry.rules.contract_clauses import checklist
from models_registry.rules.contract_diff import diff
from models_registry.rules.contract_edits import edit_text
from models_registry.rules.contract_reading import Reading
from models_registry.rules.contract_templates import templates_for
from models_registry.rules.contract_terms import terms
from models_registry.rules.contract_validity import day_of
from models_registry.rules.contract_yaml import load_yaml
from models_registry.selectors.catalog import find_model
from models_registry.selectors.contract_drafts import find_draft
from models_registry.selectors.contracts import contract_list
from models_registry.selectors.versions import version_list
from models_registry.services.contract_checks import contract_that_holds, verify_bytes
from models_registry.services.contract_drafts import (
    StaleDraft,
    change_draft,
    create_draft,
    discard_draft,
    may_discard,
    propose_draft,
    url_of,
)
from models_registry.services.contract_starts import Start, starting_text
from models_registry.views.contract_editor_words import section_rows
from models_registry.views.contract_words import (
    changes_in_words,
    checklist_in_words,
    terms_in_words,
)
from models_registry.views.refusals import may, tell

REFUSED = (Invalid, Conflict, TooLarge)
MAX_DIFF_LINES = 400


@require_http_methods(["GET", "POST"])
def start(request: HttpRequest, name: str) -> HttpResponse:
    """What a new contract can start from; starting one makes a draft."""
    actor = actor_of(request)
    model = find_model(name, user=actor.user)
    require(actor, "contract.draft", model.team_id)
    fault: CovenantError | None = None
    if request.method == "POST":
        try:
            text = starting_text(model, _start(request.POST))
            draft = create_draft(
                model=model, title=request.POST.get("title", ""), text=text, actor=actor
            )
        except REFUSED as error:
            fault = error
        else:
            return redirect(url_of(draft))
    context = {**_start_context(request, model), "fault": fault}
    status = fault.status if fault else 200
    return render(request, "models_registry/contracts/start.html", context, status=status)


@require_http_methods(["GET", "POST"])
def editor(request: HttpRequest, name: str, draft_id: int) -> HttpResponse:
    """A draft's form and YAML; saving it, and proposing what it says."""
    draft = find_draft(user_of(request), name, draft_id)
    if request.method == "GET":
        return _page(request, draft, text=draft.text)
    text, fault = _text_sent(request.POST)
    title = request.POST.get("title", "")
    edition = _number(request.POST.get("edition", ""))
    wants_proposal = request.POST.get("act") == "propose"
    try:
        if fault is not None:
            raise fault
        if wants_proposal:
            contract = propose_draft(
                draft=draft,
                edition=edition,
                text=text,
                title=title,
                note=request.POST.get("note", ""),
                acknowledge_breaking="acknowledge_breaking" in request.POST,
                actor=actor_of(request),
            )
            messages.success(request, _("Proposed. The three seats can sign it now."))
            return redirect("models_registry:contract-detail", name, contract.revision)
        change_draft(draft=draft, edition=edition, text=text, title=title, actor=actor_of(request))
    except StaleDraft as error:
        return _page(request, error.current, text=text, title=title, fault=error, theirs=True)
    except REFUSED as error:
        return _page(request, draft, text=text, title=title, fault=error)
    messages.success(request, _("The draft is saved."))
    return redirect(url_of(draft))


@require_POST
def check(request: HttpRequest, name: str, draft_id: int) -> HttpResponse:
    """What the text means now, and the other view of it; a fragment. Nothing is saved."""
    draft = find_draft(user_of(request), name, draft_id)
    text, fault = _text_sent(request.POST)
    act = request.POST.get("act", "")
    if act and fault is None:
        try:
            body = load_yaml(text)
            edits = contract_fields.act_of(body, act, request.POST.get(f"new:{act[4:]}", ""))
            text = edit_text(text, edits).text
        except Invalid as error:
            fault = error
    changed = request.POST.get("changed", "")
    context = _context(request, draft, text=text, fault=fault)
    context |= {
        "is_part": True,
        "with_text": bool(act) or changed == "form",
        "with_fields": bool(act)
        or changed != "form"
        or request.POST.get("shape", "") != context["shape"],
        "newer": draft.edition > _number(request.POST.get("edition", "")),
    }
    return render(request, "models_registry/contracts/_check.html", context)


@require_POST
def discard(request: HttpRequest, name: str, draft_id: int) -> HttpResponse:
    """Put a draft away."""
    draft = find_draft(user_of(request), name, draft_id)
    try:
        discard_draft(
            draft=draft, reason=request.POST.get("reason", "").strip(), actor=actor_of(request)
        )
    except REFUSED as error:
        tell(request, error)
        return redirect(url_of(draft))
    messages.success(request, _("The draft is discarded."))
    return redirect("models_registry:contract-list", name)


def _text_sent(sent: QueryDict) -> tuple[str, CovenantError | None]:
    """The YAML that was sent, with the form's changes where the form was changed last."""
    text = sent.get("document", "").replace("\r\n", "\n")
    if sent.get("changed") != "form":
        return text, None
    try:
        found = contract_fields.sections(load_yaml(text))
        edits = contract_fields.edits_of(found, {key: sent.getlist(key) for key in sent})
        return edit_text(text, edits).text, None
    except Invalid as error:
        return text, error


def _page(
    request: HttpRequest,
    draft: ContractDraft,
    *,
    text: str,
    title: str | None = None,
    fault: CovenantError | None = None,
    theirs: bool = False,
) -> HttpResponse:
    context = _context(request, draft, text=text, fault=fault)
    context["title"] = draft.title if title is None else title
    context["note"] = request.POST.get("note", "")
    if theirs:
        context["both"] = _line_diff(draft.text, text)
    context["may_discard"] = context["is_open"] and may_discard(draft, actor_of(request))
    status = fault.status if fault else 200
    return render(request, "models_registry/contracts/editor.html", context, status=status)


def _context(
    request: HttpRequest, draft: ContractDraft, *, text: str, fault: CovenantError | None
) -> dict[str, Any]:
    model = draft.model
    reading = contract_reading.read(
        text, model=model.name, risk_class=model.risk_class, now=timezone.now()
    )
    found = contract_fields.sections(reading.body)
    return {
        "draft": draft,
        "model": model,
        "text": text,
        "fault": fault,
        "reading": reading,
        "faults": reading.faults,
        "sections": section_rows(found),
        "shape": contract_fields.shape_of(found),
        "is_open": draft.proposed_as is None and draft.discarded_at is None,
        "may_propose": may(actor_of(request), "contract.propose", model),
        **_meaning(model, reading),
    }


def _meaning(model: RegisteredModel, reading: Reading) -> dict[str, Any]:
    """The terms in words and what they change against the contract that holds."""
    if reading.document is None:
        return {"topics": [], "changes": [], "current": None, "breaking": 0, "checklist": []}
    current = contract_that_holds(model)
    changes = tuple(diff(verify_bytes(current), reading.document)) if current else ()
    return {
        "topics": terms_in_words(terms(reading.document)),
        "changes": changes_in_words(changes),
        "current": current,
        "breaking": len(breaking_changes(changes)),
        "checklist": checklist_in_words(
            checklist(reading.document, model.risk_class, proposed_on=day_of(timezone.now()))
        ),
    }


def _line_diff(theirs: str, mine: str) -> list[dict[str, str]]:
    """Lines of both texts, each with the side that has it: `theirs`, `mine` or both."""
    lines = difflib.ndiff(theirs.splitlines(), mine.splitlines())
    sides = {"- ": "theirs", "+ ": "mine", "  ": "both"}
    shown = [{"side": sides[line[:2]], "text": line[2:]} for line in lines if line[:2] in sides]
    return shown[:MAX_DIFF_LINES]


def _start(sent: QueryDict) -> Start:
    """What was chosen, as `template:KEY`, `revision:N`, `version` or `blank`."""
    kind, _colon, which = sent.get("start", "").partition(":")
    version = _number(sent.get("version", "")) or None
    if kind == "template":
        return Start(template=which, version=version)
    if kind == "revision":
        return Start(revision=_number(which))
    return Start(version=version) if kind == "version" else Start()


def _start_context(request: HttpRequest, model: RegisteredModel) -> dict[str, Any]:
    user = user_of(request)
    versions = version_list(model.name, user=user, state=VersionState.VALIDATED)
    numbers = list(versions.order_by("-number").values_list("number", flat=True)[:50])
    revisions = list(contract_list(model.name, user=user)[:20])
    asked = request.GET.get("from", "")
    version = _number(request.GET.get("version", ""))
    chosen = request.POST.get("start", "")
    if not chosen:
        in_force = next((one.revision for one in revisions if one.state == "in_force"), None)
        if _number(asked):
            chosen = f"revision:{_number(asked)}"
        elif numbers and (version or in_force is None):
            chosen = "version"
        else:
            chosen = f"revision:{in_force}" if in_force else "blank"
    return {
        "model": model,
        "templates": [
            {
                "key": one.key,
                "choice": f"template:{one.key}",
                "title": _(one.title),
                "summary": _(one.summary),
                "fits": model.risk_class in one.risk_classes,
            }
            for one in templates_for(model.risk_class)
        ],
        "versions": numbers,
        "version": _number(request.POST.get("version", "")) or version or (numbers or [0])[0],
        "revisions": [
            {"contract": one, "choice": f"revision:{one.revision}"} for one in revisions[:3]
        ],
        "chosen": chosen,
        "title": request.POST.get("title", ""),
        "here": reverse("models_registry:contract-propose", args=[model.name]),
    }


def _number(text: str) -> int:
    """A small whole number from an address or a form; 0 where there is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
