"""What raises an alert, as people decide it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound, Stale
from console.services import audit
from deployments.models import AlertRule, AlertSeverity
from deployments.rules.alerts.defaults import BY_NAME
from deployments.rules.alerts.documents import parse_rule, rule_json
from deployments.selectors.alerts.known_signals import refuse_unknown
from deployments.services.alerts.records import TOPIC
from deployments.services.alerts.scopes import Scope, scope_of

NAME = re.compile(r"[a-z][a-z0-9-]{1,79}")
MOST_RULES = 500
LONGEST_TITLE = 200


def set_rule(
    *,
    name: str,
    title: str,
    severity: str,
    document: Mapping[str, Any],
    actor: Actor,
    enabled: bool = True,
    environment: str = "",
    model: str = "",
    node: str = "",
    expected_revision: int | None = None,
    reason: str = "",
) -> AlertRule:
    """Decide a rule anew, or make it; what is left out of the document has its default.

    The same again is once. Alerts that fire go on, and are judged by the new rule. Raises Invalid
    with a pointer for each fault (also for a signal that nothing ever measured), Stale when another
    revision is in force, NotAllowed.
    """
    require(actor, "alert_rule.change")
    scope = scope_of(environment, model, node, actor)
    require(actor, "alert_rule.change", scope.team_id)
    rule = parse_rule(document)
    wanted = rule_json(rule)
    _check(name, title, severity)
    with transaction.atomic():
        row = _locked(name, actor)
        before = _facts(row) if row is not None else None
        # What it looks at already may stay: a series may have been forgotten meanwhile.
        kept = row.document.get("conditions", ()) if row is not None else ()
        refuse_unknown(rule, user=actor.user, known={one.get("signal") for one in kept})
        revision = row.revision if row is not None else 0
        if expected_revision is not None and expected_revision != revision:
            raise Stale(
                f"The alert rule {name} is revision {revision} by now.",
                hint="Look at it again, then make your change.",
            )
        if row is None:
            if AlertRule.objects.count() >= MOST_RULES:
                raise Conflict(f"There are {MOST_RULES} alert rules.", code="too_many_rules")
            row = AlertRule(name=name, revision=0)
        row.title, row.severity, row.document = title.strip(), severity, wanted
        row.enabled = enabled
        row.environment, row.model, row.node = scope.environment, scope.model, scope.node
        if _facts(row) == before:
            return row
        row.revision += 1
        row.fault, row.changed_by = "", actor.user
        row.save()
        _record(row, "alert_rule.change", actor, reason, before)
    return row


def require_rule(name: str, actor: Actor) -> None:
    """Refuse whoever may not change the rule of that name, before anything else is said of it."""
    require(actor, "alert_rule.change")
    row = AlertRule.objects.visible_to(actor.user).filter(name=name).select_related("model").first()
    if row is not None and row.model is not None:
        require(actor, "alert_rule.change", row.model.team_id)


def restore_rule(*, name: str, actor: Actor, reason: str = "") -> AlertRule:
    """Put a built-in rule back to what the product came with, and switch it on.

    Raises NotFound (also for one that did not come with it), NotAllowed.
    """
    require_rule(name, actor)
    default = BY_NAME.get(name)
    if default is None:
        raise NotFound(
            f"No rule {name} came with the product.", hint="It can be changed or removed instead."
        )
    # It is about everything again: a role in one team is not enough.
    require(actor, "alert_rule.change", None)
    with transaction.atomic():
        row = _locked(name, actor) or AlertRule(name=name, revision=0)
        before = _facts(row) if row.revision else None
        row.title, row.severity, row.document = default.title, default.severity, default.to_json()
        row.enabled, row.built_in = True, True
        row.environment = row.model = row.node = None
        if _facts(row) == before:
            return row
        row.revision += 1
        row.fault, row.changed_by = "", actor.user
        row.save()
        _record(row, "alert_rule.restore", actor, reason, before)
    return row


def remove_rule(*, name: str, actor: Actor, reason: str = "") -> None:
    """Remove a rule that people made; its alerts are over at the next look.

    Raises NotFound, NotAllowed, Conflict `built_in_rule`.
    """
    require(actor, "alert_rule.change")
    with transaction.atomic():
        row = _locked(name, actor)
        if row is None:
            raise NotFound(f"There is no alert rule {name}.", hint="Look at the list of rules.")
        if row.built_in:
            raise Conflict(
                f"The alert rule {name} came with the product.",
                code="built_in_rule",
                hint="Switch it off instead.",
            )
        _record(row, "alert_rule.remove", actor, reason, _facts(row))
        row.delete()


def _locked(name: str, actor: Actor) -> AlertRule | None:
    """The rule, locked, where there is one; asks for the team of the model that it is about."""
    row = (
        AlertRule.objects.select_for_update(of=("self",))
        .select_related("environment", "model", "node")
        .filter(name=name)
        .first()
    )
    if row is None:
        return None
    if not AlertRule.objects.visible_to(actor.user).filter(pk=row.pk).exists():
        raise NotFound(f"There is no alert rule {name}.", hint="Look at the list of rules.")
    require(actor, "alert_rule.change", row.model.team_id if row.model else None)
    return row


def _check(name: str, title: str, severity: str) -> None:
    faults = []
    if not NAME.fullmatch(name):
        faults.append(FieldError("/name", "Small letters, digits and hyphens, a letter first."))
    if not title.strip():
        faults.append(FieldError("/title", "Say in a few words what is wrong when it fires."))
    elif len(title.strip()) > LONGEST_TITLE:
        faults.append(FieldError("/title", f"At most {LONGEST_TITLE} characters."))
    if severity not in AlertSeverity.values:
        faults.append(FieldError("/severity", f"One of {', '.join(AlertSeverity.values)}."))
    if faults:
        raise Invalid(
            "The alert rule cannot be read.",
            code="invalid_alert_rule",
            hint="Mend what is named, and send it again.",
            errors=tuple(faults),
        )


def _facts(row: AlertRule) -> dict[str, Any]:
    scope = Scope(row.environment, row.model, row.node)
    return {
        "title": row.title,
        "severity": row.severity,
        "enabled": row.enabled,
        "document": row.document,
        **scope.to_json(),
    }


def _record(
    row: AlertRule, action: str, actor: Actor, reason: str, before: dict[str, Any] | None
) -> None:
    live.publish(TOPIC, "alert_rule.changed")
    scope = Scope(row.environment, row.model, row.node)
    audit.record(
        actor=actor,
        action=action,
        subject=str(scope) or f"alert rule {row.name}",
        subject_url=f"/alerts/rules/{row.name}/",
        reason=reason.strip(),
        before={"rule": row.name, **before} if before else {},
        after={"rule": row.name, **_facts(row)} if action != "alert_rule.remove" else {},
    )
