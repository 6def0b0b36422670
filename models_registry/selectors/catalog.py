"""Models as lists and pages show them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F, OuterRef, Prefetch, Q, QuerySet, Subquery

from console.errors import FieldError, Invalid, NotFound
from console.models import Team, User
from models_registry.models import (
    ContractState,
    ModelAlias,
    ModelVersion,
    RegisteredModel,
    Release,
    Seat,
    SeatHolder,
    ServiceContract,
)
from models_registry.models.catalog import RegisteredModelQuerySet
from models_registry.rules import contract_clauses, contract_document, contract_validity
from models_registry.rules.contract_clauses import Clause


@dataclass(frozen=True, slots=True)
class SeatRow:
    """A seat and who sits in it, or nobody."""

    seat: str
    label: str
    user: User | None


@dataclass(frozen=True, slots=True)
class ModelPage:
    """What a model's page shows; each list is the newest few, the counts are of all."""

    model: RegisteredModel
    seats: tuple[SeatRow, ...]
    aliases: tuple[ModelAlias, ...]
    versions: tuple[ModelVersion, ...]
    contract: ServiceContract | None
    contracts: tuple[ServiceContract, ...]
    releases: tuple[Release, ...]
    version_count: int
    contract_count: int
    missing_clauses: tuple[Clause, ...] = ()
    """What the risk class asks for today and the contract in force does not have."""


def model_list(
    user: User,
    *,
    q: str = "",
    state: str = "",
    owner: str = "",
    tag: str = "",
    risk_class: str = "",
    mine: bool = False,
) -> QuerySet[RegisteredModel]:
    """Models with `latest_state`, `latest_validated` and `contract_revision`, in 3 queries.

    `state` is the state of the newest version; `mine` keeps the person's own and those with a seat
    of theirs. Left out is what does not exist for them.
    """
    models = _fetched().visible_to(user)
    if q:
        models = models.filter(
            Q(name__icontains=q) | Q(description__icontains=q) | Q(tags__contains=[q])
        )
    if state:
        models = models.filter(versions__number=F("last_version_number"), versions__state=state)
    if owner:
        models = models.filter(owner__username=owner)
    if tag:
        models = models.filter(tags__contains=[tag])
    if risk_class:
        models = models.filter(risk_class=risk_class)
    if mine:
        seats = SeatHolder.objects.filter(user=user).values("model")
        models = models.filter(Q(owner=user) | Q(pk__in=seats))
    return models


def find_model(name: str, *, user: User | None) -> RegisteredModel:
    """The model with the annotations of `model_list`.

    Raises NotFound, in the same words for one that this person may not see. Without a user it
    is not asked who looks: for the answer to an act that may have ended their sight of it.
    """
    models = _fetched().filter(name=name)
    model = (models if user is None else models.visible_to(user)).first()
    if model is None:
        raise NotFound(
            f"There is no model named {name[:63]}.",
            hint="Check the name, or register the model.",
        )
    return model


def model_page(name: str, *, user: User, shown: int = 10) -> ModelPage:
    """A model's page, in at most 10 queries. Raises NotFound."""
    model = find_model(name, user=user)
    versions = ModelVersion.objects.filter(model=model).select_related(
        "model", "created_by", "export_job", "validate_job", "source"
    )
    contracts = (
        ServiceContract.objects.filter(model=model)
        .select_related("model", "proposed_by")
        .prefetch_related("signatures__signer")
    )
    releases = Release.objects.filter(version__model=model).select_related(
        "version__model", "environment", "requested_by", "break_glass"
    )
    recent = tuple(contracts[:shown])
    in_force = next((c for c in recent if c.state == ContractState.IN_FORCE), None)
    if in_force is None:
        # One that expired is shown as such until another takes its place.
        in_force = contracts.holding().first()
    return ModelPage(
        model=model,
        seats=seats_of(model),
        aliases=tuple(model.aliases.all()),
        versions=tuple(versions[:shown]),
        contract=in_force,
        contracts=recent,
        releases=tuple(releases[:shown]),
        version_count=model.last_version_number,
        contract_count=model.last_contract_revision,
        missing_clauses=_missing_clauses(in_force, model.risk_class),
    )


def _missing_clauses(contract: ServiceContract | None, risk_class: str) -> tuple[Clause, ...]:
    if contract is None:
        return ()
    try:
        document = contract_document.load(bytes(contract.payload), "json")
    except Invalid:
        return ()  # changed in the database: its own page says so
    return contract_clauses.missing_clauses(
        document, risk_class, proposed_on=contract_validity.day_of(contract.proposed_at)
    )


def seats_of(model: RegisteredModel) -> tuple[SeatRow, ...]:
    """All three seats in their order; uses what `model_list` has fetched."""
    holders = {holder.seat: holder.user for holder in model.seats.all()}
    return tuple(SeatRow(seat.value, str(seat.label), holders.get(seat.value)) for seat in Seat)


def find_person(username: str, *, pointer: str) -> User:
    """An active person by user name. Raises Invalid that names the field at `pointer`."""
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise Invalid(
            f"There is no person named {username[:64]}.",
            code="unknown_person",
            hint="Use the name they sign in with.",
            errors=(FieldError(pointer, "is nobody's user name"),),
        )
    return user


def find_team(slug: str, *, pointer: str) -> Team:
    """A team by its slug. Raises Invalid that names the field at `pointer`."""
    team = Team.objects.filter(slug=slug).first()
    if team is None:
        raise Invalid(
            f"There is no team named {slug[:64]}.",
            code="unknown_team",
            errors=(FieldError(pointer, "is no team"),),
        )
    return team


def _fetched() -> RegisteredModelQuerySet:
    newest = ModelVersion.objects.filter(
        model=OuterRef("pk"), number=OuterRef("last_version_number")
    )
    validated = ModelVersion.objects.filter(model=OuterRef("pk"), state="validated").order_by(
        "-number"
    )
    in_force = ServiceContract.objects.filter(model=OuterRef("pk"), state=ContractState.IN_FORCE)
    return (
        RegisteredModel.objects.select_related("owner", "team")
        .prefetch_related(Prefetch("seats", SeatHolder.objects.select_related("user")))
        .prefetch_related(Prefetch("aliases", ModelAlias.objects.select_related("version")))
        .annotate(
            latest_state=Subquery(newest.values("state")[:1]),
            latest_at=Subquery(newest.values("created_at")[:1]),
            latest_validated=Subquery(validated.values("number")[:1]),
            contract_revision=Subquery(in_force.values("revision")[:1]),
        )
    )
