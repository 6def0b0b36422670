from django.db import migrations

TRIGGER = """
create function covenant_audit_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'audit entries are append-only: % is refused', tg_op;
end $$;
create trigger audit_append_only before update or delete on console_auditentry
    for each row execute function covenant_audit_is_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("console", "0001_initial")]

    operations = [
        migrations.RunSQL(
            TRIGGER,
            "drop trigger audit_append_only on console_auditentry;"
            "drop function covenant_audit_is_append_only();",
        )
    ]
