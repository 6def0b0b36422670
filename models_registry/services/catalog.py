"""Models: registering, changing, who sits in their seats, and names that point to versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotAllowed, NotFound
from console.models import Role, Team, User
from console.services import audit
from models_registry.models import (
    ModelAlias,
    ModelVersion,
    RegisteredModel,
    RiskClass,
    SeatHolder,
    VersionState,
    Visibility,
)
from models_registry.rules.names import check_alias, check_model_name, check_tags
from models_registry.selectors.visibility import losing_sight, viewers
from models_registry.services.contract_checks import contract_that_holds, missing_clauses
from models_registry.services.contract_records import tell_of_missing_clauses
from models_registry.services.seats import check_holders, check_owner, take_seat

CHANGEABLE = frozenset({"description", "risk_class", "tags", "owner", "team", "visibility"})
MAX_DESCRIPTION = 4000


def register_model(
    *,
    name: str,
    description: str = "",
    owner: User | None = None,
    team: Team | None = None,
    risk_class: str = RiskClass.MEDIUM,
    visibility: str = Visibility.EVERYBODY,
    tags: Iterable[str] = (),
    seats: Mapping[str, User] | None = None,
    actor: Actor,
) -> RegisteredModel:
    """Register a model; the actor owns it unless another owner is named.

    Raises Invalid for a bad name, risk class, tag or seat, Conflict (`name_taken`).
    """
    require(actor, "model.create", team.pk if team else None)
    check_model_name(name)
    values = {
        "description": description,
        "risk_class": risk_class,
        "visibility": visibility,
        "tags": list(tags),
    }
    _check_values(values)
    check_owner(owner or actor.user)
    try:
        with transaction.atomic():
            model = RegisteredModel.objects.create(
                name=name, owner=owner or actor.user, team=team, **values
            )
            for seat, user in (seats or {}).items():
                take_seat(model, seat, user)
            audit.record(
                actor=actor,
                action="model.create",
                subject=subject_of(model),
                subject_url=url_of(model),
                after={
                    **_snapshot(model),
                    "seats": {s: u.username for s, u in (seats or {}).items()},
                },
            )
            live.publish(f"model:{name}", "model.changed")
    except IntegrityError as error:
        raise Conflict(
            f"The name {name} is taken.",
            code="name_taken",
            # The same words whether the actor may see the model that has it or not.
            hint="Choose another name, or add a version where the model is one of yours.",
            errors=(FieldError("/name", "is taken"),),
        ) from error
    return model


def change_model(
    *, model: RegisteredModel, changes: Mapping[str, Any], actor: Actor
) -> RegisteredModel:
    """Change what is said about a model: description, risk_class, tags, owner, team, visibility.

    The audit entry names who may no longer see it.

    Raises Invalid for a field that cannot be changed, NotAllowed for somebody else's model.
    """
    require(actor, "model.change", model.team_id)
    unknown = sorted(set(changes) - CHANGEABLE)
    if unknown:
        raise Invalid(
            f"{unknown[0]} of a model cannot be changed.",
            code="not_changeable",
            hint="Changeable are " + ", ".join(sorted(CHANGEABLE)) + ".",
            errors=tuple(FieldError(f"/{name}", "cannot be changed") for name in unknown),
        )
    _check_values(changes)
    if "owner" in changes:
        check_owner(changes["owner"])
    with transaction.atomic():
        model = lock_model(model)
        require_part_in(model, actor)
        before, saw = _snapshot(model), viewers(model)
        for name, value in changes.items():
            setattr(model, name, value)
        after = _snapshot(model)
        if after == before:
            return model
        if after["team"] != before["team"]:
            check_holders(model)
        model.save(update_fields=list(changes))
        audit.record(
            actor=actor,
            action="model.change",
            subject=subject_of(model),
            subject_url=url_of(model),
            before={k: v for k, v in before.items() if after[k] != v},
            after={
                **{k: v for k, v in after.items() if before[k] != v},
                **_lost_sight(model, saw, before, after),
            },
        )
        if before["risk_class"] != after["risk_class"]:
            _tell_of_clauses(model)
        live.publish(f"model:{model.name}", "model.changed")
    return model


def assign_seat(*, model: RegisteredModel, seat: str, user: User, actor: Actor) -> SeatHolder:
    """Put a person with the seat's role into a seat; who sat there before leaves it.

    Raises Invalid (`role_missing`, `unknown_seat`), Conflict (`one_seat_per_person`).
    """
    require(actor, "model.change", model.team_id)
    with transaction.atomic():
        model = lock_model(model)
        require_part_in(model, actor)
        before = SeatHolder.objects.filter(model=model, seat=seat).select_related("user").first()
        if before is not None and before.user_id == user.pk:
            return before
        holder = take_seat(model, seat, user)
        audit.record(
            actor=actor,
            action="model.assign_seat",
            subject=subject_of(model),
            subject_url=url_of(model),
            before={"seat": seat, "user": before.user.username if before else None},
            after={"seat": seat, "user": user.username},
        )
        live.publish(f"model:{model.name}", "model.changed")
        for person in {user.username, before.user.username if before else user.username}:
            live.publish(f"inbox:{person}", "inbox.changed")
    return holder


def set_alias(
    *, model: RegisteredModel, name: str, number: int | None, actor: Actor
) -> ModelAlias | None:
    """Point an alias such as champion at a validated version; None takes the alias away.

    Raises NotFound for a version that is not there, Conflict (`version_not_validated`).
    """
    require(actor, "model.change", model.team_id)
    check_alias(name)
    with transaction.atomic():
        model = lock_model(model)
        require_part_in(model, actor)
        present = (
            ModelAlias.objects.filter(model=model, name=name).select_related("version").first()
        )
        before = present.version.number if present else None
        if before == number:
            return present
        alias = None
        if number is None:
            ModelAlias.objects.filter(model=model, name=name).delete()
        else:
            version = _aliased_version(model, number)
            alias, _ = ModelAlias.objects.update_or_create(
                model=model, name=name, defaults={"version": version}
            )
        audit.record(
            actor=actor,
            action="model.set_alias",
            subject=subject_of(model),
            subject_url=url_of(model),
            before={"alias": name, "version": before},
            after={"alias": name, "version": number},
        )
        live.publish(f"model:{model.name}", "model.changed")
    return alias


def lock_model(model: RegisteredModel) -> RegisteredModel:
    """The model's row, locked until the caller's transaction ends: numbers are given under it."""
    return RegisteredModel.objects.select_for_update().get(pk=model.pk)


def require_part_in(model: RegisteredModel, actor: Actor) -> None:
    """Raise NotAllowed unless the actor owns the model, has a seat, is of its team, or an admin."""
    if actor.is_system or actor.user.is_superuser or actor.user.has_role(Role.PLATFORM_ADMIN):
        return
    if model.owner_id == actor.user.pk:
        return
    if SeatHolder.objects.filter(model=model, user=actor.user).exists():
        return
    if model.team_id and Team.objects.filter(pk=model.team_id, members=actor.user).exists():
        return
    raise NotAllowed(
        f"{actor.user.username} has no part in the model {model.name}.",
        code="not_your_model",
        hint="Its owner can give you a seat, or add you to its team.",
    )


def subject_of(model: RegisteredModel) -> str:
    """How audit entries name the model."""
    return f"model {model.name}"


def url_of(model: RegisteredModel) -> str:
    """The model's page."""
    return f"/models/{model.name}/"


def _aliased_version(model: RegisteredModel, number: int) -> ModelVersion:
    version = ModelVersion.objects.filter(model=model, number=number).first()
    if version is None:
        raise NotFound(f"{model.name} has no version {number}.")
    if version.state != VersionState.VALIDATED:
        raise Conflict(
            f"{version} is {version.get_state_display()}: an alias points to a validated version.",
            code="version_not_validated",
        )
    return version


def _lost_sight(
    model: RegisteredModel, saw: QuerySet[User], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    if all(before[one] == after[one] for one in ("visibility", "team", "owner")):
        return {}
    names, count = losing_sight(saw, model)
    return {"lost_sight": names, "lost_sight_count": count} if count else {}


def _check_values(values: Mapping[str, Any]) -> None:
    if "visibility" in values and values["visibility"] not in Visibility.values:
        raise Invalid(
            f"There is no visibility {values['visibility']}.",
            code="bad_visibility",
            hint="Visibilities are " + ", ".join(Visibility.values) + ".",
            errors=(FieldError("/visibility", "is not one of them"),),
        )
    if "tags" in values:
        check_tags(values["tags"])
    if "risk_class" in values and values["risk_class"] not in RiskClass.values:
        raise Invalid(
            f"There is no risk class {values['risk_class']}.",
            code="bad_risk_class",
            hint="Risk classes are " + ", ".join(RiskClass.values) + ".",
            errors=(FieldError("/risk_class", "is not one of them"),),
        )
    if len(values.get("description", "")) > MAX_DESCRIPTION:
        raise Invalid(
            f"The description is longer than {MAX_DESCRIPTION} characters.",
            code="too_long",
            errors=(FieldError("/description", f"is longer than {MAX_DESCRIPTION}"),),
        )


def _tell_of_clauses(model: RegisteredModel) -> None:
    """A contract that was signed for a lower risk may lack what is asked for now."""
    if (contract := contract_that_holds(model)) is None:
        return
    contract.model = model
    try:
        missing = missing_clauses(contract)
    except Invalid:
        return  # changed in the database: every use of it says so, and its clauses say nothing
    tell_of_missing_clauses(contract, missing)


def _snapshot(model: RegisteredModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "description": model.description,
        "owner": model.owner.username,
        "team": model.team.slug if model.team else None,
        "risk_class": model.risk_class,
        "visibility": model.visibility,
        "tags": model.tags,
    }
