"""How many of an endpoint's requests are looked at for its model's sake."""

from __future__ import annotations

from deployments.models import Endpoint, TelemetrySetting
from deployments.rules.telemetry.measuring import share_of
from models_registry.rules.contract_document import ContractDocument


def chosen_of(endpoint: Endpoint) -> tuple[bool, int] | None:
    """What people chose for the endpoint; expects `telemetry_setting` to be loaded."""
    setting: TelemetrySetting | None = getattr(endpoint, "telemetry_setting", None)
    return None if setting is None else (setting.measured, setting.basis_points)


def share_of_endpoint(endpoint: Endpoint, contract: ContractDocument | None) -> int:
    """Basis points of the endpoint's requests to look at for its model's sake."""
    promised = contract is not None and contract.drift is not None
    return share_of(promised=promised, chosen=chosen_of(endpoint))
