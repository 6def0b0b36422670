"""A version's dossier as a PDF with what it rests on inside; both doors hand it out."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import translation

from console.actors import Actor
from console.adapters.pdf import write_pdf
from console.errors import Invalid
from deployments.documents.dossier_words import dossier_context
from deployments.services.dossiers import attachments, record_export

STYLES = [settings.BASE_DIR / "static" / "css" / name for name in ("print.css", "dossier.css")]


def dossier_pdf(
    name: str, number: int, *, language: str = "", now: datetime, actor: Actor
) -> tuple[bytes, str]:
    """The PDF and its file name, in `language` or the reader's own; the export is on record.

    Raises NotFound, Invalid (`unknown_language`), Unavailable (`pdf_unavailable`).
    """
    chosen = _language(language)
    with translation.override(chosen):
        context = dossier_context(name, number, user=actor.user, now=now)
        html = render_to_string("deployments/dossiers/print.html", {**context, "lang": chosen})
        data = write_pdf(html, styles=STYLES, attached=attachments(context["dossier"]))
    record_export(dossier=context["dossier"], language=chosen, data=data, actor=actor)
    return data, f"{name}-v{number}-dossier-{chosen}.pdf"


def _language(wanted: str) -> str:
    known = [code for code, _name in settings.LANGUAGES]
    if not wanted:
        return translation.get_language() or known[0]
    if wanted not in known:
        raise Invalid(
            f"There is no dossier in the language “{wanted[:12]}”.",
            code="unknown_language",
            hint=f"Languages are {', '.join(known)}.",
        )
    return wanted
