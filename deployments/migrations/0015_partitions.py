"""Partition by month what grows each minute: roll-ups, copies' counts, measured series.

No row is moved: the table as it was becomes the first partition, of everything up to the month
after its newest row. What fits no month's table goes into the default one, so that a clock that is
wrong costs nobody a count; a month that is made later takes its rows out of there.
"""

from django.db import migrations

_BRIN = "create index {name} on {table} using brin (minute) with (pages_per_range = 32);"

_PARTITION = """
alter table {table} rename to {table}_before;
alter table {table}_before rename constraint {table}_pkey to {table}_before_pkey;
alter table {table}_before rename constraint {unique} to {unique}_before;
alter table {table}_before alter column id drop identity if exists;
{renames}
create table {table} (like {table}_before) partition by range (minute);
create table {table}_rest partition of {table} default;

do $$
declare
    newest timestamptz := (select max(minute) from {table}_before);
    month timestamp := date_trunc('month', now() at time zone 'UTC');
    last timestamp := month + interval '3 months';
begin
    if newest is null then
        drop table {table}_before;
    else
        month := greatest(date_trunc('month', newest at time zone 'UTC') + interval '1 month',
                          month);
        alter table {table}_before drop constraint {table}_before_pkey;
        execute format('alter table {table} attach partition {table}_before '
                       'for values from (minvalue) to (%L)',
                       to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00');
    end if;
    while month <= last loop
        execute format(
            'create table {table}_%s partition of {table} for values from (%L) to (%L)',
            to_char(month, '"y"YYYY"m"MM'),
            to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00',
            to_char(month + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00');
        month := month + interval '1 month';
    end loop;
end $$;

create sequence {table}_id_seq owned by {table}.id;
select setval('{table}_id_seq', coalesce((select max(id) from {table}), 1));
alter table {table} alter column id set default nextval('{table}_id_seq');
alter table {table} add constraint {table}_pkey primary key (id, minute);
alter table {table} add constraint {unique} unique ({key}, minute);
{foreign}
{indexes}
"""


def _partition(table, unique, key, parent, renamed=(), indexes=""):
    column = key.split(",")[0]
    return _PARTITION.format(
        table=table,
        unique=unique,
        key=key,
        renames="\n".join(f"alter index {name} rename to {name}_before;" for name in renamed),
        foreign=(
            f"alter table {table} add constraint {table}_{column}_fk "
            f"foreign key ({column}) references {parent} (id) deferrable initially deferred;"
        ),
        indexes=indexes,
    )


class Migration(migrations.Migration):
    dependencies = [("deployments", "0014_rollups")]

    operations = [
        migrations.RunSQL(
            _partition(
                "deployments_minuterollup",
                "rollup_once",
                "endpoint_id, version",
                "deployments_endpoint",
                ("rollup_endpoint_minute", "rollup_minute_brin"),
                "create index rollup_endpoint_minute on deployments_minuterollup "
                "(endpoint_id, minute);"
                + _BRIN.format(name="rollup_minute_brin", table="deployments_minuterollup"),
            )
        ),
        migrations.RunSQL(
            _partition(
                "deployments_mirrorminute",
                "mirror_minute_once",
                "endpoint_id, version",
                "deployments_endpoint",
            )
        ),
        migrations.RunSQL(
            _partition(
                "deployments_seriesminute",
                "series_minute_once",
                "series_id",
                "deployments_measuredseries",
                ("series_minute_brin",),
                _BRIN.format(name="series_minute_brin", table="deployments_seriesminute"),
            )
        ),
    ]
