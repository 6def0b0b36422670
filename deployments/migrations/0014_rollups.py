import django.contrib.postgres.indexes
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0006_audit_partitions"),
        ("deployments", "0013_sla_standings"),
        ("models_registry", "0005_reference_samples"),
    ]

    operations = [
        migrations.CreateModel(
            name="CountGap",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("source", models.CharField(max_length=80)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "why",
                    models.CharField(
                        choices=[
                            ("restarted", "Began anew"),
                            ("unreachable", "Could not be read"),
                            ("not_collected", "Nobody collected"),
                        ],
                        max_length=16,
                    ),
                ),
                ("lost", models.BooleanField(default=False)),
                ("detail", models.CharField(blank=True, max_length=300)),
            ],
            options={
                "ordering": ["-started_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="DayRollup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                ("requests", models.BigIntegerField(default=0)),
                ("caller_faults", models.BigIntegerField(default=0)),
                ("provider_faults", models.BigIntegerField(default=0)),
                ("statuses", models.JSONField(default=dict)),
                ("bounds_ms", models.JSONField(default=list)),
                ("buckets", models.JSONField(default=list)),
                ("inference_count", models.BigIntegerField(default=0)),
                ("execution_count", models.BigIntegerField(default=0)),
                ("queue_ns", models.BigIntegerField(default=0)),
                ("compute_ns", models.BigIntegerField(default=0)),
                ("triton_failures", models.BigIntegerField(default=0)),
                ("day", models.DateTimeField()),
                ("minutes", models.PositiveSmallIntegerField(default=0)),
            ],
            options={
                "ordering": ["day"],
            },
        ),
        migrations.CreateModel(
            name="HourRollup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                ("requests", models.BigIntegerField(default=0)),
                ("caller_faults", models.BigIntegerField(default=0)),
                ("provider_faults", models.BigIntegerField(default=0)),
                ("statuses", models.JSONField(default=dict)),
                ("bounds_ms", models.JSONField(default=list)),
                ("buckets", models.JSONField(default=list)),
                ("inference_count", models.BigIntegerField(default=0)),
                ("execution_count", models.BigIntegerField(default=0)),
                ("queue_ns", models.BigIntegerField(default=0)),
                ("compute_ns", models.BigIntegerField(default=0)),
                ("triton_failures", models.BigIntegerField(default=0)),
                ("hour", models.DateTimeField()),
                ("minutes", models.PositiveSmallIntegerField(default=0)),
            ],
            options={
                "ordering": ["hour"],
            },
        ),
        migrations.CreateModel(
            name="RetentionPolicy",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("minutes_days", models.PositiveIntegerField(default=100)),
                ("hours_days", models.PositiveIntegerField(default=800)),
                ("days_days", models.PositiveIntegerField(default=0)),
                ("series_minutes_days", models.PositiveIntegerField(default=35)),
                ("series_hours_days", models.PositiveIntegerField(default=400)),
                ("mirrors_days", models.PositiveIntegerField(default=100)),
                ("comparisons_days", models.PositiveIntegerField(default=100)),
                ("outcomes_days", models.PositiveIntegerField(default=400)),
                ("gaps_days", models.PositiveIntegerField(default=800)),
                ("revision", models.PositiveIntegerField(default=0)),
                ("updated_at", models.DateTimeField(blank=True, null=True)),
                ("last_run_at", models.DateTimeField(blank=True, null=True)),
                ("last_run", models.JSONField(blank=True, default=dict)),
            ],
            options={
                "verbose_name_plural": "retention policies",
            },
        ),
        migrations.CreateModel(
            name="RolledSpan",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("hour", "Hour"),
                            ("day", "Day"),
                            ("series_hour", "Hour of measured series"),
                        ],
                        max_length=12,
                    ),
                ),
                ("start", models.DateTimeField()),
                ("rolled_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SeriesHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hour", models.DateTimeField()),
                ("count", models.PositiveBigIntegerField()),
                ("total", models.FloatField()),
                ("minimum", models.FloatField()),
                ("maximum", models.FloatField()),
                ("newest", models.FloatField()),
                ("newest_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["hour"],
            },
        ),
        migrations.AlterField(
            model_name="minuterollup",
            name="endpoint",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="deployments.endpoint",
            ),
        ),
        migrations.AlterField(
            model_name="mirrorminute",
            name="endpoint",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="deployments.endpoint",
            ),
        ),
        migrations.AlterField(
            model_name="seriesminute",
            name="series",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="deployments.measuredseries",
            ),
        ),
        migrations.AddIndex(
            model_name="minuterollup",
            index=django.contrib.postgres.indexes.BrinIndex(
                fields=["minute"], name="rollup_minute_brin", pages_per_range=32
            ),
        ),
        migrations.AddIndex(
            model_name="seriesminute",
            index=django.contrib.postgres.indexes.BrinIndex(
                fields=["minute"], name="series_minute_brin", pages_per_range=32
            ),
        ),
        migrations.AddIndex(
            model_name="countgap",
            index=models.Index(fields=["source", "started_at"], name="gap_source_started"),
        ),
        migrations.AddConstraint(
            model_name="countgap",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)),
                fields=("source",),
                name="one_open_gap_per_source",
            ),
        ),
        migrations.AddField(
            model_name="dayrollup",
            name="endpoint",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="deployments.endpoint",
            ),
        ),
        migrations.AddField(
            model_name="hourrollup",
            name="endpoint",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="deployments.endpoint",
            ),
        ),
        migrations.AddField(
            model_name="retentionpolicy",
            name="updated_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="rolledspan",
            constraint=models.UniqueConstraint(fields=("kind", "start"), name="rolled_once"),
        ),
        migrations.AddField(
            model_name="serieshour",
            name="series",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="deployments.measuredseries",
            ),
        ),
        migrations.AddIndex(
            model_name="dayrollup",
            index=models.Index(fields=["endpoint", "day"], name="day_endpoint_day"),
        ),
        migrations.AddConstraint(
            model_name="dayrollup",
            constraint=models.UniqueConstraint(
                fields=("endpoint", "version", "day"), name="day_once"
            ),
        ),
        migrations.AddIndex(
            model_name="hourrollup",
            index=models.Index(fields=["endpoint", "hour"], name="hour_endpoint_hour"),
        ),
        migrations.AddIndex(
            model_name="hourrollup",
            index=models.Index(fields=["hour"], name="hour_hour"),
        ),
        migrations.AddConstraint(
            model_name="hourrollup",
            constraint=models.UniqueConstraint(
                fields=("endpoint", "version", "hour"), name="hour_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="retentionpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(("pk", 1)), name="one_retention_policy"
            ),
        ),
        migrations.AddIndex(
            model_name="serieshour",
            index=models.Index(fields=["hour"], name="series_hour_hour"),
        ),
        migrations.AddConstraint(
            model_name="serieshour",
            constraint=models.UniqueConstraint(fields=("series", "hour"), name="series_hour_once"),
        ),
    ]
