"""`covenant people`, `covenant teams` and signing in without a secret, against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from console.adapters.oidc_issuer import forget_issuers
from console.models import User
from console.services.service_accounts import create_service_account
from console.services.teams import create_team
from console.services.tokens import create_token
from console.services.workloads import add_workload
from tests.console.oidc_issuer import running_issuer
from tests.deployments.test_cli import Run, run  # noqa: F401 - a fixture
from tests.factories import actor, make_model, make_user, people

pytestmark = pytest.mark.django_db(transaction=True)


def test_people_and_teams_from_the_command_line(run: Run, live_server: LiveServer) -> None:
    persons = people()
    make_user("eve", "data_scientist")
    make_model()
    _, token = create_token(name="x", scopes=["read", "write", "admin"], actor=actor(persons.ada))
    assert run("--url", live_server.url, "--token", token, "login").code == 0
    assert run("teams", "create", "Risk models").out.strip() == "The team risk-models is made."
    assert run("teams", "set-member", "risk-models", "vic", "--role", "sre").code == 0
    assert "vic" in run("teams", "members", "risk-models").out
    invited = run("people", "invite", "kim@example.com", "--team", "risk-models=sre", "--json")
    assert invited.body["teams"] == [{"team": "risk-models", "roles": ["sre"]}]
    departure = run("people", "departure", "dana", "--json").body["duties"]
    assert [duty["suggested"] for duty in departure] == [["eve"], ["eve"]]
    refused = run("people", "deactivate", "dana", "--reason", "left")
    assert refused.code == 1
    assert "needs a successor: the model fraud_detector" in refused.err
    named = [f"--successor={duty['key']}=eve" for duty in departure]
    done = run("people", "deactivate", "dana", "--reason", "left", *named)
    assert done.out.startswith("dana is deactivated: 2 handed over")
    assert not User.objects.get(username="dana").is_active
    assert "dana" in run("people", "list", "--state", "deactivated").out


def test_a_job_signs_in_by_its_platforms_token(
    run: Run, live_server: LiveServer, tmp_path: Path
) -> None:
    forget_issuers()
    ada = actor(people().ada)
    create_team(name="Risk", actor=ada)
    create_service_account(username="ci-fraud", team="risk", roles=["data_scientist"], actor=ada)
    file = tmp_path / "token.jwt"
    with running_issuer() as issuer:
        add_workload(
            username="ci-fraud",
            name="main",
            issuer=issuer.url,
            audience="https://covenant.example.com",
            claims={"sub": "repo:risk/*"},
            scopes=["read", "write"],
            actor=ada,
        )
        file.write_text(issuer.token("ES256") + "\n")
        signed_in = run("--url", live_server.url, "login", "--workload-token-file", str(file))
        assert signed_in.code == 0, signed_in.err
        assert "Signed in as ci-fraud" in signed_in.out
        assert run("models", "list").code == 0
        again = run("--url", live_server.url, "login", "--workload-token-file", str(file))
    assert again.code == 1
    assert "was used already" in again.err
    missing = run("--url", live_server.url, "login", "--workload-token-file", str(tmp_path / "no"))
    assert missing.code == 2
