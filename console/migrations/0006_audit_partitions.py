"""Partition the audit trail by month, and a table where what happens often is summed up.

Rows move into the new table as they are: sequence, digests and all. Uniqueness of the sequence
cannot be an index of a table that is partitioned by time; the lock of the head's row keeps it,
and verification looks for numbers that stand twice.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

PARTITION = """
alter table console_auditentry rename to console_auditentry_whole;
alter table console_auditentry_whole rename constraint console_auditentry_pkey
    to console_auditentry_whole_pkey;
create table console_auditentry (like console_auditentry_whole) partition by range (at);

do $$
declare
    month timestamp := date_trunc('month', least(
        (select min(at) from console_auditentry_whole), now()) at time zone 'UTC');
    last timestamp := date_trunc('month', now() at time zone 'UTC') + interval '12 months';
begin
    while month <= last loop
        execute format(
            'create table console_auditentry_%s partition of console_auditentry '
            'for values from (%L) to (%L)',
            to_char(month, '"y"YYYY"m"MM'),
            to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00',
            to_char(month + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00');
        month := month + interval '1 month';
    end loop;
end $$;

insert into console_auditentry select * from console_auditentry_whole order by sequence;
drop table console_auditentry_whole;

create sequence console_auditentry_id_seq owned by console_auditentry.id;
select setval('console_auditentry_id_seq', coalesce((select max(id) from console_auditentry), 1));
alter table console_auditentry alter column id set default nextval('console_auditentry_id_seq');
alter table console_auditentry add constraint console_auditentry_pkey primary key (id, at);
alter table console_auditentry add constraint audit_sequence unique (sequence, at);
create index audit_actor_recent on console_auditentry (actor_username, sequence desc);
create index audit_action_recent on console_auditentry
    (action varchar_pattern_ops, sequence desc);
create index audit_subject_recent on console_auditentry
    (subject varchar_pattern_ops, sequence desc);
create index audit_at_recent on console_auditentry (at desc, sequence desc);
create index audit_request on console_auditentry (request_id) where request_id <> '';

create trigger audit_append_only before update or delete on console_auditentry
    for each row execute function covenant_audit_is_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("console", "0005_sessions")]

    operations = [
        migrations.RunSQL(
            PARTITION,
            state_operations=[
                migrations.RemoveIndex(model_name="auditentry", name="audit_subject_recent"),
                migrations.RemoveIndex(model_name="auditentry", name="audit_at"),
                migrations.AlterField(
                    model_name="auditentry",
                    name="action",
                    field=models.CharField(max_length=64),
                ),
                migrations.AlterField(
                    model_name="auditentry",
                    name="actor_username",
                    field=models.CharField(max_length=64),
                ),
                migrations.AlterField(
                    model_name="auditentry",
                    name="subject",
                    field=models.CharField(max_length=200),
                ),
                migrations.AddIndex(
                    model_name="auditentry",
                    index=models.Index(
                        fields=["actor_username", "-sequence"], name="audit_actor_recent"
                    ),
                ),
                migrations.AddIndex(
                    model_name="auditentry",
                    index=models.Index(
                        fields=["action", "-sequence"],
                        name="audit_action_recent",
                        opclasses=["varchar_pattern_ops", "int8_ops"],
                    ),
                ),
                migrations.AddIndex(
                    model_name="auditentry",
                    index=models.Index(
                        fields=["subject", "-sequence"],
                        name="audit_subject_recent",
                        opclasses=["varchar_pattern_ops", "int8_ops"],
                    ),
                ),
                migrations.AddIndex(
                    model_name="auditentry",
                    index=models.Index(fields=["-at", "-sequence"], name="audit_at_recent"),
                ),
                migrations.AddIndex(
                    model_name="auditentry",
                    index=models.Index(
                        condition=models.Q(("request_id", ""), _negated=True),
                        fields=["request_id"],
                        name="audit_request",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AuditOccurrence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=64, unique=True)),
                ("action", models.CharField(max_length=64)),
                ("subject", models.CharField(max_length=200)),
                ("subject_url", models.CharField(blank=True, max_length=300)),
                ("details", models.JSONField(default=dict)),
                ("reason", models.TextField(blank=True)),
                ("source", models.CharField(blank=True, max_length=100)),
                ("request_id", models.CharField(blank=True, max_length=64)),
                ("count", models.PositiveIntegerField(default=0)),
                ("first_at", models.DateTimeField(blank=True, null=True)),
                ("last_at", models.DateTimeField()),
                ("entered_at", models.DateTimeField(db_index=True)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
    ]
