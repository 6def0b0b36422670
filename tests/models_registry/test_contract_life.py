"""A contract's last day, what breaks callers, and the clauses that a risk class asks for."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.errors import Conflict, CovenantError, Invalid
from console.models import AuditEntry, Notice
from models_registry.models import ContractState, ModelVersion, RiskClass, ServiceContract
from models_registry.rules import contract_clauses, contract_validity
from models_registry.rules.contract_document import from_json
from models_registry.services import catalog, contract_checks, contract_expiry, contracts
from models_registry.services.release_checks import verify_release
from models_registry.services.release_requests import request_release
from tests import factories
from tests.factories import People, actor
from tests.models_registry import signing

LAST = date(2026, 6, 30)
NOON = datetime(2026, 6, 30, 12, tzinfo=UTC)
END = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture
def people(db: None) -> People:
    return factories.people()


def propose(people: People, now: datetime | None = None, **options: Any) -> ServiceContract:
    changes = options.pop("changes", {})
    model = options.pop("model", None) or factories.make_model()
    return contracts.propose_contract(
        model=model,
        document=json.dumps(factories.contract_body(**changes)),
        now=now,
        actor=actor(people.dana),
        **options,
    )


def sign(contract: ServiceContract, user: Any, now: datetime | None = None) -> None:
    signing.enrol(user)
    envelope = signing.contract_envelope(user, contract.payload)
    contracts.sign_contract(contract=contract, envelope=envelope, now=now, actor=actor(user))


def code_of(refused: pytest.ExceptionInfo[CovenantError]) -> str:
    assert refused.value.hint
    return refused.value.code


@pytest.mark.parametrize(
    ("moment", "past", "left", "warning"),
    [
        (datetime(2026, 5, 30, 23, 59, tzinfo=UTC), False, 31, None),
        (datetime(2026, 5, 31, tzinfo=UTC), False, 30, 30),
        (datetime(2026, 6, 22, 23, 59, 59, tzinfo=UTC), False, 8, 30),
        (datetime(2026, 6, 23, tzinfo=UTC), False, 7, 7),
        (END - timedelta(microseconds=1), False, 0, 7),
        (END, True, -1, None),
        # The server's day counts, in UTC: it is still June in New York, and July in Tokyo.
        (datetime.fromisoformat("2026-06-30T20:00:00-04:00"), True, -1, None),
        (datetime.fromisoformat("2026-07-01T08:59:59+09:00"), False, 0, 7),
    ],
)
def test_the_last_day_ends_at_midnight_utc(
    moment: datetime, past: bool, left: int, warning: int | None
) -> None:
    assert contract_validity.is_past(LAST, moment) is past
    assert contract_validity.days_left(LAST, moment) == left
    assert contract_validity.warning_due(LAST, moment) == warning
    assert contract_validity.end_of(LAST) == END
    assert not contract_validity.is_past(None, moment)


def test_a_last_day_that_is_over_is_not_proposed_and_today_is(people: People) -> None:
    changes = {"valid_until": LAST.isoformat()}
    with pytest.raises(Invalid) as refused:
        propose(people, END, changes=changes)
    assert code_of(refused) == "valid_until_past"
    assert refused.value.errors[0].pointer == "/valid_until"
    model = factories.RegisteredModel.objects.get()
    contract = propose(people, NOON, changes=changes, model=model)
    assert contract.valid_until == LAST


def test_a_proposal_whose_last_day_is_over_is_signed_no_more(people: People) -> None:
    contract = propose(people, NOON, changes={"valid_until": LAST.isoformat()})
    sign(contract, people.dana, NOON)
    sign(contract, people.sam, NOON)
    with pytest.raises(Conflict) as refused:
        sign(contract, people.bea, END)
    assert code_of(refused) == "contract_expired"
    assert contract_expiry.watch_contracts(now=END).expired == 1
    contract.refresh_from_db()
    assert (contract.state, contract.in_force_at) == (ContractState.EXPIRED, None)
    assert contracts.contract_in_force(contract.model) is None
    assert contract_checks.contract_that_holds(contract.model) is None
    assert not Notice.objects.filter(kind="contract.expired").exists()


def test_a_contract_expires_once_by_the_timer_and_at_once_for_what_is_new(people: People) -> None:
    model = factories.make_model()
    contract = factories.make_contract(model, valid_until=LAST.isoformat())
    assert contracts.contract_in_force(model, now=NOON) == contract
    assert contract_expiry.watch_contracts(now=END - timedelta(seconds=1)).expired == 0
    # The timer has not run yet.
    assert contracts.contract_in_force(model, now=END) is None
    with pytest.raises(Conflict) as refused:
        contract_checks.require_in_force(model, asked_by="production", now=END)
    assert code_of(refused) == "contract_expired"
    late = END + timedelta(minutes=59)
    assert [contract_expiry.watch_contracts(now=late).expired for _ in range(2)] == [1, 0]
    contract.refresh_from_db()
    assert (contract.state, contract.ended_at) == (ContractState.EXPIRED, END)
    entry = AuditEntry.objects.get(action="contract.expire")
    assert (entry.actor_username, entry.subject) == ("system", "fraud_detector contract 1")
    told = Notice.objects.filter(kind="contract.expired", ended_at__isnull=True)
    assert set(told.values_list("recipient__username", flat=True)) == {"dana", "sam", "bea"}


def test_people_are_told_30_and_7_days_ahead_once_each_until_it_is_superseded(
    people: People,
) -> None:
    model = factories.make_model()
    factories.make_contract(model, valid_until=LAST.isoformat())
    told = [
        contract_expiry.watch_contracts(now=END - timedelta(days=days)).told
        for days in (32, 31, 31, 20, 8, 7, 1)
    ]
    assert told == [0, 3, 0, 0, 3, 0, 0]
    notices = Notice.objects.filter(kind="contract.expires", ended_at__isnull=True)
    assert sorted(notices.values_list("data__days", flat=True)) == [7, 7, 7, 30, 30, 30]
    second = propose(people, NOON, model=model)
    for user in people.seats.values():
        sign(second, user, NOON)
    assert not notices.exists()
    assert contract_expiry.watch_contracts(now=END).expired == 0


def test_nothing_new_goes_live_under_an_expired_contract_and_what_serves_comes_back(
    people: People,
) -> None:
    version = factories.make_version()
    contract = factories.make_contract(version.model, valid_until="2099-12-31")
    release = factories.make_release(version)
    assert verify_release(release).contract_revision == 1
    yesterday = timezone.now().date() - timedelta(days=2)
    ServiceContract.objects.filter(pk=contract.pk).update(valid_until=yesterday)
    other = factories.make_version(version.model)
    for watched in (0, 1):
        with pytest.raises(Conflict) as refused:
            verify_release(release)
        assert code_of(refused) in {"contract_expired", "contract_missing"}
        with pytest.raises(Conflict) as refused:
            ask(people, other)
        assert code_of(refused) == "contract_expired"
        assert verify_release(release, restoring=True).contract_revision == 1
        assert contract_checks.contract_that_holds(version.model) == contract
        assert contract_expiry.watch_contracts(now=timezone.now()).expired == 1 - watched


def ask(people: People, version: ModelVersion) -> Any:
    return request_release(
        model=version.model,
        number=version.number,
        environment=factories.make_environment(),
        actor=actor(people.sam),
    )


BREAKING = {"explanation": {"method": "none"}, "valid_until": "2099-01-01"}


def test_what_breaks_callers_is_proposed_knowingly_and_told_to_who_signs(people: People) -> None:
    model = factories.make_model()
    factories.make_contract(model, explanation={"method": "shap"})
    with pytest.raises(Conflict) as refused:
        propose(people, model=model, changes=BREAKING)
    assert code_of(refused) == "breaking_not_acknowledged"
    places = [error.pointer for error in refused.value.errors]
    assert places == ["/explanation/method", "/valid_until"]
    assert ServiceContract.objects.count() == 1
    contract = propose(people, model=model, changes=BREAKING, acknowledge_breaking=True)
    entry = AuditEntry.objects.get(action="contract.propose")
    assert entry.after["breaking"][1] == "Last day is new: 2099-01-01"
    notices = Notice.objects.filter(kind="contract.breaking", ended_at__isnull=True)
    assert set(notices.values_list("recipient__username", "data__count")) == {
        ("dana", 2),
        ("sam", 2),
        ("bea", 2),
    }
    contracts.withdraw_contract(contract=contract, actor=actor(people.dana))
    assert not notices.exists()


def test_less_for_the_caller_needs_no_acknowledgement(people: People) -> None:
    model = factories.make_model()
    factories.make_contract(model)
    assert propose(people, model=model, changes={"load": {"qps": 10}}).revision == 2
    assert not Notice.objects.exists()


HIGH = {"explanation": {"method": "shap"}, "valid_until": "2027-06-30"}


@pytest.mark.parametrize(
    ("risk", "changes", "missing"),
    [
        ("low", {"drift": None, "fallback": {"response": {"reason": "down"}}}, []),
        ("medium", {}, []),
        ("medium", {"drift": None}, ["/drift"]),
        ("medium", {"fallback": {"response": {"reason": "down"}}}, ["/fallback/response"]),
        ("high", {}, ["/explanation/method", "/valid_until"]),
        ("high", HIGH, []),
        ("high", {**HIGH, "valid_until": "2027-07-02"}, ["/valid_until"]),
    ],
)
def test_the_risk_class_decides_which_clauses_a_contract_has(
    risk: str, changes: dict[str, Any], missing: list[str]
) -> None:
    body = {k: v for k, v in factories.contract_body(**changes).items() if v is not None}
    document = from_json(body)
    found = contract_clauses.missing_clauses(document, risk, proposed_on=LAST)
    assert [clause.pointer for clause in found] == missing
    rows = contract_clauses.checklist(document, risk, proposed_on=LAST)
    assert [row.clause for row in rows if row.required and not row.met] == list(found)
    assert set(contract_clauses.MANDATORY) == set(RiskClass.values)


def test_a_proposal_without_what_the_risk_class_asks_for_is_refused(people: People) -> None:
    model = factories.make_model()
    catalog.change_model(model=model, changes={"risk_class": "high"}, actor=actor(people.dana))
    with pytest.raises(Invalid) as refused:
        propose(people, model=model)
    assert code_of(refused) == "clauses_missing"
    assert [e.pointer for e in refused.value.errors] == ["/explanation/method", "/valid_until"]


def test_a_raised_risk_class_is_told_and_stops_new_releases_until_the_contract_follows(
    people: People,
) -> None:
    version = factories.make_version()
    contract = factories.make_contract(version.model)
    release = factories.make_release(version)
    other = factories.make_version(version.model)

    def classify(risk: str) -> None:
        catalog.change_model(
            model=version.model, changes={"risk_class": risk}, actor=actor(people.dana)
        )

    notices = Notice.objects.filter(kind="contract.clauses", ended_at__isnull=True)
    classify("high")
    assert set(notices.values_list("recipient__username", flat=True)) == {"dana", "sam", "bea"}
    with pytest.raises(Conflict) as refused:
        ask(people, other)
    assert code_of(refused) == "clauses_missing"
    # What was approved before goes on.
    assert verify_release(release).contract_revision == contract.revision
    classify("medium")
    assert not notices.exists()
    assert ask(people, other).contract == contract


def test_the_next_proposal_names_a_day_where_the_last_did(people: People) -> None:
    version = factories.make_version()
    assert "valid_until" not in contracts.propose_document(version)
    factories.make_contract(version.model, valid_until="2026-01-31")
    assert contracts.propose_document(version, now=NOON)["valid_until"] == "2027-06-30"
