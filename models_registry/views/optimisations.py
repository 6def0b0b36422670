"""The panel of a version's lighter variants, and asking for one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from console.api.authentication import actor_of, user_of
from models_registry.models import ModelVersion, Optimisation, VersionState
from models_registry.rules import optimisations
from models_registry.selectors.variants import Family, VariantRow, family_of
from models_registry.selectors.versions import find_version
from models_registry.services.optimisations import optimise_version
from models_registry.views.refusals import REFUSED, may, tell
from models_registry.views.version_words import small

EXPLAINED = {
    Optimisation.SIMPLIFY: gettext_lazy(
        "Folds constants and drops what has no use. Same answers, standard operators."
    ),
    Optimisation.GRAPH: gettext_lazy(
        "Fuses operators the way ONNX Runtime does on the CPU. Same answers, ONNX Runtime only."
    ),
    Optimisation.FP16: gettext_lazy(
        "Half the size, about three digits. Faster on a GPU, not on a CPU."
    ),
    Optimisation.INT8: gettext_lazy(
        "A quarter of the size, coarser. Faster for large matrix products, not for convolutions."
    ),
}


@require_http_methods(["GET", "HEAD", "POST"])
def variants(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """The panel alone; a POST makes a variant and leads to its page."""
    version = find_version(name, number, user=user_of(request))
    if request.method != "POST":
        context = {"model": version.model, "version": version, **panel(request, version)}
        return render(request, "models_registry/versions/_variants.html", context)
    try:
        made, _job = optimise_version(
            version=version,
            optimisation=request.POST.get("optimisation", ""),
            keep_io="change_io" not in request.POST,
            actor=actor_of(request),
        )
    except REFUSED as error:
        tell(request, error)
        return redirect("models_registry:version-detail", name, number)
    messages.success(request, _("The variant is being made and compared with the source."))
    return redirect("models_registry:version-detail", name, made.number)


def panel(request: HttpRequest, version: ModelVersion) -> dict[str, Any]:
    """What `_variants.html` needs; {} where there is nothing to show yet."""
    family = family_of(version)
    original = family.original.version
    validated = original.state == VersionState.VALIDATED
    if not validated and not family.variants:
        return {}
    offered = validated and may(actor_of(request), "version.create", version.model)
    operators, opset = original.facts.get("operators", {}), int(original.facts.get("opset", 0))
    return {
        "family": family,
        "family_rows": [
            {"how": None, "rows": [_words(family.original, version, family)]},
            *(
                {
                    "how": how,
                    "label": how.label,
                    "explained": EXPLAINED[how],
                    "rows": [
                        _words(row, version, family)
                        for row in family.variants
                        if row.version.optimisation == how
                    ],
                    "offered": _missing(family, how)
                    if offered
                    and original.onnx_data_id is None
                    and optimisations.refusal(how, operators, opset) is None
                    else (),
                }
                for how in Optimisation
            ),
        ],
        "may_optimise": offered,
        "too_large": original.onnx_data_id is not None,
    }


def _missing(family: Family, how: Optimisation) -> tuple[str, ...]:
    """What can still be made: "same" inputs and outputs, and for FP16 "changed" ones."""
    alive = {
        row.keeps_io
        for row in family.variants
        if row.version.optimisation == how
        and row.version.state not in (VersionState.REJECTED, VersionState.ARCHIVED)
    }
    kinds = (("same", True), ("changed", False)) if how == Optimisation.FP16 else (("same", True),)
    return tuple(name for name, keeps in kinds if keeps not in alive)


def _words(row: VariantRow, shown: ModelVersion, family: Family) -> dict[str, Any]:
    return {
        "row": row,
        "version": row.version,
        "is_shown": row.version.pk == shown.pk,
        "size": row.size_bytes,
        "size_change": change(row.size_share),
        "p50": [(batch, row.p50_ms.get(batch)) for batch in family.batches],
        "p50_change": change(row.p50_share),
        "max_abs": small(row.max_abs) if row.max_abs is not None else "",
    }


def change(share: float | None) -> str:
    """−74 % or +12 %; nothing without a figure, and for less than half a percent.

    >>> change(0.26)
    '−74\u00a0%'
    """
    if share is None:
        return ""
    percent = round((share - 1) * 100)
    if percent == 0:
        return ""
    return f"{'+' if percent > 0 else '−'}{abs(percent)}\u00a0%"
