"""What serves goes on by a contract that expired, until another takes its place."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from deployments.selectors.traffic.routing import contracts_that_hold, fallback_of
from models_registry.models import ContractState
from models_registry.selectors.catalog import model_page
from models_registry.services import contract_expiry
from tests import factories

pytestmark = pytest.mark.django_db
AFTER = datetime(2026, 7, 1, tzinfo=UTC)


def test_the_fallback_of_an_expired_contract_stays_until_the_next_is_in_force() -> None:
    model = factories.make_model()
    for reason, last in (("first", None), ("second", "2026-06-30")):
        fallback = {"response": {"risk_score": 0.3, "reason": reason}}
        more = {} if last is None else {"valid_until": last}
        factories.make_contract(model, fallback=fallback, **more)
    other = factories.make_model("other_model", seats=False)
    factories.make_contract(other, state=ContractState.PROPOSED, valid_until="2026-06-30")

    def held() -> str:
        documents = contracts_that_hold({model.pk, other.pk})
        assert set(documents) == {model.pk}
        return str(fallback_of(documents[model.pk]).response["reason"])

    assert held() == "second"
    assert contract_expiry.watch_contracts(now=AFTER).expired == 2
    assert held() == "second"
    shown = model_page(model.name, user=model.owner).contract
    assert shown is not None
    assert (shown.revision, shown.state) == (2, ContractState.EXPIRED)
    factories.make_contract(model, fallback={"response": {"risk_score": 0.5, "reason": "third"}})
    assert held() == "third"
