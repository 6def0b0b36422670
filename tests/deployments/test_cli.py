"""The command line against a real web server: what it prints and the exit codes it gives."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from pytest_django.live_server_helper import LiveServer

from console.services.tokens import create_token
from deployments.cli.main import main
from models_registry.models import ContractState
from models_registry.services.contracts import contract_bundle
from tests import factories
from tests.models_registry import model_files
from tests.models_registry.reports import check, report_of, reported
from tests.models_registry.test_exporting_weights import parted

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def body(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs `covenant` with its own credentials folder; passphrases come from standard input."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("COVENANT_BASE_URL", "COVENANT_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def covenant(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["covenant", *arguments])
        try:
            main()
            code = 0
        except SystemExit as ending:
            code = int(ending.code or 0)
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return covenant


@pytest.fixture
def signed_in(run: Run, live_server: LiveServer) -> Run:
    """Signed in as the data scientist, by a token: hashing a password takes its time."""
    _, token = create_token(
        name="test",
        scopes=["read", "write", "sign"],
        actor=factories.actor(factories.people().dana),
    )
    outcome = run("--url", live_server.url, "--token", token, "login")
    assert outcome.code == 0, outcome.err
    return run


def test_login_by_password_keeps_a_token_that_only_its_owner_can_read(
    run: Run, live_server: LiveServer, tmp_path: Path
) -> None:
    factories.people(password=factories.PASSWORD)

    outcome = run(
        "login", "--url", live_server.url, "--username", "dana", "--password", factories.PASSWORD
    )  # fmt: skip
    kept = tmp_path / "config" / "covenant" / "credentials.json"

    assert outcome.code == 0, outcome.err
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text())["username"] == "dana"


def test_a_wrong_password_is_refused_with_exit_code_1(run: Run, live_server: LiveServer) -> None:
    factories.people(password=factories.PASSWORD)

    outcome = run("--url", live_server.url, "login", "--username", "dana", "--password", "wrong")

    assert outcome.code == 1
    assert "covenant: " in outcome.err


def test_commands_without_sign_in_are_a_usage_error(run: Run) -> None:
    outcome = run("models", "list")

    assert outcome.code == 2
    assert "covenant login" in outcome.err


def test_an_unknown_option_is_a_usage_error(run: Run) -> None:
    assert run("models", "list", "--colour").code == 2


def test_a_server_that_is_not_there_gives_exit_code_3(
    run: Run, free_port: Callable[[], int]
) -> None:
    outcome = run("--url", f"http://127.0.0.1:{free_port()}", "--token", "cvt_x", "models", "list")

    assert outcome.code == 3
    assert "cannot be reached" in outcome.err


def test_a_model_is_registered_with_its_seats_and_listed(signed_in: Run) -> None:
    made = signed_in(
        "models", "create", "churn_model", "--description", "Who leaves.", "--seat", "sre=sam",
        "--seat", "business_owner=bea", "--seat", "data_scientist=dana",
    )  # fmt: skip
    listed = signed_in("models", "list", "--json")
    shown = signed_in("models", "show", "churn_model", "--json")

    assert made.code == 0, made.err
    assert [row["name"] for row in listed.body["results"]] == ["churn_model"]
    assert shown.body["seats"] == {
        "data_scientist": "dana", "sre": "sam", "business_owner": "bea",
    }  # fmt: skip


def test_a_refusal_says_what_is_wrong_and_where_as_json_too(signed_in: Run) -> None:
    outcome = signed_in("models", "create", "Bad Name", "--json")

    assert outcome.code == 1
    assert outcome.body["code"]
    assert outcome.body["detail"] in outcome.err


def test_a_viewer_is_refused(run: Run, live_server: LiveServer) -> None:
    vic = factories.actor(factories.people().vic)
    _, token = create_token(name="test", scopes=["read", "write"], actor=vic)

    outcome = run("--url", live_server.url, "--token", token, "models", "create", "churn_model")

    assert outcome.code == 1
    assert "may not register a model" in outcome.err


def test_an_empty_installation_has_no_endpoints_and_no_jobs(signed_in: Run) -> None:
    assert signed_in("status", "--json").body["results"] == []
    assert signed_in("jobs", "list", "--json").body["results"] == []


def test_an_endpoint_that_is_not_there_is_refused_by_name(signed_in: Run) -> None:
    outcome = signed_in("split", "production/fraud_detector")

    assert outcome.code == 1
    assert "production/fraud_detector" in outcome.err


@pytest.mark.parametrize("weights", [["3:95"], ["x=5"], ["3=many"]])
def test_weights_that_cannot_be_read_are_a_usage_error(signed_in: Run, weights: list[str]) -> None:
    factories.make_model()

    outcome = signed_in("split", "fraud_detector", *weights, "--reason", "Test.")

    assert outcome.code == 2


def test_a_bundle_is_verified_offline_and_a_changed_one_fails_with_exit_code_4(
    run: Run, tmp_path: Path
) -> None:
    contract = factories.make_contract(factories.make_model(), state=ContractState.IN_FORCE)
    good = tmp_path / "bundle.json"
    good.write_bytes(contract_bundle(contract))
    changed = tmp_path / "changed.json"
    body = json.loads(good.read_text())
    body["payload"] = body["payload"][:-8] + "AAAA" + body["payload"][-4:]
    changed.write_text(json.dumps(body))

    assert run("contract", "verify", str(good)).code == 0
    assert run("verify", str(good)).code == 0
    outcome = run("contract", "verify", str(changed), "--json")
    assert outcome.code == 4
    assert outcome.out.startswith("{")


def test_a_contract_is_proposed_and_signed_by_a_key_file(
    signed_in: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.make_model()
    document = tmp_path / "contract.json"
    document.write_text(json.dumps(factories.contract_body()))
    key = tmp_path / "dana.pem"
    monkeypatch.setattr("click.prompt", lambda *_, **__: "a long passphrase")

    proposed = signed_in("contract", "propose", "fraud_detector", str(document), "--json")
    created = signed_in("keys", "create", str(key), "--enrol", "laptop", "--json")
    signed = signed_in("contract", "sign", "fraud_detector", "1", "--key", str(key), "--json")

    assert proposed.body["state"] == "proposed"
    assert created.code == 0, created.err
    assert signed.code == 0, signed.err
    assert signed.body["seat"] == "data_scientist"
    assert key.stat().st_mode & 0o777 == 0o600


def test_what_breaks_callers_is_acknowledged_and_shown_with_exit_code_4(
    signed_in: Run, tmp_path: Path
) -> None:
    factories.make_contract(factories.make_model())
    document = tmp_path / "contract.json"
    body = factories.contract_body()
    body["objectives"][0]["threshold_ms"] = 120
    weaker = json.dumps(body)
    body["errors"].pop(0)
    document.write_text(json.dumps(body))
    propose = ("contract", "propose", "fraud_detector", str(document), "--json")

    refused = signed_in(*propose)
    assert (refused.code, refused.body["code"]) == (1, "breaking_not_acknowledged")
    assert refused.body["errors"][0]["pointer"] == "/errors/0"
    assert signed_in(*propose, "--acknowledge-breaking").body["revision"] == 2
    breaking = signed_in("contract", "diff", "fraud_detector", "2")
    assert breaking.code == 4
    assert "BREAKING Error answer “422 invalid_input” is dropped" in breaking.out
    assert "weaker   P99 limit: 80 → 120 ms: weaker for the caller" in breaking.out
    document.write_text(weaker)
    signed_in(*propose)
    gentle = signed_in("contract", "diff", "fraud_detector", "3", "--json")
    assert (gentle.code, gentle.body["breaking"], gentle.body["against"]) == (0, 0, 1)


def test_push_brings_the_files_that_a_graph_keeps_its_weights_in(
    signed_in: Run, tmp_path: Path
) -> None:
    factories.make_model()
    graph = parted(tmp_path / "up")
    data = graph.with_name("weights.bin")

    pushed = signed_in(
        "push", "fraud_detector", str(graph), "--data", str(data), "--no-wait", "--json"
    )
    twice = signed_in(
        *("push", "fraud_detector", str(graph), "--data", str(data), "--data", str(data)),
        "--no-wait",
    )

    assert pushed.code == 0, pushed.err
    files = pushed.body["files"]
    assert files["data:weights.bin"]["size"] == data.stat().st_size
    assert "Uploading weights.bin" in pushed.err
    assert twice.code == 1
    assert "Two data files are called weights.bin" in twice.err


def test_push_says_for_which_triton_release(signed_in: Run, tmp_path: Path) -> None:
    factories.make_model()
    file = tmp_path / "model.onnx"
    file.write_bytes(factories.tiny_onnx(0.5))

    taken = signed_in(
        *("push", "fraud_detector", str(file), "--target", "25.03", "--no-wait", "--json"),
        *("--output", "risk_score:FP32:batch,1"),
    )
    refused = signed_in("push", "fraud_detector", str(file), "--target", "9.9", "--no-wait")

    assert (taken.code, taken.body["target"]) == (0, "25.03")
    assert [one["name"] for one in taken.body["outputs"]] == ["risk_score"]
    assert signed_in("push", "fraud_detector", str(file), "--output", "risk_score").code == 2
    assert refused.code != 0
    assert "Triton release “9.9”" in refused.err
    assert "24.10" in refused.err


def test_a_report_leads_with_what_failed_and_is_compared_with_another(signed_in: Run) -> None:
    first = reported(None, report_of("passed", check("finite", detail="No NaN.")))
    failed = check("finite", "failed", detail="3 NaN.", fix="Clamp the logarithm.")
    reported(first.model, report_of("failed", failed, check("varies")))

    shown = signed_in("report", "fraud_detector", "2")
    compared = signed_in("report", "fraud_detector", "2", "--against", "1")
    as_json = signed_in("report", "fraud_detector", "2", "--against", "1", "--json")

    assert shown.out.splitlines()[:3] == [
        "fraud_detector v2: failed",
        "✗ finite: 3 NaN.",
        "    → Clamp the logarithm.",
    ]
    assert "varies" not in shown.out
    assert "varies" in signed_in("report", "fraud_detector", "2", "--all").out
    assert compared.out.splitlines()[:3] == [
        "fraud_detector v1 → v2: passed → failed",
        "[WORSE] finite: passed → failed",
        "    → Clamp the logarithm.",
    ]
    assert as_json.body["verdict"]["effect"] == "worse"
    assert signed_in("report", "fraud_detector", "7").code == 1


def test_a_checkpoint_is_inspected_before_it_is_pushed(signed_in: Run, tmp_path: Path) -> None:
    factories.make_model()
    scope: dict[str, Any] = {}
    exec(compile(model_files.NET, "net.py", "exec"), scope)
    source, code, sample = (tmp_path / name for name in ("weights.pt", "net.py", "sample.json"))
    torch.save(scope["Scorer"]().state_dict(), source)
    code.write_text(model_files.NET)
    sample.write_text(json.dumps({"features": [[0.5] * 6]}))
    beside = ("--code", str(code), "--sample", str(sample))

    seen = signed_in("inspect", str(source), *beside)
    alone = signed_in("inspect", str(source), "--json")
    pushed = signed_in(
        "push", "fraud_detector", str(source), *beside, "--input", "features:FP32:batch,6",
        "--no-wait", "--json",
    )  # fmt: skip

    assert seen.code == 0, seen.err
    assert [line.split() for line in seen.out.splitlines()[1:3]] == [
        ["inputs", "features", "FP32", "batch,6"],
        ["outputs", "risk_score", "FP32", "batch,1"],
    ]
    assert alone.body["inputs"] == []
    assert "weights only" in alone.body["notes"][0]
    assert set(pushed.body["files"]) == {"source", "code", "sample"}


def test_trust_that_is_no_key_id_is_wrong_usage(signed_in: Run, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.json"
    bundle.write_text("{}")
    assert signed_in("verify", str(bundle), "--trust", "sre=00").code == 2
    assert signed_in("verify", str(bundle)).code == 4
