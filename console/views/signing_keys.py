"""One's signing keys: what there is, a new one, what becomes of one that was lost."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from console.actors import allowed
from console.api.authentication import actor_of
from console.api.problems import problem_of, retry_after, wants_problem
from console.errors import Conflict, Invalid, NotFound, TooMany
from console.key_forms import EffectForm, KeyForm, RevokeKeyForm
from console.models import KeyOrigin
from console.rules.relying_party import why_no_passkeys
from console.selectors.signing_keys import replaced_by, signing_keys_of
from console.services.keys import effects_of, enrol_key, key_for_revocation, revoke_key
from console.views.confirming import ConfirmForm, confirm_form, proof_of

REFUSED = (Invalid, Conflict, NotFound, TooMany)


@require_safe
def keys(request: HttpRequest) -> HttpResponse:
    """One's keys, those that the server knows and those of this browser, and ways to make more."""
    return _page(request, KeyForm(initial={"replaces": request.GET.get("replaces", "")[:64]}))


@sensitive_post_parameters("password", "code")
@require_http_methods(["GET", "POST"])
def key_enrol(request: HttpRequest) -> HttpResponse:
    """Enrol the public half of a key: made by this browser (by script) or pasted as PEM."""
    if request.method != "POST":
        return redirect("console:keys")
    form = KeyForm(request.POST)
    made_here = request.POST.get("origin") == KeyOrigin.BROWSER
    if not form.is_valid():
        if wants_problem(request):
            return problem_of(Invalid("Name and public key are needed, and days are a number."))
        return _page(request, form, status=422)
    asked = form.cleaned_data
    try:
        key = enrol_key(
            name=asked["name"],
            public_key=asked["public_key"],
            origin=KeyOrigin.BROWSER if made_here else KeyOrigin.CLI,
            days=asked["days"],
            replaces=asked["replaces"],
            rotation=asked["rotation"] or None,
            session=request.session,
            actor=actor_of(request),
            **proof_of(request),
        )
    except REFUSED as error:
        if wants_problem(request):
            return problem_of(error)
        form.add_refusal(error)
        return _page(request, form, status=429 if retry_after(error) else 422)
    if wants_problem(request):
        return JsonResponse({"id": key.pk, "keyid": key.keyid}, status=201)
    messages.success(request, _("The key is enrolled: you can sign with it."))
    return redirect("console:key", key.keyid)


@require_safe
def key_detail(request: HttpRequest, key_id: str) -> HttpResponse:
    """One key: what it is, what stands by its signature, what to do when it ends."""
    actor = actor_of(request)
    key = key_for_revocation(key_id=key_id, actor=actor)
    old = key.replaces
    context = {
        "key": key,
        "mine": key.user_id == actor.user.pk,
        "successor": replaced_by(key),
        "effects": effects_of(key, key.doubted_from),
        "sign_again": [
            effect
            for effect in (effects_of(old, old.doubted_from) if old else ())
            if effect.outcome == "no_longer_counts" and effect.kind != "live"
        ],
    }
    return render(request, "console/settings/key.html", context)


@require_http_methods(["GET", "POST"])
def key_revoke(request: HttpRequest, key_id: str) -> HttpResponse:
    """Say what became of a key, see what that does, and revoke it."""
    actor = actor_of(request)
    key = key_for_revocation(key_id=key_id, actor=actor)
    mine = key.user_id == actor.user.pk
    wanted = request.GET.get("kind", "lost" if mine else "left")
    form = RevokeKeyForm(request.POST or None, initial={"kind": wanted})
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                revoke_key(key_id=key_id, actor=actor, **form.cleaned_data)
            except REFUSED as error:
                form.add_refusal(error)
            else:
                messages.success(request, _("The key is revoked: it signs nothing new."))
                return redirect("console:key", key.keyid)
    context = {
        "key": key,
        "form": form,
        "mine": mine,
        "effects": effects_of(key, _doubted_from(request.POST or {"kind": wanted})),
    }
    return render(request, "console/settings/key_revoke.html", context, status=status)


@require_safe
def key_effect(request: HttpRequest, key_id: str) -> HttpResponse:
    """What the revocation that is being filled in would do (a part of its page)."""
    key = key_for_revocation(key_id=key_id, actor=actor_of(request))
    context = {"key": key, "effects": effects_of(key, _doubted_from(request.GET))}
    return render(request, "console/settings/_key_effects.html", context)


def key_proof_form(request: HttpRequest, name: str) -> ConfirmForm:
    """What is asked of who enrols a key."""
    form = confirm_form(request, name)
    if "password" in form.fields and "code" not in form.fields:
        form.fields["password"].help_text = _("Asked again, since a key signs in your name.")
    return form


@never_cache
def _page(request: HttpRequest, form: KeyForm, *, status: int = 200) -> HttpResponse:
    actor = actor_of(request)
    listed = list(signing_keys_of(actor.user))
    replaces = form["replaces"].value() or ""
    old = next((key for key in listed if key.keyid == replaces), None)
    if old is not None and any(key.replaces_id == old.pk for key in listed):
        old = None
    context: dict[str, Any] = {
        "keys": listed,
        "form": form,
        "old": old,
        "next": request.path,
        "may_enrol": allowed(actor, "key.manage_own"),
        "no_passkeys": why_no_passkeys(settings.CONFIG.base_url),
        "browser_proof": key_proof_form(request, "browser"),
        "passkey_proof": key_proof_form(request, "passkey"),
        "cli_proof": key_proof_form(request, "cli"),
    }
    return render(request, "console/settings/keys.html", context, status=status)


def _doubted_from(filled_in: Any) -> Any:
    form = EffectForm(filled_in)
    return form.cleaned_data.get("doubted_from") if form.is_valid() else None
