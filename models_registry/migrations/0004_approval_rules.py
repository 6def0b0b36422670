"""Approval rules as data: what environments and releases asked for by role, written as rules."""

import django.contrib.postgres.fields
from django.db import migrations, models

SEATS = ("data_scientist", "sre", "business_owner")


def write_rules(apps, schema_editor):
    """One approval by a holder of each role, or of the seat of that name; not by who asked."""
    environments = apps.get_model("models_registry", "Environment")
    releases = apps.get_model("models_registry", "Release")
    approvals = apps.get_model("models_registry", "ReleaseApproval")
    admits = {}
    for environment in environments.objects.all():
        admits[environment.pk] = environment.author_may_approve
        if not environment.approval_rules:
            environment.approval_rules = [
                rule(role, environment.author_may_approve) for role in environment.approver_roles
            ]
            environment.save(update_fields=["approval_rules"])
    for release in releases.objects.exclude(required_roles=[]).iterator():
        release.required_rules = [
            rule(role, admits[release.environment_id]) for role in release.required_roles
        ]
        release.save(update_fields=["required_rules"])
    for approval in approvals.objects.all().iterator():
        approval.roles = [approval.role]
        approval.seats = [approval.role] if approval.role in SEATS else []
        approval.save(update_fields=["roles", "seats"])


def write_roles(apps, schema_editor):
    """Back: the roles that the rules name."""
    environments = apps.get_model("models_registry", "Environment")
    for environment in environments.objects.all():
        rules = environment.approval_rules
        roles = [role for rule in rules for role in rule["roles"]]
        environment.approver_roles = list(dict.fromkeys(roles))
        environment.author_may_approve = not any("requester" in rule["not"] for rule in rules)
        environment.save(update_fields=["approver_roles", "author_may_approve"])


def rule(role, author_may_approve):
    return {
        "count": 1,
        "roles": [role],
        "seats": [role] if role in SEATS else [],
        "not": [] if author_may_approve else ["requester"],
    }


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0003_governance")]

    operations = [
        migrations.AddField(
            model_name="breakglass",
            name="reminded_days",
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="release",
            name="required_rules",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="releaseapproval",
            name="roles",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=32), blank=True, default=list, size=None
            ),
        ),
        migrations.AddField(
            model_name="releaseapproval",
            name="seats",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=32), blank=True, default=list, size=None
            ),
        ),
        migrations.AddField(
            model_name="releaseapproval",
            name="superseded_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.RemoveConstraint(
            model_name="releaseapproval", name="one_decision_per_person"
        ),
        migrations.AddConstraint(
            model_name="releaseapproval",
            constraint=models.UniqueConstraint(
                condition=models.Q(("superseded_at__isnull", True)),
                fields=("release", "person"),
                name="one_decision_per_person",
            ),
        ),
        migrations.RunPython(write_rules, write_roles),
        migrations.RemoveField(model_name="environment", name="approver_roles"),
        migrations.RemoveField(model_name="environment", name="author_may_approve"),
    ]
