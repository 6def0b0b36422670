"""What each error code means and what to do: the entries of the help pages.

They lie as text beside this module, one file for each area: `code | meaning and cause | what to
do`. A structure test sees to it that every code of the product has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("error_entries")


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One code: what it means and why it happens, and what to do; `area` is its file's name."""

    code: str
    area: str
    means: str
    do: str

    @property
    def title(self) -> str:
        """The code in words."""
        return self.code.replace("_", " ").capitalize()


@cache
def entries() -> dict[str, ErrorEntry]:
    """Code → entry, by code. ValueError for a line that is none, or a code that stands twice."""
    found: dict[str, ErrorEntry] = {}
    for entry in sorted(_read(), key=lambda one: one.code):
        if entry.code in found:
            raise ValueError(f"{entry.code} is explained twice: {entry.area}")
        found[entry.code] = entry
    return found


def matching(words: str, area: str = "") -> list[ErrorEntry]:
    """Entries in which all of the words occur, in any case; all of them for none."""
    wanted = words.lower().replace("_", " ").split()
    return [
        entry
        for entry in entries().values()
        if (not area or entry.area == area)
        and all(word in f"{entry.title} {entry.means} {entry.do}".lower() for word in wanted)
    ]


def areas() -> list[str]:
    """The areas by name."""
    return sorted({entry.area for entry in entries().values()})


def _read() -> Iterator[ErrorEntry]:
    for file in sorted(_FOLDER.glob("*.txt")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            if not line.strip():
                continue
            parts = [part.strip() for part in line.split(" | ")]
            if len(parts) != 3 or not all(parts):
                raise ValueError(f"{file.name}:{number} is no entry")
            yield ErrorEntry(parts[0], file.stem, parts[1], parts[2])
