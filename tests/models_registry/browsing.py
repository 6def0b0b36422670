"""A person at a page, without a browser: what is shown, and what forms and parts answer."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from django.test import Client

from console.models import User


class _Words(HTMLParser):
    """The words of a page as they are read, and the addresses that it leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.links: list[str] = []
        self.forms: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "style", "template"):
            self._silent += 1
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag == "form" and given.get("method") == "post" and given.get("action"):
            self.forms.append(str(given["action"]))
        if tag == "input" and given.get("type") != "hidden" and given.get("value"):
            self.parts.append(str(given["value"]))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "template"):
            self._silent -= 1

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


class Shown:
    """An answer as a person sees it."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status: int = response.status_code
        self.address: str = response.get("Location", "")
        reader = _Words()
        reader.feed(response.content.decode())
        self.text = " ".join(" ".join(reader.parts).split())
        self.links = reader.links
        self.forms = reader.forms

    def __contains__(self, words: str) -> bool:
        return words in self.text


class Visitor:
    """One person's visits."""

    def __init__(self, user: User) -> None:
        self.client = Client()
        self.client.force_login(user)

    def get(self, address: str, *, part: bool = False, language: str = "en") -> Shown:
        """A page, or with `part` what htmx is given of it."""
        headers = {"HX-Request": "true"} if part else {}
        return Shown(self.client.get(address, headers={**headers, "Accept-Language": language}))

    def post(self, address: str, data: Any = None, *, part: bool = False) -> Shown:
        headers = {"HX-Request": "true"} if part else {}
        return Shown(self.client.post(address, data or {}, headers=headers))

    def said(self) -> str:
        """What the next page says of the act before it."""
        return self.get("/models/").text
