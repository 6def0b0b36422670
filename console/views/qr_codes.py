"""QR codes as SVG inside a page."""

from __future__ import annotations

import io

import segno
from django.utils.safestring import SafeString, mark_safe


def qr_code(text: str) -> SafeString:
    """`text` as a QR code, without colours of its own: the style sheet gives dark on light."""
    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        out, kind="svg", xmldecl=False, svgns=True, border=4, omitsize=True, svgclass="qr-code",
        lineclass="qr-modules",
    )  # fmt: skip
    return mark_safe(out.getvalue().decode())  # noqa: S308 - drawn by the library, from modules
