"""Asking again who it is, in a form of its own or beside what a form asks anyway."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from console.api.authentication import actor_of
from console.forms import ServiceForm
from console.services.reauthentication import Ways, ways_to_confirm

SIX_DIGITS = re.compile(r"[0-9]{3} ?[0-9]{3}")


class ConfirmForm(ServiceForm):
    """Asks for what the person can prove it with: a password, a code, or nothing right now."""

    def __init__(self, *args: Any, ways: Ways, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if ways.fresh:
            return
        if ways.password:
            self.fields["password"] = forms.CharField(
                label=_("Your password, or a code of your app")
                if ways.code
                else _("Your password"),
                max_length=200,
                strip=False,
                widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
                help_text=_("Asked again, since this changes how you sign in."),
            )
        elif ways.code:
            self.fields["code"] = forms.CharField(
                label=_("Code of your authenticator app"),
                max_length=10,
                widget=forms.TextInput(
                    attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}
                ),
                help_text=_("Asked again, since this changes how you sign in."),
            )


def confirm_form(request: HttpRequest, name: str = "") -> ConfirmForm:
    """The form for who asks; `name` keeps several of them on one page apart."""
    ways = ways_to_confirm(user=actor_of(request).user, session=request.session)
    data = request.POST if request.method == "POST" else None
    return ConfirmForm(data, ways=ways, auto_id=f"{name}-%s" if name else "id_%s")


def proof_of(request: HttpRequest) -> dict[str, str]:
    """What was given as proof, for `reauthentication.confirm`.

    Six digits in the one field are a code: no password here is made of digits alone.
    """
    password = request.POST.get("password", "")[:200]
    code = request.POST.get("code", "")[:10]
    if not code and SIX_DIGITS.fullmatch(password):
        password, code = "", password
    return {"password": password, "code": code}
