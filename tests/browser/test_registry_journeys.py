"""Journeys in a real browser: three people sign, an SRE approves, a file becomes a version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from console.models import SigningKey
from console.rules.dsse import RELEASE_PAYLOAD_TYPE
from models_registry.models import (
    ContractState,
    ModelVersion,
    Release,
    ReleaseApproval,
    ReleaseState,
)
from models_registry.services.contracts import url_of, verify_in_force
from models_registry.services.releases import verify_release
from models_registry.services.signatures import verify_stored
from models_registry.services.versions import publish
from tests import factories
from tests.browser.conftest import SignIn
from tests.factories import PASSWORD
from tests.models_registry import model_files
from tests.models_registry.reports import reported

if TYPE_CHECKING:
    from playwright.sync_api import Page


def create_key(tab: Page, name: str = "office PC") -> None:
    """Make a key in this browser, from the page on which it is missing."""
    tab.wait_for_selector('[data-signing-sign][data-signing-state="no-key"]')
    assert tab.is_disabled("[data-signing-sign] [type=submit]")
    tab.click("text=Create a key in this browser")
    tab.fill("#new-key-name", name)
    tab.fill("#new-key-password", PASSWORD)
    tab.click("text=Create and enrol")
    tab.wait_for_selector('[data-signing-sign][data-signing-state="ready"]')


def test_three_people_sign_a_contract_each_in_their_own_browser(sign_in: SignIn) -> None:
    model = factories.make_model()
    factories.make_contract(model)
    contract = factories.make_contract(model, state=ContractState.PROPOSED, load={"qps": 400})
    watching = sign_in("vic", url_of(contract))
    watching.wait_for_selector('#contract-state [data-state="proposed"]')
    for number, name in enumerate(("dana", "sam", "bea"), start=1):
        tab = sign_in(name, url_of(contract))
        create_key(tab)
        # What the page shows of the key is what is enrolled.
        key = SigningKey.objects.get(user__username=name, name="office PC")
        assert tab.text_content("[data-signing-keyid]") == key.keyid
        tab.click("text=Sign the contract")
        tab.wait_for_selector("text=Signed.")
        # Somebody who only looks sees it without a reload.
        watching.wait_for_function(
            "n => document.querySelectorAll('.seat [data-state=signed]').length === n", arg=number
        )
    watching.wait_for_selector('#contract-state [data-state="in_force"]')
    contract.refresh_from_db()
    assert contract.state == ContractState.IN_FORCE
    assert verify_in_force(contract) == ()


def test_an_sre_approves_a_release_on_a_phone(sign_in: SignIn) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    address = f"/releases/{release.pk}/"
    asking = sign_in("dana", address)
    assert "somebody else has to approve it" in (asking.text_content("main") or "")
    tab = sign_in("sam", address, width=390)
    create_key(tab, "phone")
    assert release.digest in (tab.text_content("[data-signing-sign]") or "")
    tab.click("text=Approve the release")
    tab.wait_for_selector("text=it may be deployed now")
    asking.wait_for_selector('#release-state [data-state="approved"]')
    approval = ReleaseApproval.objects.select_related("key").get()
    assert approval.key is not None
    assert approval.key.name == "phone"
    assert approval.envelope is not None
    noted = verify_stored(
        approval.envelope,
        key=approval.key,
        signer_id=factories.people().sam.pk,
        signed_at=approval.at,
        payload_type=RELEASE_PAYLOAD_TYPE,
        payload=bytes(release.payload),
    )
    assert noted == ""
    assert verify_release(Release.objects.get()).number == 1
    width = tab.evaluate("document.documentElement.scrollWidth")
    assert width <= 390, "nothing sticks out of a phone"


def test_a_refusal_asks_for_its_reason_in_a_dialog(sign_in: SignIn) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    tab = sign_in("sam", f"/releases/{release.pk}/")
    tab.click("#sign >> text=Refuse")
    tab.fill("#refuse-reason", "The report is of another day.")
    tab.click("text=Refuse the release")
    tab.wait_for_selector("text=The report is of another day.")
    assert Release.objects.get().state == ReleaseState.REFUSED


def test_a_file_becomes_a_version(sign_in: SignIn, tmp_path: Path) -> None:
    factories.make_model()
    file = tmp_path / "fraud.onnx"
    file.write_bytes(factories.tiny_onnx(0.5))
    tab = sign_in("dana", "/models/fraud_detector/versions/new/")
    tab.set_input_files("#model-upload [data-upload-file]", file)
    tab.wait_for_selector("text=fraud.onnx is a ONNX file.", timeout=30_000)
    assert tab.input_value("[name=input_name]") == "features"
    assert tab.input_value("[name=input_dims]") == "batch, 10"
    # A row that is added and taken away again leaves nothing behind.
    tab.click("text=Add a row >> nth=0")
    assert tab.locator("[data-tensor-rows] >> nth=0").locator("[data-tensor-row]").count() == 2
    tab.click("[aria-label='Remove this row'] >> nth=1")
    tab.fill("[name=input_min] >> nth=0", "much")
    tab.click("text=Create the version")
    tab.wait_for_selector("text=give a number")
    tab.fill("[name=input_min] >> nth=0", "-10")
    tab.fill("[name=input_max] >> nth=0", "10")
    tab.click("text=Create the version")
    tab.wait_for_url("**/models/fraud_detector/versions/1/")
    tab.wait_for_selector("text=It waits for a free worker")
    version = ModelVersion.objects.select_related("source").get()
    assert version.source.sha256 == factories.facts_of(file.read_bytes()).sha256
    assert version.inputs[0]["min"] == -10


def test_a_version_page_follows_the_job_without_a_reload(sign_in: SignIn) -> None:
    version = reported()
    ModelVersion.objects.filter(pk=version.pk).update(state="validating")
    tab = sign_in("dana", "/models/fraud_detector/versions/1/")
    tab.wait_for_selector('#version-state [data-state="validating"]')
    assert tab.locator("text=Ask for a release").count() == 0
    ModelVersion.objects.filter(pk=version.pk).update(state="validated")
    version.refresh_from_db()
    publish(version)
    tab.wait_for_selector('#version-state [data-state="validated"]')
    tab.click("text=Ask for a release")
    assert tab.is_visible("#request-release")


def test_the_errors_are_drawn_and_can_be_read_as_a_table(sign_in: SignIn) -> None:
    reported()
    tab = sign_in("vic", "/models/fraud_detector/versions/1/")
    tab.wait_for_selector("[data-distribution-chart] .main-svg")
    assert "limit atol 1e-5" in (tab.text_content("[data-chart-legend]") or "")
    tab.click("[data-chart-toggle]")
    rows = tab.locator("[data-chart-table] tbody tr").all_text_contents()
    assert "040" in rows, "40 errors of exactly zero"
    assert "1e-8–1e-750" in rows


def test_a_state_dict_is_described_by_its_source_on_a_phone(
    sign_in: SignIn, tmp_path: Path
) -> None:
    factories.make_model()
    scope: dict[str, Any] = {}
    exec(compile(model_files.NET, "net.py", "exec"), scope)
    source, code = tmp_path / "weights.pt", tmp_path / "net.py"
    torch.save(scope["Scorer"]().state_dict(), source)
    code.write_text(model_files.NET)
    tab = sign_in("dana", "/models/fraud_detector/versions/new/", width=390)
    tab.set_default_timeout(60_000)
    tab.set_input_files("#model-upload [data-upload-file]", source)
    tab.wait_for_selector("text=This file holds weights and no model")
    tab.set_input_files("#model-helpers [accept^='.py']", code)
    tab.wait_for_selector("text=The weights fit the class Scorer.")
    assert tab.input_value("[name=input_name]") == "features"
    assert tab.input_value("[name=input_dims]") == "batch, 6"
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    tab.select_option("#id_target", "25.03")
    tab.click("text=Create the version")
    tab.wait_for_url("**/models/fraud_detector/versions/1/")
    version = ModelVersion.objects.select_related("code").get()
    assert version.code is not None
    assert (version.source_format, version.target) == ("torch_state_dict", "25.03")


def test_a_version_page_at_rest_asks_for_nothing_and_keeps_its_dialog(sign_in: SignIn) -> None:
    reported()
    tab = sign_in("dana", "/models/fraud_detector/versions/1/")
    tab.wait_for_selector("#load-tests-now")
    tab.click("text=Ask for a release")
    tab.wait_for_selector("#request-release[open]")
    # Its panel is fetched with the page; a page that refreshes itself fetches it twice a second.
    again = (
        "() => performance.getEntriesByType('resource')"
        ".filter((one) => one.name.includes('/panels/load-tests/')).length > 3"
    )
    with pytest.raises(PlaywrightTimeout):
        tab.wait_for_function(again, timeout=4000)
    assert tab.is_visible("#request-release")
