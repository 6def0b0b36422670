"""Models: the list, registering, one model with its people and versions."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError
from console.models import AuditEntry
from console.selectors.paging import page_of
from models_registry.forms import (
    AliasForm,
    ModelChangeForm,
    ModelFilterForm,
    ModelForm,
    SeatForm,
)
from models_registry.models import ContractState, ModelVersion, Seat
from models_registry.selectors.catalog import ModelPage, find_model, model_list, model_page
from models_registry.selectors.contract_drafts import draft_list
from models_registry.selectors.model_events import model_events, seat_history
from models_registry.selectors.versions import version_list
from models_registry.selectors.visibility import losing_sight, narrowed, viewers
from models_registry.services.catalog import assign_seat, change_model, register_model, set_alias
from models_registry.views.events import timeline
from models_registry.views.refusals import REFUSED, may, tell, wants_fragment

SORTS = {
    "name": (gettext_lazy("Name"), ("name",)),
    "-name": (gettext_lazy("Name, from the end"), ("-name",)),
    "newest": (gettext_lazy("Newest first"), ("-created_at", "name")),
    "versions": (gettext_lazy("Most versions"), ("-last_version_number", "name")),
}
VERSIONS_SHOWN = 20
DRAFTS_SHOWN = 5


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All models with search, filters and sorting; the table alone when htmx asks."""
    form = ModelFilterForm(request.GET)
    form.is_valid()
    wanted: dict[str, Any] = {name: form.cleaned_data.get(name) or "" for name in form.fields}
    chosen = request.GET.get("sort", "")
    sort = chosen if chosen in SORTS else "name"
    actor = actor_of(request)
    found = model_list(actor.user, **{**wanted, "mine": bool(wanted["mine"])})
    found = found.order_by(*SORTS[sort][1])
    page = page_of(found, cursor=request.GET.get("cursor", ""))
    context = {
        "form": form,
        "wanted": wanted,
        "unfiltered": not any(wanted.values()),
        "sort": sort,
        "sorts": [(key, label) for key, (label, _fields) in SORTS.items()],
        "models": page.rows,
        "may_create": allowed(actor, "model.create"),
        **page.links(request.GET),
    }
    fragment = wants_fragment(request)
    template = (
        "models_registry/models/_list.html" if fragment else "models_registry/models/list.html"
    )
    return render(request, template, context)


@require_http_methods(["GET", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Register a model."""
    form = ModelForm(request.POST or None)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                model = register_model(**form.cleaned_data, actor=actor_of(request))
            except REFUSED as error:
                form.add_refusal(error)
            else:
                messages.success(request, _("%(model)s is registered.") % {"model": model.name})
                return redirect("models_registry:model-detail", model.name)
    return render(request, "models_registry/models/create.html", {"form": form}, status=status)


@require_http_methods(["GET", "POST"])
def change(request: HttpRequest, name: str) -> HttpResponse:
    """Change what is said about a model."""
    model = find_model(name, user=user_of(request))
    initial = {
        "description": model.description,
        "risk_class": model.risk_class,
        "tags": model.tags,
        "team": model.team.slug if model.team else None,
        "visibility": model.visibility,
    }
    form = ModelChangeForm(request.POST or None, initial=initial)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                saw = viewers(model)
                changed = change_model(
                    model=model, changes=form.cleaned_data, actor=actor_of(request)
                )
            except REFUSED as error:
                form.add_refusal(error)
            else:
                _tell_who_lost_sight(request, *losing_sight(saw, changed))
                return redirect("models_registry:model-detail", name)
    context = {"form": form, "model": model, "sight": narrowed(model)}
    return render(request, "models_registry/models/change.html", context, status=status)


def _tell_who_lost_sight(request: HttpRequest, names: list[str], count: int) -> None:
    if not count:
        return
    shown = ", ".join(names) + (" …" if count > len(names) else "")
    words = ngettext(
        "%(count)d person no longer sees this model: %(names)s.",
        "%(count)d people no longer see this model: %(names)s.",
        count,
    )
    messages.info(request, words % {"count": count, "names": shown})


@require_safe
def detail(request: HttpRequest, name: str) -> HttpResponse:
    """One model; the changing part alone when htmx asks."""
    page = model_page(name, shown=6, user=user_of(request))
    versions = page_of(
        version_list(name, user=user_of(request)).order_by("-number"),
        cursor=request.GET.get("cursor", ""),
        size=VERSIONS_SHOWN,
    )
    context = {
        "page": page,
        "model": page.model,
        "versions": _with_aliases(page, versions.rows),
        "signatures": _signatures(page),
        "drafts": draft_list(user_of(request), name)[:DRAFTS_SHOWN],
        "events": timeline(model_events(page.model, shown=8)),
        "here": request.get_full_path(),
        **versions.links(request.GET),
        **_acts(request, page),
    }
    fragment = wants_fragment(request)
    template = (
        "models_registry/models/_model.html" if fragment else "models_registry/models/detail.html"
    )
    return render(request, template, context)


@require_http_methods(["GET", "POST"])
def seat_assign(request: HttpRequest, name: str, seat: str) -> HttpResponse:
    """Put a person into a seat."""
    model = find_model(name, user=user_of(request))
    form = SeatForm(request.POST or None, model=model, seat=seat)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            person = form.cleaned_data["user"]
            try:
                assign_seat(model=model, seat=seat, user=person, actor=actor_of(request))
            except REFUSED as error:
                form.add_error("user", f"{error.message} {error.hint}".strip())
            else:
                messages.success(
                    request,
                    _("%(person)s sits in the seat %(seat)s.")
                    % {"person": person, "seat": Seat(seat).label},
                )
                return redirect("models_registry:model-detail", name)
    label = Seat(seat).label if seat in Seat.values else seat
    context = {
        "form": form,
        "model": model,
        "seat": seat,
        "seat_label": label,
        "history": [_seating(entry) for entry in seat_history(model, seat)],
    }
    return render(request, "models_registry/models/seat.html", context, status=status)


def _seating(entry: AuditEntry) -> dict[str, Any]:
    """An entry on a seat, for the timeline."""
    before, after = (entry.before or {}).get("user"), (entry.after or {}).get("user")
    title = (
        _("%(after)s after %(before)s") % {"after": after, "before": before}
        if before
        else _("%(after)s, as the first") % {"after": after}
    )
    return {
        "at": entry.at,
        "title": title,
        "detail": entry.reason,
        "actor": entry.actor_username,
        "icon": "person",
    }


@require_http_methods(["GET", "POST"])
def alias(request: HttpRequest, name: str) -> HttpResponse:
    """Point an alias at a version."""
    model = find_model(name, user=user_of(request))
    form = AliasForm(request.POST or None)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                set_alias(model=model, **form.cleaned_data, actor=actor_of(request))
            except CovenantError as error:
                if error.status == 403:
                    raise
                form.add_refusal(error)
            else:
                return redirect("models_registry:model-detail", name)
    context = {"form": form, "model": model, "aliases": model.aliases.all()}
    return render(request, "models_registry/models/alias.html", context, status=status)


@require_POST
def alias_remove(request: HttpRequest, name: str, alias_name: str) -> HttpResponse:
    """Take an alias away; the version stays."""
    try:
        set_alias(
            model=find_model(name, user=user_of(request)),
            name=alias_name,
            number=None,
            actor=actor_of(request),
        )
    except REFUSED as error:
        tell(request, error)
    return redirect("models_registry:model-detail", name)


def _with_aliases(
    page: ModelPage, versions: list[ModelVersion]
) -> list[tuple[ModelVersion, list[str]]]:
    names: dict[int, list[str]] = {}
    for one in page.aliases:
        names.setdefault(one.version.number, []).append(one.name)
    return [(version, names.get(version.number, [])) for version in versions]


def _signatures(page: ModelPage) -> list[dict[str, Any]]:
    """Of the contract in force, or of the newest proposal: each seat with who signed."""
    contract = page.contract or next(
        (one for one in page.contracts if one.state == ContractState.PROPOSED), None
    )
    if contract is None:
        return []
    signed = {one.seat: one for one in contract.signatures.all()}
    return [{"label": seat.label, "signature": signed.get(seat.value)} for seat in Seat]


def _acts(request: HttpRequest, page: ModelPage) -> dict[str, Any]:
    actor = actor_of(request)
    part = may(actor, "read", page.model)
    return {
        "may_change": part and allowed(actor, "model.change", page.model.team_id),
        "may_upload": part and allowed(actor, "version.create", page.model.team_id),
        "may_propose": part and allowed(actor, "contract.propose", page.model.team_id),
        "proposed": [one for one in page.contracts if one.state == ContractState.PROPOSED],
    }
