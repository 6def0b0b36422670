"""`covenant dossier` and `covenant bom`: what an auditor takes away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.command()
@click.argument("model")
@click.argument("version", type=int)
@click.option("--lang", type=click.Choice(["en", "zh-hans"]), default="en")
@click.option("--out", "-o", type=click.Path(path_type=Path), default=None)
@click.pass_obj
def dossier(session: Session, model: str, version: int, lang: str, out: Path | None) -> None:
    """A version's governance dossier as PDF, with the bundles that prove it attached."""
    target = out or Path(f"{model}-v{version}-dossier-{lang}.pdf")
    data = session.client.content(f"/models/{model}/versions/{version}/dossier.pdf?lang={lang}")
    target.write_bytes(data)
    show(
        {"file": str(target), "bytes": len(data)},
        as_json=session.as_json,
        words=f"Wrote {target} ({len(data) / 1024:.0f} KiB).",
    )


@click.command()
@click.argument("model")
@click.argument("release")
@click.option("--out", "-o", type=click.Path(path_type=Path), default=None)
@click.pass_obj
def bom(session: Session, model: str, release: str, out: Path | None) -> None:
    """A release's bill of materials: CycloneDX 1.6 with a model card."""
    target = out or Path(f"{model}-{release[:8]}.cdx.json")
    data = session.client.content(f"/models/{model}/releases/{release}/bom/")
    target.write_bytes(data)
    show(
        {"file": str(target), "bytes": len(data)},
        as_json=session.as_json,
        words=f"Wrote {target} ({len(data) / 1024:.0f} KiB).",
    )
