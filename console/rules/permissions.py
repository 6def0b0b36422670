"""The one table of who may do what: action → roles and token scope."""

from __future__ import annotations

from dataclasses import dataclass

DATA_SCIENTIST = "data_scientist"
SRE = "sre"
BUSINESS_OWNER = "business_owner"
PLATFORM_ADMIN = "platform_admin"

EVERYBODY: frozenset[str] = frozenset()
MAKERS = frozenset({DATA_SCIENTIST, PLATFORM_ADMIN})
OPERATORS = frozenset({SRE, PLATFORM_ADMIN})
PEOPLE_OF_A_MODEL = frozenset({DATA_SCIENTIST, SRE, BUSINESS_OWNER, PLATFORM_ADMIN})

SCOPES = ("read", "write", "sign", "operate", "admin")


@dataclass(frozen=True, slots=True)
class ActionRule:
    """Roles that may do it (empty: everybody signed in), a token's scope, and the act in words.

    `per_team`: a role held in a team counts for what belongs to that team. It does not where the
    act concerns the whole installation. `persons_only`: a service account never may, whatever its
    roles say: a machine puts its name to nothing, and makes itself no longer lived.
    """

    roles: frozenset[str]
    scope: str
    words: str
    per_team: bool = True
    persons_only: bool = False


ACTIONS: dict[str, ActionRule] = {
    "read": ActionRule(EVERYBODY, "read", "read"),
    "model.create": ActionRule(MAKERS, "write", "register a model"),
    "model.change": ActionRule(MAKERS, "write", "change a model"),
    "upload.create": ActionRule(MAKERS, "write", "upload a file"),
    "version.create": ActionRule(MAKERS, "write", "create a version"),
    "version.archive": ActionRule(MAKERS, "write", "archive a version"),
    "version.try": ActionRule(PEOPLE_OF_A_MODEL, "write", "send a sample to a version"),
    "plan.build": ActionRule(OPERATORS, "operate", "build a TensorRT plan"),
    "load_test.run": ActionRule(
        frozenset({DATA_SCIENTIST, SRE, PLATFORM_ADMIN}), "write", "run a load test"
    ),
    # Beside load_test.run: load on what serves customers.
    "allow_load_test": ActionRule(OPERATORS, "operate", "load-test a production environment"),
    "contract.draft": ActionRule(PEOPLE_OF_A_MODEL, "write", "write a draft of a contract"),
    "contract.comment": ActionRule(PEOPLE_OF_A_MODEL, "write", "comment on a contract"),
    "contract.propose": ActionRule(PEOPLE_OF_A_MODEL, "write", "propose a contract"),
    "contract.withdraw": ActionRule(PEOPLE_OF_A_MODEL, "write", "withdraw a contract"),
    # The seat is checked as well: holding a role is not yet holding a seat.
    "contract.sign": ActionRule(PEOPLE_OF_A_MODEL, "sign", "sign a contract", persons_only=True),
    "release.request": ActionRule(
        frozenset({DATA_SCIENTIST, SRE, PLATFORM_ADMIN}), "write", "ask for a release"
    ),
    # The environment's policy decides which role counts.
    "release.decide": ActionRule(
        PEOPLE_OF_A_MODEL, "sign", "decide on a release", persons_only=True
    ),
    # Past the policy, with a reason that stays: the environment says who may.
    "release.break_glass": ActionRule(
        OPERATORS, "sign", "release against the policy", persons_only=True
    ),
    "release.review": ActionRule(
        OPERATORS, "write", "look into a release against the policy", persons_only=True
    ),
    "deployment.create": ActionRule(OPERATORS, "operate", "deploy"),
    "deployment.remove": ActionRule(OPERATORS, "operate", "remove a deployment"),
    "split.change": ActionRule(OPERATORS, "operate", "move traffic"),
    "endpoint.rollback": ActionRule(OPERATORS, "operate", "roll back"),
    "endpoint.mode": ActionRule(OPERATORS, "operate", "change an endpoint's mode"),
    "rollout.start": ActionRule(OPERATORS, "operate", "start a rollout"),
    "rollout.control": ActionRule(OPERATORS, "operate", "steer a rollout"),
    "rollback_policy.change": ActionRule(
        OPERATORS, "operate", "change when an endpoint goes to its fallback by itself"
    ),
    "incident.handle": ActionRule(PEOPLE_OF_A_MODEL, "write", "see to an incident"),
    "alert.handle": ActionRule(PEOPLE_OF_A_MODEL, "write", "acknowledge an alert"),
    "alert.silence": ActionRule(OPERATORS, "operate", "silence alerts"),
    "alert_rule.change": ActionRule(OPERATORS, "operate", "change what raises an alert"),
    "alert_channel.manage": ActionRule(
        OPERATORS, "operate", "say where alerts are sent", per_team=False
    ),
    "on_call.manage": ActionRule(OPERATORS, "operate", "say who is on call", per_team=False),
    "maintenance.propose": ActionRule(PEOPLE_OF_A_MODEL, "write", "propose a maintenance window"),
    "maintenance.agree": ActionRule(
        PEOPLE_OF_A_MODEL, "write", "agree to a maintenance window", persons_only=True
    ),
    "sla.exclude": ActionRule(
        PEOPLE_OF_A_MODEL, "write", "take time out of the count of a promise", persons_only=True
    ),
    "sla.share": ActionRule(
        frozenset({SRE, BUSINESS_OWNER, PLATFORM_ADMIN}), "write", "share a page of a promise"
    ),
    "sla.subscribe": ActionRule(EVERYBODY, "write", "have a promise’s report sent to oneself"),
    "telemetry.send": ActionRule(
        frozenset({DATA_SCIENTIST, SRE, PLATFORM_ADMIN}), "write", "send measurements of a model"
    ),
    "telemetry.change": ActionRule(
        frozenset({DATA_SCIENTIST, SRE, PLATFORM_ADMIN}), "write", "choose what is measured"
    ),
    "diagnosis.run": ActionRule(
        frozenset({DATA_SCIENTIST, SRE, PLATFORM_ADMIN}), "write", "have it found out why"
    ),
    "access.change": ActionRule(OPERATORS, "operate", "change who may call an endpoint"),
    "experiment.manage": ActionRule(
        frozenset({DATA_SCIENTIST, SRE, PLATFORM_ADMIN}), "write", "run an experiment"
    ),
    "caller.manage": ActionRule(
        OPERATORS, "operate", "manage callers and their keys", per_team=False
    ),
    "gateway.register": ActionRule(OPERATORS, "operate", "register a gateway", per_team=False),
    "node.register": ActionRule(OPERATORS, "operate", "register a node", per_team=False),
    "node.cordon": ActionRule(OPERATORS, "operate", "cordon a node", per_team=False),
    "node.verify": ActionRule(OPERATORS, "operate", "have a node verified", per_team=False),
    "statistics.manage": ActionRule(
        frozenset({PLATFORM_ADMIN}), "admin", "say how long counts are kept", per_team=False
    ),
    "environment.change": ActionRule(
        frozenset({PLATFORM_ADMIN}), "admin", "change an environment", per_team=False
    ),
    "environment.freeze": ActionRule(OPERATORS, "operate", "freeze an environment", per_team=False),
    "job.manage_own": ActionRule(EVERYBODY, "write", "manage one's own jobs"),
    # One's own jobs may always be cancelled and retried; this is for those of others.
    "job.manage": ActionRule(OPERATORS, "operate", "manage other people's jobs", per_team=False),
    "key.manage_own": ActionRule(EVERYBODY, "sign", "manage one's signing keys", persons_only=True),
    "token.manage_own": ActionRule(EVERYBODY, "admin", "manage one's tokens", persons_only=True),
    "second_factor.manage_own": ActionRule(
        EVERYBODY, "admin", "manage one's second factor", persons_only=True
    ),
    "notice.manage_own": ActionRule(EVERYBODY, "write", "see to one's notices"),
    "user.manage": ActionRule(
        frozenset({PLATFORM_ADMIN}),
        "admin",
        "manage people",
        per_team=False,
        persons_only=True,
    ),
    "team.manage": ActionRule(
        frozenset({PLATFORM_ADMIN}), "admin", "manage teams", per_team=False, persons_only=True
    ),
    "service_account.manage": ActionRule(
        frozenset({PLATFORM_ADMIN}),
        "admin",
        "manage service accounts",
        per_team=False,
        persons_only=True,
    ),
    "audit.read": ActionRule(EVERYBODY, "read", "read the audit trail"),
    "audit.export": ActionRule(EVERYBODY, "read", "export the audit trail"),
    "audit.manage": ActionRule(
        frozenset({PLATFORM_ADMIN}),
        "admin",
        "manage where the audit trail goes and how long it stays",
        per_team=False,
    ),
}
