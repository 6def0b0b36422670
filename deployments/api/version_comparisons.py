"""`/api/v1/endpoints/…/compare/`: two versions side by side, with the figures of the page."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import user_of
from console.errors import NotFound
from deployments.rules.experiments.version_comparisons import Figures, on_one_axis
from deployments.rules.statistics.histograms import Histogram
from deployments.selectors.experiments.comparison_words import sentences
from deployments.selectors.experiments.version_comparisons import (
    Pair,
    VersionComparison,
    compare_versions,
    version_named,
)


class ComparedQuantileSerializer(serializers.Serializer[Any]):
    """In ms; `low` and `high` bound it with 95 % confidence, null with too few requests."""

    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)


class ComparedVersionSerializer(serializers.Serializer[Any]):
    """One version's figures; shares 0 to 1, times in ms."""

    version = serializers.IntegerField()
    requests = serializers.IntegerField()
    caller_faults = serializers.IntegerField()
    provider_faults = serializers.IntegerField()
    statuses = serializers.DictField(child=serializers.IntegerField())
    provider_share = serializers.FloatField(allow_null=True)
    caller_share = serializers.FloatField(allow_null=True)
    quantiles = serializers.DictField(child=ComparedQuantileSerializer())
    queue_ms = serializers.FloatField(allow_null=True)
    compute_ms = serializers.FloatField(allow_null=True)
    batch_size = serializers.FloatField(allow_null=True)


class ComparedSentenceSerializer(serializers.Serializer[Any]):
    """`verdict` is worse, better, alike, unknown, or empty for what only tells a figure."""

    subject = serializers.CharField()
    verdict = serializers.CharField(allow_blank=True)
    text = serializers.CharField()


class DistributionSeriesSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.IntegerField(allow_null=True)
    counts = serializers.ListField(child=serializers.IntegerField())


class DistributionSerializer(serializers.Serializer[Any]):
    """`counts[i]` values lie above `edges[i-1]` and at most at `edges[i]`; the last, above all.

    `low` is where the first of them begins; null: anywhere.
    """

    unit = serializers.CharField(allow_blank=True)
    low = serializers.FloatField(allow_null=True)
    edges = serializers.ListField(child=serializers.FloatField())
    series = DistributionSeriesSerializer(many=True)


class ComparedOutputSerializer(serializers.Serializer[Any]):
    """One output; faults are counted by kind. `values` is null for what is no number."""

    name = serializers.CharField(allow_blank=True)
    rows = serializers.IntegerField()
    differing_rows = serializers.IntegerField()
    max_difference = serializers.FloatField(allow_null=True)
    first_faults = serializers.DictField(child=serializers.IntegerField())
    second_faults = serializers.DictField(child=serializers.IntegerField())
    differences = DistributionSerializer()
    values = DistributionSerializer(allow_null=True)


class ComparedAnswersSerializer(serializers.Serializer[Any]):
    """Sampled requests that both versions were sent; `compared` were answered by both."""

    sampled = serializers.IntegerField()
    compared = serializers.IntegerField()
    differing = serializers.IntegerField()
    max_difference = serializers.FloatField(allow_null=True)
    first_faults = serializers.IntegerField()
    second_faults = serializers.IntegerField()
    outputs = ComparedOutputSerializer(many=True)


class VersionComparisonSerializer(serializers.Serializer[Any]):
    """Two versions over the minutes in which both had requests (`from` to `to`; null: never)."""

    environment = serializers.CharField()
    model = serializers.CharField()
    window = serializers.CharField()
    seconds = serializers.IntegerField()
    first = ComparedVersionSerializer()
    second = ComparedVersionSerializer()
    sentences = ComparedSentenceSerializer(many=True)
    latency = DistributionSerializer()
    answers = ComparedAnswersSerializer(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        # `from` cannot be a class attribute.
        moments = {name: serializers.DateTimeField(allow_null=True) for name in ("from", "to")}
        return {**super().get_fields(), **moments}


class CompareView(APIView):
    @extend_schema(
        summary="Compare two versions over the same minutes",
        parameters=[
            OpenApiParameter("a", int, description="Version; the baseline without it."),
            OpenApiParameter("b", int, description="Version; the candidate without it."),
            OpenApiParameter("window", str, description="15m, 1h, 6h, 24h, 7d; 15m without it."),
        ],
        responses=VersionComparisonSerializer,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        window = request.query_params.get("window", "15m")
        found = compare_versions(
            environment,
            model,
            a=version_named(request.query_params.get("a", ""), "a"),
            b=version_named(request.query_params.get("b", ""), "b"),
            window=window,
            now=timezone.now(),
            user=user_of(request),
        )
        if isinstance(found, Pair):
            raise NotFound(
                f"{environment}/{model} has no two versions to compare.",
                code="nothing_to_compare",
                hint="Deploy a second version there.",
            )
        return Response(VersionComparisonSerializer(answer(found, window)).data)


def answer(comparison: VersionComparison, window: str) -> dict[str, Any]:
    """The comparison as the API gives it."""
    since, until = comparison.shared or (None, None)
    return {
        "environment": comparison.endpoint.environment.name,
        "model": comparison.endpoint.model.name,
        "window": window,
        "from": since,
        "to": until,
        "seconds": comparison.seconds,
        "first": _figures(comparison.first),
        "second": _figures(comparison.second),
        "sentences": [asdict(one) for one in sentences(comparison)],
        "latency": _distribution(
            comparison, comparison.first.latency, comparison.second.latency, unit="ms", low=0.0
        ),
        "answers": _answers(comparison),
    }


def _figures(one: Figures) -> dict[str, Any]:
    quantiles = {
        name: {
            "value": found.value,
            "low": found.range[0] if found.range else None,
            "high": found.range[1] if found.range else None,
        }
        for name, found in one.quantiles.items()
    }
    return {
        **{
            field.name: getattr(one, field.name)
            for field in fields(one)
            if field.name not in ("latency", "quantiles")
        },
        "quantiles": quantiles,
    }


def _answers(comparison: VersionComparison) -> dict[str, Any] | None:
    answers = comparison.answers
    if answers is None:
        return None
    return {
        "sampled": answers.sampled,
        "compared": answers.compared,
        "differing": answers.differing,
        "max_difference": answers.max_difference,
        "first_faults": answers.baseline_faults,
        "second_faults": answers.candidate_faults,
        "outputs": [
            {
                "name": name,
                "rows": one.rows,
                "differing_rows": one.differing_rows,
                "max_difference": one.max_difference,
                "first_faults": one.baseline_faults,
                "second_faults": one.candidate_faults,
                "differences": {
                    "unit": "",
                    "low": 0.0,
                    "edges": list(one.differences.bounds),
                    "series": [
                        {"name": "", "version": None, "counts": list(one.differences.counts)}
                    ],
                },
                "values": _distribution(
                    comparison, one.baseline_values, one.candidate_values, unit="", low=None
                )
                if one.baseline_values or one.candidate_values
                else None,
            }
            for name, one in sorted(answers.outputs.items())
        ],
    }


def _distribution(
    comparison: VersionComparison,
    first: Histogram | None,
    second: Histogram | None,
    *,
    unit: str,
    low: float | None,
) -> dict[str, Any]:
    """Both under the same bounds, so that they can be drawn on one axis."""
    edges, counts = on_one_axis(first, second)
    versions = (comparison.first.version, comparison.second.version)
    series = [
        {"name": f"v{version}", "version": version, "counts": list(counted)}
        for version, counted in zip(versions, counts, strict=True)
    ]
    return {"unit": unit, "low": low, "edges": list(edges), "series": series}
