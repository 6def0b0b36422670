"""What contract and access policy make of one request, as gateways are told."""

from __future__ import annotations

import pytest

from deployments.models import AccessPolicy, Endpoint
from deployments.rules.gateways.state import EndpointState
from deployments.selectors.traffic.routing import endpoint_states
from deployments.services.traffic.splits import set_split
from models_registry.models import ContractState, ModelVersion, ServiceContract
from tests import factories
from tests.deployments.conftest import Fleet, ready_version


@pytest.fixture
def fleet(fleet_rows: Fleet) -> Fleet:
    """Two versions that are ready, the second one on trial."""
    model = factories.make_model()
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version(model))
    set_split(
        environment="production",
        model=model.name,
        weights={1: 90, 2: 10},
        expected_revision=None,
        reason="A trial.",
        actor=fleet_rows.sam,
    )
    return fleet_rows


def state() -> EndpointState:
    (found,) = endpoint_states([Endpoint.objects.get().environment_id])
    return found


def test_without_a_contract_half_a_second_is_given_and_no_limits_are_checked(fleet: Fleet) -> None:
    ServiceContract.objects.update(state=ContractState.WITHDRAWN)
    found = state()
    assert (found.timeout_ms, found.input_rules, found.idempotent) == (500, None, False)
    assert found.retry_onto == 1


def test_the_contract_says_what_fits_and_how_long_a_caller_waits(fleet: Fleet) -> None:
    model = Endpoint.objects.get().model
    ModelVersion.objects.update(config_origins={"max_batch_size": {"value": 32}})
    factories.make_contract(model, request={"timeout_ms": 900, "idempotent": True})
    found = state()
    assert (found.timeout_ms, found.idempotent) == (900, True)
    assert found.input_rules is not None
    (rule,) = found.input_rules.inputs
    assert (rule.name, rule.datatype, rule.refuse_nan) == ("features", "FP32", True)
    assert found.input_rules.most_rows == 32


def test_the_policy_goes_before_the_contract(fleet: Fleet) -> None:
    endpoint = Endpoint.objects.get()
    factories.make_contract(endpoint.model, request={"timeout_ms": 900})
    AccessPolicy.objects.create(
        endpoint=endpoint,
        changed_by=factories.people().sam,
        document={
            "limits": {"timeout_ms": 250, "max_concurrent": 7},
            "retries": {"onto_baseline": False},
        },
    )
    found = state()
    assert (found.timeout_ms, found.retry_onto) == (250, None)
    assert found.access.limits.max_concurrent == 7
