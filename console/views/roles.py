"""Who may do what, in words."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from console.models import Role
from console.selectors.permissions import ROLES, permission_groups

GROUP_WORDS = {
    "models": _("Models and versions"),
    "contracts": _("Contracts"),
    "releases": _("Releases"),
    "traffic": _("Deployments and traffic"),
    "promises": _("Promises, alerts and measurements"),
    "installation": _("Nodes, environments, jobs and audit"),
    "people": _("People"),
    "own": _("What everybody may"),
}
ROLE_WORDS = {
    Role.DATA_SCIENTIST: _("Makes models: uploads, versions, contracts, asks for releases."),
    Role.SRE: _("Operates them: deploys, moves traffic, rolls back, keeps the nodes."),
    Role.BUSINESS_OWNER: _("Answers for the promise: signs contracts, decides on releases."),
    Role.PLATFORM_ADMIN: _("Runs the installation: people, teams, environments, and all of it."),
    Role.VIEWER: _("Reads, and changes nothing but their own settings."),
}
ACTION_WORDS = {
    "read": _("Read what is there"),
    "model.create": _("Register a model"),
    "model.change": _("Change a model, its seats and aliases"),
    "upload.create": _("Upload a file"),
    "version.create": _("Create a version"),
    "version.archive": _("Archive a version"),
    "version.try": _("Send a sample to a version"),
    "plan.build": _("Build a TensorRT plan"),
    "load_test.run": _("Run a load test"),
    "allow_load_test": _("Load-test a production environment"),
    "contract.draft": _("Write a draft of a contract"),
    "contract.comment": _("Comment on a contract"),
    "contract.propose": _("Propose a contract"),
    "contract.withdraw": _("Withdraw a contract"),
    "contract.sign": _("Sign a contract, from one’s seat"),
    "release.request": _("Ask for a release, or withdraw it"),
    "release.decide": _("Approve or refuse, as the environment’s policy asks"),
    "release.break_glass": _("Release against the policy, with a reason"),
    "release.review": _("Look into a release against the policy"),
    "deployment.create": _("Deploy"),
    "deployment.remove": _("Remove a deployment"),
    "split.change": _("Move traffic"),
    "endpoint.rollback": _("Roll back"),
    "endpoint.mode": _("Switch to the fallback, or open the circuit"),
    "rollout.start": _("Start a rollout"),
    "rollout.control": _("Pause, skip, promote or abort a rollout"),
    "rollback_policy.change": _("Say when an endpoint goes to its fallback by itself"),
    "incident.handle": _("See to an incident"),
    "alert.handle": _("Acknowledge an alert"),
    "alert.silence": _("Silence alerts for a while"),
    "alert_rule.change": _("Say what raises an alert"),
    "alert_channel.manage": _("Say where alerts are sent, and test it"),
    "on_call.manage": _("Say who is on call, and when"),
    "maintenance.propose": _("Propose or withdraw a maintenance window"),
    "maintenance.agree": _("Agree to a maintenance window, from one’s seat"),
    "sla.exclude": _("Take time out of the count of a promise, from one’s seat"),
    "sla.share": _("Share a promise’s page by a link that expires"),
    "sla.subscribe": _("Have a promise’s report sent each month"),
    "telemetry.send": _("Send measurements of a model"),
    "telemetry.change": _("Choose what is measured of a model"),
    "diagnosis.run": _("Have it found out why a version does not load"),
    "access.change": _("Say who may call an endpoint, and how often"),
    "experiment.manage": _("Run an experiment"),
    "caller.manage": _("Manage callers, their keys, and token issuers"),
    "gateway.register": _("Register a gateway and its certificates"),
    "node.register": _("Register a node"),
    "node.cordon": _("Cordon or reconcile a node"),
    "node.verify": _("Have a node verified"),
    "statistics.manage": _("Say how long counts are kept"),
    "environment.change": _("Change an environment and its policy"),
    "environment.freeze": _("Freeze an environment"),
    "job.manage_own": _("Cancel and retry one’s own jobs"),
    "job.manage": _("Cancel and retry other people’s jobs"),
    "key.manage_own": _("Enrol and revoke one’s signing keys"),
    "token.manage_own": _("Make and revoke one’s tokens"),
    "second_factor.manage_own": _("Set up one’s second factor"),
    "notice.manage_own": _("See to one’s notices"),
    "user.manage": _("Manage people and invitations"),
    "team.manage": _("Manage teams"),
    "service_account.manage": _("Manage service accounts"),
    "audit.read": _("Read the audit trail"),
    "audit.export": _("Export the audit trail"),
    "audit.manage": _("Say where the audit trail goes, and for how long it stays"),
}


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """The table of permissions, with what each role is for."""
    groups: list[dict[str, Any]] = [
        {
            "title": GROUP_WORDS[name],
            "rows": [
                {
                    "words": ACTION_WORDS[row.action],
                    "row": row,
                    "cells": [(role.label, may) for role, may in zip(ROLES, row.may, strict=True)],
                }
                for row in rows
            ],
        }
        for name, rows in permission_groups()
    ]
    context = {
        "groups": groups,
        "roles": ROLES,
        "roles_explained": [(role.label, ROLE_WORDS[role]) for role in ROLES],
    }
    return render(request, "console/settings/roles.html", context)
