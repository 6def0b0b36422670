"""The picture of a graph in pixels: boxes and lines that a template writes as SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from models_registry.views.version_words import compact, flop_text

WIDTH: Final = 190
HEIGHT: Final = 58
_GAP_X: Final = 16
_GAP_Y: Final = 26
_MARGIN: Final = 12
_LANE: Final = 26
_LETTERS: Final = 24


def drawing(graph: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Boxes with place and words, lines as SVG paths; None for a report without a picture."""
    blocks: Sequence[Mapping[str, Any]] = (graph or {}).get("blocks", ())
    if not blocks:
        return None
    in_row = Counter(block["row"] for block in blocks)
    columns = max(in_row.values())
    most = max((block.get("flops") or 0 for block in blocks), default=0)
    boxes = {block["id"]: _box(block, in_row[block["row"]], columns, most) for block in blocks}
    rows = {block["id"]: block["row"] for block in blocks}
    edges = [(a, b) for a, b in (graph or {}).get("edges", ()) if a in boxes and b in boxes]
    return {
        "boxes": list(boxes.values()),
        "lines": [_line(boxes[a], boxes[b], rows[b] - rows[a]) for a, b in edges],
        "width": 2 * (_MARGIN + _LANE) + columns * WIDTH + (columns - 1) * _GAP_X,
        "height": 2 * _MARGIN + len(in_row) * HEIGHT + (max(rows.values())) * _GAP_Y,
        "operators": (graph or {}).get("operators"),
        "blocks": sum(block["kind"] == "operators" for block in blocks),
    }


def _box(block: Mapping[str, Any], beside: int, columns: int, most: int) -> dict[str, Any]:
    indent = (columns - beside) * (WIDTH + _GAP_X) / 2
    left = _MARGIN + _LANE + indent + block["column"] * (WIDTH + _GAP_X)
    top = _MARGIN + block["row"] * (HEIGHT + _GAP_Y)
    work = block.get("flops") or 0
    label = str(block.get("label", ""))
    shape = block.get("shape")
    return {
        "kind": block["kind"],
        "x": round(left),
        "y": round(top),
        "width": WIDTH,
        "height": HEIGHT,
        "middle": round(left + WIDTH / 2),
        "text_x": round(left + 12),
        "title_y": round(top + 22),
        "detail_y": round(top + 41),
        "bar_y": round(top + HEIGHT - 4),
        "bar": round((WIDTH - 2) * work / most) if most else 0,
        "label": _short(label, _LETTERS - (4 if block.get("repeated", 1) > 1 else 0)),
        "whole": label,
        "repeated": block.get("repeated", 1),
        "shape": "[" + ", ".join(map(str, shape)) + "]" if shape else "",
        "shape_short": _short("[" + ", ".join(map(str, shape)) + "]", 17) if shape else "",
        "work": flop_text(work) if work else "",
        "parameters": compact(block["parameters"]) if block.get("parameters") else "",
        "count": block.get("count", 0),
        "operators": ", ".join(
            f"{kind} ×{count}" if count > 1 else kind
            for kind, count in (block.get("operators") or {}).items()
        ),
    }


def _line(above: Mapping[str, Any], below: Mapping[str, Any], rows: int) -> str:
    """From the foot of one box to the head of the other; around what lies between them."""
    x1, y1 = above["middle"], above["y"] + HEIGHT
    x2, y2 = below["middle"], below["y"]
    if rows <= 1 or x1 != x2:
        bend = _GAP_Y / 2 if rows <= 1 else _GAP_Y
        return f"M{x1} {y1}C{x1} {y1 + bend:.0f} {x2} {y2 - bend:.0f} {x2} {y2}"
    side = above["x"] + WIDTH
    lane = side + _LANE
    start, end = y1 - HEIGHT / 2, y2 + HEIGHT / 2
    return (
        f"M{side} {start:.0f}C{lane} {start:.0f} {lane} {start:.0f} {lane} {start + _LANE:.0f}"
        f"V{end - _LANE:.0f}C{lane} {end:.0f} {lane} {end:.0f} {side} {end:.0f}"
    )


def _short(words: str, letters: int) -> str:
    return words if len(words) <= letters else words[: letters - 1] + "…"
