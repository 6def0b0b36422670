"""Documents as PDF, by WeasyPrint: a page's own HTML and styles, and nothing from outside."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from console.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that travels inside the PDF."""

    name: str
    description: str
    data: bytes


def write_pdf(html: str, *, styles: Sequence[Path], attached: Sequence[Attached] = ()) -> bytes:
    """A tagged PDF/A-3 (archivable, with attachments) of a whole HTML document.

    Fonts and pictures come from the folders of `styles` alone. Raises Unavailable
    (`pdf_unavailable`) where the libraries that draw text are missing.
    """
    weasyprint = _library()
    fetcher = _fetcher(frozenset(path.parent.parent.resolve() for path in styles))
    document = weasyprint.HTML(string=html, base_url=None, url_fetcher=fetcher)
    fonts = _fonts()
    sheets = [
        weasyprint.CSS(filename=str(path), url_fetcher=fetcher, font_config=fonts)
        for path in styles
    ]
    attachments = [
        weasyprint.Attachment(
            string=one.data, name=one.name, description=one.description, relationship="Data"
        )
        for one in attached
    ]
    made: bytes = document.write_pdf(
        stylesheets=sheets,
        attachments=attachments,
        font_config=fonts,
        pdf_variant="pdf/a-3u",
        pdf_tags=True,
    )
    return made


@cache
def _library() -> Any:
    # Half a second and Pango: only who makes a PDF pays for it.
    try:
        import weasyprint
    except OSError as error:
        raise Unavailable(
            "PDFs cannot be made here: a library that draws text is missing.",
            code="pdf_unavailable",
            hint="Install libpango-1.0-0, libpangoft2-1.0-0 and libharfbuzz-subset0, or print the "
            f"page itself. ({error})",
            retryable=False,
        ) from error
    # It tells of each table of each font.
    logging.getLogger("fontTools").setLevel(logging.WARNING)
    return weasyprint


def _fonts() -> Any:
    from weasyprint.text.fonts import FontConfiguration

    return FontConfiguration()


def _fetcher(folders: frozenset[Path]) -> Any:
    from weasyprint.urls import URLFetcher

    class OwnFiles(URLFetcher):  # type: ignore[misc]
        """Lets a document reach its own fonts, and no other file or address."""

        def fetch(self, url: str, headers: Any = None) -> Any:
            path = Path(url.removeprefix("file://").split("?")[0].split("#")[0]).resolve()
            if not url.startswith("file://") or not any(path.is_relative_to(f) for f in folders):
                raise ValueError(f"{url} is not part of this document")
            return super().fetch(url, headers)

    return OwnFiles(allowed_protocols=("file",))
