"""All series that a node's machine, its GPUs and the versions on it have."""

from __future__ import annotations

from typing import Final

from deployments.rules.fleet import gpus, hosts, triton_numbers
from deployments.rules.fleet.gpu_fields import FIELDS
from deployments.rules.fleet.machine_series import MachineSeries
from models_registry.rules.contract_terms import gettext_noop as _

OF_TRITON: Final = (
    MachineSeries(
        "triton_pinned_memory_used_percent", "%", _("Pinned memory used"), warn=90, bad=99
    ),
)
OF_GPUS: Final = (
    *(
        MachineSeries(f.series, f.unit, f.title, f.warn, f.bad, f.below, f.bad_values)
        for f in FIELDS
    ),
    *gpus.SHARES,
)
SERIES: Final = {
    one.series: one for one in (*OF_GPUS, *hosts.SERIES, *triton_numbers.SERIES, *OF_TRITON)
}


def unit_of(series: str) -> str:
    """The unit of a series; "" for one without, or not known."""
    known = SERIES.get(series)
    return known.unit if known else ""
