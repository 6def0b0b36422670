"""Two views of one contract: what is written in the form stands in the YAML, and the other way."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from models_registry.models import ContractDraft, RegisteredModel
from models_registry.services.contract_drafts import create_draft, url_of
from models_registry.services.contract_starts import Start, starting_text
from tests import factories
from tests.browser.conftest import SignIn

if TYPE_CHECKING:
    from playwright.sync_api import Page


def open_draft(sign_in: SignIn, *, width: int = 1280) -> Page:
    model = factories.make_model()
    RegisteredModel.objects.update(risk_class="low")
    factories.make_version(model)
    text = starting_text(model, Start(template="online_scoring"))
    draft = create_draft(model=model, text=text, actor=factories.actor(factories.people().dana))
    tab = sign_in("dana", url_of(draft), width=width)
    tab.wait_for_selector("#section-objectives[open]")
    return tab


def expect_in_yaml(tab: Page, words: str) -> None:
    expect(tab.locator("#id_document")).to_have_value(re.compile(re.escape(words)))


def yaml_of(tab: Page) -> str:
    return tab.input_value("#id_document")


def test_each_view_writes_the_other_and_shows_its_faults(sign_in: SignIn) -> None:
    tab = open_draft(sign_in)
    limit = tab.get_by_label("Latency, at most")
    limit.fill("70")
    expect_in_yaml(tab, "ms: 70")
    assert yaml_of(tab).startswith("# A score while a customer waits")
    assert "within 70 ms" in tab.inner_text("#editor-meaning")
    limit.fill("fast")
    fault = tab.wait_for_selector("#section-objectives .field-invalid .field-errors")
    assert fault is not None
    assert "a number is expected" in fault.inner_text()
    assert limit.get_attribute("aria-invalid") == "true"
    assert tab.text_content("#section-objectives [data-faults-count]") == "1"
    # To its line, with the keyboard alone.
    tab.focus("[data-go-line]")
    tab.keyboard.press("Enter")
    assert "fast" in tab.evaluate("getSelection().toString()")
    bad_line = tab.locator(".yaml-lines .line-bad").text_content()
    assert (bad_line or "").strip() == str(yaml_of(tab).split("fast")[0].count("\n") + 1)
    # The other way: what is mended in the YAML stands in the form, open sections stay open.
    tab.click("#section-drift summary")
    tab.fill("#id_document", yaml_of(tab).replace("fast", "90").replace("0.3\n", "0.25\n"))
    tab.wait_for_selector("#editor-state .tone-ok")
    assert limit.input_value() == "90"
    assert tab.get_by_label("Drift of inputs (KS), above").input_value() == "0.25"
    assert tab.is_visible("#section-drift .editor-section-body")
    # A text that cannot be read takes the form away and gives it back.
    sound = yaml_of(tab)
    tab.fill("#id_document", "model: [")
    tab.wait_for_selector("text=The form is back as soon as the YAML can be read.")
    tab.fill("#id_document", sound)
    tab.wait_for_selector("#section-objectives")
    tab.get_by_role("button", name="Save", exact=True).click()
    tab.wait_for_selector("text=The draft is saved.")
    assert ContractDraft.objects.get().text.strip() == sound.strip()


def test_rows_and_a_save_before_the_answer_on_a_phone(sign_in: SignIn) -> None:
    tab = open_draft(sign_in, width=390)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    tab.click("#section-approvals summary")
    tab.fill("#section-approvals [name^='new:']", "canary")
    tab.get_by_role("button", name="Add an environment").click()
    expect_in_yaml(tab, "canary: []")
    tab.get_by_role("group", name="canary").get_by_label("business owner").check()
    expect_in_yaml(tab, "business_owner")
    tab.get_by_role("button", name="Remove staging").click()
    expect(tab.locator("#id_document")).not_to_have_value(re.compile("staging"))
    tab.get_by_label("Up to a load of").fill("650")
    tab.get_by_role("button", name="Save", exact=True).click()
    tab.wait_for_selector("text=The draft is saved.")
    text = ContractDraft.objects.get().text
    assert "qps: 650" in text
    assert "canary: [business_owner]" in text
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
