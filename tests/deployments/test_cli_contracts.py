"""Writing and talking about contracts on the command line, against a real web server."""

from __future__ import annotations

from pathlib import Path

import pytest

from models_registry.models import ContractDraft, ContractState, RegisteredModel
from models_registry.rules.contract_proposal import to_yaml
from tests import factories
from tests.deployments.test_cli import Run, run, signed_in  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_draft_is_started_saved_and_proposed(signed_in: Run, tmp_path: Path) -> None:
    factories.make_version(factories.make_model())
    RegisteredModel.objects.update(risk_class="low")
    found = signed_in("contract", "template", "list", "fraud_detector", "--json").body
    assert found[0]["fits"]
    text = signed_in("contract", "template", "show", "fraud_detector", "batch_scoring")
    assert "name: risk_score" in text.out
    started = signed_in(
        "contract", "draft", "start", "fraud_detector", "--template", "batch_scoring"
    )
    assert "It is sound and can be proposed." in started.out
    draft = str(ContractDraft.objects.get().pk)
    file = tmp_path / "contract.yaml"
    written = signed_in("contract", "draft", "show", "fraud_detector", draft, "-o", str(file))
    assert "Wrote edition 1" in written.out
    file.write_text(file.read_text().replace("target: 95.0", "target: 5"))
    save = ("contract", "draft", "save", "fraud_detector", draft, str(file), "--edition", "1")
    assert "line 13: /objectives/0/target" in signed_in(*save).out
    file.write_text(file.read_text().replace("target: 5", "target: 96"))
    stale = signed_in(*save)
    assert (stale.code, "saved edition 2" in stale.err) == (1, True)
    assert "compare the two texts" in stale.err
    assert signed_in(*save[:-1], "2").code == 0
    made = signed_in("contract", "draft", "propose", "fraud_detector", draft, "--json")
    assert made.body["revision"] == 1
    listed = signed_in(
        "contract", "draft", "list", "fraud_detector", "--state", "proposed", "--json"
    )
    assert [one["proposed_as"] for one in listed.body["results"]] == [1]
    file.write_text(to_yaml(factories.contract_body()))
    signed_in("contract", "draft", "start", "fraud_detector", str(file), "--title", "Mine")
    other = str(ContractDraft.objects.get(title="Mine").pk)
    gone = signed_in("contract", "draft", "discard", "fraud_detector", other, "--reason", "No.")
    assert gone.out.strip() == f"Draft {other} is discarded."


def test_a_proposal_is_talked_about(signed_in: Run) -> None:
    factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    comment = ("contract", "comment")
    place = ("--at", "/objectives/0/threshold_ms")
    made = signed_in(*comment, "add", "fraud_detector", "1", "Too slow.", *place, "--json").body
    number = str(made["id"])
    signed_in(*comment, "add", "fraud_detector", "1", "Is it?", "--answers", number)
    done = signed_in(*comment, "resolve", "fraud_detector", "1", number)
    assert done.out.strip() == f"Comment {number} is resolved."
    listed = signed_in(*comment, "list", "fraud_detector", "1").out
    assert "dana on /objectives/0/threshold_ms [resolved by dana]: Too slow." in listed
    assert "    " in listed
    assert "Is it?" in listed
    opened = signed_in(*comment, "reopen", "fraud_detector", "1", number, "--json")
    assert opened.body["resolved_at"] is None
    refused = signed_in(*comment, "add", "fraud_detector", "1", "x", "--at", "/nothing")
    assert (refused.code, "no clause at /nothing" in refused.err) == (1, True)
