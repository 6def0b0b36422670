"""A feature's drift in words and as a small picture: training as a line, callers as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

WIDTH = 176
HEIGHT = 36
USUAL_LIMIT = 0.3
LARGE_SHIFT = 0.25


def feature_row(feature: dict[str, Any], limit: float | None) -> dict[str, Any]:
    """One row of the table: figures, what they mean, the picture, and its bins in words."""
    score, by_chance = feature["score"], feature["by_chance"]
    bound = USUAL_LIMIT if limit is None else limit
    if score > bound:
        tone, word = "bad", _("above the limit") if limit is not None else _("drifted")
    elif score > by_chance:
        tone, word = "warn", _("shifted")
    else:
        tone, word = "ok", _("as in training")
    return {
        "name": feature["name"],
        "title": feature["title"],
        "score": f"{score:.3f}",
        "psi": f"{feature['psi']:.3f}",
        "large": feature["psi"] >= LARGE_SHIFT,
        "by_chance": f"{by_chance:.3f}",
        "rows": feature["rows"],
        "tone": tone,
        "word": word,
        "picture": _picture(feature["training"], feature["now"]),
        "bins": _bins(feature),
    }


def _picture(training: Sequence[float], now: Sequence[float]) -> dict[str, Any]:
    highest = max([*training, *now], default=0.0) or 1.0
    width = WIDTH / max(len(training), 1)

    def height(share: float) -> float:
        return (HEIGHT - 2) * share / highest

    bars = [
        {
            "x": f"{place * width + 0.5:.1f}",
            "y": f"{HEIGHT - height(share):.1f}",
            "height": f"{height(share):.1f}",
        }
        for place, share in enumerate(now)
        if share
    ]
    points = []
    for place, share in enumerate(training):
        y = f"{HEIGHT - height(share):.1f}"
        points += [f"{place * width:.1f},{y}", f"{(place + 1) * width:.1f},{y}"]
    return {"bars": bars, "bar": f"{max(width - 1, 1):.1f}", "outline": " ".join(points)}


def _bins(feature: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Each bin's range with the shares in training and now, without those that nobody is in."""
    found = []
    for place, (before, after) in enumerate(zip(feature["training"], feature["now"], strict=True)):
        if before or after:
            name = feature["words"][place] if feature["words"] else _range(feature["bounds"], place)
            found.append((name, f"{100 * before:.1f} %", f"{100 * after:.1f} %"))
    return found


def _range(bounds: Sequence[float], place: int) -> str:
    if place == 0:
        return f"≤ {bounds[0]:g}"
    if place == len(bounds):
        return _("> %(bound)s, or missing") % {"bound": f"{bounds[-1]:g}"}
    return f"{bounds[place - 1]:g} – {bounds[place]:g}"
