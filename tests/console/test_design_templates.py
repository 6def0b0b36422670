"""The templates and scripts of the design system as text: what the policy and the words ask."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template.loader import render_to_string
from django.test import Client
from django.utils import translation

from console.templatetags.console_icons import ICONS
from console.templatetags.console_states import STATES
from console.templatetags.console_strings import STRINGS

ROOT = Path(settings.BASE_DIR)
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SCRIPTS = sorted((ROOT / "static" / "js").glob("*.js"))
STYLES = sorted((ROOT / "static" / "css").glob("*.css"))
COMMENT = re.compile(r"{% comment %}.*?{% endcomment %}", re.DOTALL)


def markup(path: Path) -> str:
    return COMMENT.sub("", path.read_text())


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_need_no_inline_style_and_no_inline_script(path: Path) -> None:
    text = markup(path)
    assert not re.search(r"\sstyle\s*=", text)
    assert not re.search(r"\son[a-z]+\s*=\s*[\"']", text)
    assert not re.search(r"<style|javascript:|hx-on|hx-vals=.js:", text)
    for tag in re.findall(r"<script[^>]*>", text):
        assert "src=" in tag or "application/json" in tag, tag


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_button_with_an_icon_alone_has_a_name(path: Path) -> None:
    for tag in re.findall(r"<(?:button|a) [^>]*icon-button[^>]*>", markup(path)):
        assert "aria-label=" in tag, tag


def test_templates_name_only_icons_that_exist() -> None:
    used = {
        name for path in TEMPLATES for name in re.findall(r'{% icon "([^"]+)"', markup(path))
    } | {f"state-{shown.shape}" for states in STATES.values() for shown in states.values()}
    assert used - ICONS.keys() == set()


def test_scripts_and_their_sentences_agree() -> None:
    text = "\n".join(path.read_text() for path in SCRIPTS)
    used = {key for key in STRINGS if f'"{key}"' in text}
    asked = set(re.findall(r"\bt\(\"([a-z_]+)\"", text))
    assert asked - STRINGS.keys() == set()
    assert STRINGS.keys() - used == set()


def test_every_script_says_what_it_is_for_and_stays_small() -> None:
    for path in SCRIPTS:
        text = path.read_text()
        assert text.startswith("/*"), path.name
        assert len(text.splitlines()) < 250, path.name


def test_colours_are_defined_by_tokens_alone() -> None:
    for path in STYLES:
        if path.name == "tokens.css":
            continue
        screen = path.read_text().split("@media print")[0]
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b", screen) == [], path.name


def test_both_dark_themes_are_the_same_and_name_what_light_names() -> None:
    text = (ROOT / "static/css/tokens.css").read_text()
    light, by_system, by_choice = (
        dict(re.findall(r"(--[\w-]+):\s*([^;]+);", block))
        for block in re.findall(r":root[^{]*{(.*?)\n\s*}", text, re.DOTALL)
    )
    assert by_system == by_choice
    assert by_system.keys() <= light.keys()


def test_styles_use_only_properties_that_are_set_somewhere() -> None:
    text = "\n".join(path.read_text() for path in STYLES)
    defined = set(re.findall(r"(--[\w-]+)\s*:", text))
    assert set(re.findall(r"var\((--[\w-]+)", text)) - defined == set()


@pytest.mark.urls("tests.console.design.site")
def test_every_component_renders(client: Client) -> None:
    page = client.get("/").content.decode()
    assert 'aria-current="page"' in page
    assert "v1 0" not in page  # a version without traffic has no part in a bar
    assert "{%" not in page
    assert "{{" not in page


@pytest.mark.urls("tests.console.design.site")
@pytest.mark.parametrize("name", ["400", "403", "404", "500", "503", "explained"])
def test_error_pages_explain_without_a_database(client: Client, name: str) -> None:
    page = client.get(f"/errors/{name}/").content.decode()
    assert '<a class="button button-primary" href="/">' in page


@pytest.mark.urls("tests.console.design.site")
def test_the_chinese_page_says_its_language(client: Client) -> None:
    with translation.override("zh-hans"):
        page = client.get("/", headers={"accept-language": "zh-CN"}).content.decode()
    assert '<html lang="zh-hans">' in page


def test_a_problem_shows_message_hint_and_places() -> None:
    error = {
        "message": "The weights do not sum to 100.",
        "hint": "Change one of them.",
        "code": "weights_sum",
        "errors": [{"pointer": "/weights/3", "detail": "is 95, must be 90"}],
    }
    html = render_to_string("components/problem.html", {"error": error})
    for words in ("do not sum to 100", "Change one of them", "/weights/3", "weights_sum"):
        assert words in html


def test_what_people_wrote_is_escaped() -> None:
    evil = "<img src=x>"
    html = render_to_string(
        "components/timeline.html",
        {"events": [{"title": evil, "detail": evil, "actor": evil, "at": None}]},
    ) + render_to_string("components/diff.html", {"lines": [{"kind": "changed", "path": evil}]})
    assert evil not in html
