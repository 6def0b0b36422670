"""The routes that a new installation begins with, and what happens when nobody acknowledges."""

from django.db import migrations

STEPS = ((10, "on_call"), (20, "operators"), (40, "admins"))
ROUTES = (("urgent", 100, ["P1"], "call"), ("everything-else", 200, [], "inbox"))


def begin(apps, schema_editor):
    policy = apps.get_model("deployments", "EscalationPolicy").objects.create(name="default")
    steps = apps.get_model("deployments", "EscalationStep")
    for minutes, target in STEPS:
        steps.objects.create(policy=policy, after_minutes=minutes, target=target)
    routes = apps.get_model("deployments", "AlertRoute")
    for name, position, severities, people in ROUTES:
        routes.objects.create(
            name=name,
            position=position,
            severities=severities,
            people=people,
            policy=policy if people == "call" else None,
        )
    # Mail to who is on call is a message like any other now; what was asked for before ends
    # with a clear word, and is no kind of job that nobody knows any more.
    apps.get_model("console", "Job").objects.filter(kind="call_by_mail").update(
        kind="deliver_alert"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0006_audit_partitions"),
        ("deployments", "0017_alert_defaults"),
    ]

    operations = [migrations.RunPython(begin, migrations.RunPython.noop)]
