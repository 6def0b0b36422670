"""A version's dossier as a page, and as the PDF."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.api.authentication import actor_of, user_of
from console.rules.canonical import digest
from deployments.documents.dossier_words import dossier_context
from deployments.documents.dossiers import dossier_pdf
from models_registry.api.content import exact_bytes


@require_safe
def detail(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """The dossier as a page of the console, made to be printed."""
    context = dossier_context(name, number, user=user_of(request), now=timezone.now())
    return render(request, "deployments/dossiers/detail.html", context)


@require_safe
def pdf(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """The dossier as PDF, in the reader's language or in `?lang=`."""
    data, filename = dossier_pdf(
        name,
        number,
        language=request.GET.get("lang", ""),
        now=timezone.now(),
        actor=actor_of(request),
    )
    return exact_bytes(data, content_type="application/pdf", sha256=digest(data), filename=filename)
