"""`covenant`: the command line for users. Exit codes: 0 ok, 1 refused by the server, 2 usage,
3 cannot reach, 4 a gate failed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from console.errors import CovenantError
from deployments.cli import (
    access,
    alert_rules,
    alerts,
    audit,
    batching,
    callers,
    causes,
    channels,
    contracts,
    deploying,
    diagnosing,
    dossiers,
    experiments,
    exporting,
    fallbacks,
    gateways,
    incidents,
    inspecting,
    jobs,
    keys,
    load_tests,
    models,
    nodes,
    objectives,
    on_call,
    people,
    releases,
    reports,
    retention,
    rollouts,
    sla,
    slow,
    telemetry,
    trials,
    variants,
    verifying,
)
from deployments.cli.client import (
    USAGE,
    Client,
    CliError,
    Credentials,
    load_credentials,
    save_credentials,
)
from deployments.cli.output import show


@dataclass(slots=True)
class Session:
    """The options that every command shares; the client is made on first use."""

    url: str
    token: str
    as_json: bool
    _client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            kept = None if self.url and self.token else load_credentials()
            url, token = (
                self.url or (kept.url if kept else ""),
                self.token or (kept.token if kept else ""),
            )
            if not url or not token:
                raise CliError(
                    "Not signed in.", exit_code=USAGE, hint="Run `covenant login --url … `."
                )
            self._client = Client(Credentials(url, token))
        return self._client


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", envvar="COVENANT_BASE_URL", default="", help="Address of the console.")
@click.option("--token", envvar="COVENANT_TOKEN", default="", help="API token.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def cli(context: click.Context, url: str, token: str, as_json: bool) -> None:
    """From a checkpoint to governed production traffic."""
    context.obj = Session(url=url, token=token, as_json=as_json)


@cli.command()
@click.option("--url", "address", default="", help="Address of the console, here as well.")
@click.option("--username", default="")
@click.option("--password", default="", help="Asked for when left out.")
@click.option(
    "--workload-token-file",
    type=click.Path(path_type=Path),
    help="Sign in as a service account by the token that your platform gave this job.",
)
@click.option("--account", default="", help="The service account, where the token fits several.")
@click.option("--code", default="", help="Second factor; asked for when it is needed.")
@click.pass_obj
def login(
    session: Session,
    address: str,
    username: str,
    password: str,
    workload_token_file: Path | None,
    account: str,
    code: str,
) -> None:
    """Sign in and keep a token for later commands (or check the one given by --token)."""
    url = address or session.url
    url = url or click.prompt("Address of the console", default="http://127.0.0.1:8700")
    token = session.token
    if workload_token_file is not None:
        token = people.exchange(url, workload_token_file, account)
    if not token:
        username = username or click.prompt("Username")
        password = password or click.prompt("Password", hide_input=True)
        token = _token_for(url, username, password, code)
    me = Client(Credentials(url, token)).get("/me/")
    path = save_credentials(Credentials(url, token, me["username"]))
    show(
        {"username": me["username"], "roles": me["roles"], "kept_in": str(path)},
        as_json=session.as_json,
        words=f"Signed in as {me['username']} ({', '.join(me['roles']) or 'no role'}).",
    )


def _token_for(url: str, username: str, password: str, code: str) -> str:
    """Sign in by password, and by a code where the account asks for one."""
    name = username or click.prompt("Username")
    wanted = {"username": name, "name": "covenant CLI"}
    wanted["password"] = password or click.prompt("Password", hide_input=True)
    client = Client(Credentials(url, ""))
    try:
        made = client.post("/tokens/", {**wanted, **({"code": code} if code else {})})
    except CliError as refusal:
        if refusal.code != "second_factor_required" or code or not sys.stdin.isatty():
            raise
        code = click.prompt("Code of your authenticator app, or a recovery code")
        made = client.post("/tokens/", {**wanted, "code": code})
    return str(made["token"])


for command in (
    models.models,
    models.push,
    reports.report,
    variants.optimise,
    variants.plan,
    inspecting.inspect,
    contracts.contract,
    keys.keys,
    verifying.verify,
    releases.release,
    releases.freeze,
    deploying.approve,
    deploying.deploy,
    load_tests.load_test,
    trials.try_version,
    deploying.split,
    retention.retention,
    rollouts.rollout,
    deploying.rollback,
    deploying.mode,
    fallbacks.fallback,
    deploying.status,
    diagnosing.diagnose,
    diagnosing.memory_growth,
    sla.sla,
    slow.slow,
    batching.batching,
    telemetry.telemetry,
    jobs.jobs,
    people.people,
    people.teams,
    nodes.nodes,
    gateways.gateways,
    exporting.export,
    exporting.import_openslo,
    audit.audit,
    dossiers.dossier,
    dossiers.bom,
    access.access,
    callers.callers,
    channels.channels,
    on_call.on_call,
    alerts.alerts,
    alerts.silences,
    alert_rules.alert_rules,
    incidents.incidents,
    incidents.rollback_policy,
    objectives.objectives,
    objectives.maintenance,
    objectives.exclusions,
    experiments.experiment,
    causes.causes,
    experiments.compare,
):
    cli.add_command(command)


def _give_json_everywhere(group: click.Group) -> None:
    """`--json` is taken after each command too, where people type it."""
    for command in group.commands.values():
        if isinstance(command, click.Group):
            _give_json_everywhere(command)
        elif not any(p.name == "json_here" for p in command.params):
            command.params.append(
                click.Option(
                    ["--json", "json_here"],
                    is_flag=True,
                    expose_value=False,
                    help="Print JSON.",
                    callback=_note_json,
                )
            )


def _note_json(context: click.Context, _: click.Parameter, value: bool) -> bool:
    if value:
        context.find_root().obj.as_json = True
    return value


_give_json_everywhere(cli)


def main() -> None:
    """Run the command line; every error is one message, a hint and an exit code."""
    try:
        # A command that ends by `context.exit` has its code given back here, not raised.
        ended = cli.main(standalone_mode=False)
    except click.exceptions.Exit as ending:
        sys.exit(ending.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.UsageError as error:
        error.show()
        sys.exit(USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except CliError as error:
        sys.exit(_report(error.message, error.hint, error.code, error.errors, error.exit_code))
    except CovenantError as error:
        faults = tuple((e.pointer, e.detail) for e in error.errors)
        sys.exit(_report(error.message, error.hint, error.code, faults, 1))
    if isinstance(ended, int) and ended:
        sys.exit(ended)


def _report(
    message: str, hint: str, code: str, errors: tuple[tuple[str, str], ...], exit_code: int
) -> int:
    body: dict[str, Any] = {
        "detail": message,
        "hint": hint,
        "code": code,
        "errors": [{"pointer": p, "detail": d} for p, d in errors],
    }
    if "--json" in sys.argv:
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
    click.echo(f"covenant: {message}", err=True)
    for pointer, detail in errors:
        click.echo(f"  {pointer or '(document)'}: {detail}", err=True)
    if hint:
        click.echo(f"  {hint}", err=True)
    return exit_code


if __name__ == "__main__":
    main()
