"""What a rule or a silence is about, as people name it."""

from __future__ import annotations

from dataclasses import dataclass

from console.actors import Actor
from console.errors import FieldError, Invalid
from deployments.models import Node
from models_registry.models import Environment, RegisteredModel


@dataclass(frozen=True, slots=True)
class Scope:
    """Rows by the names that were given; None: any."""

    environment: Environment | None = None
    model: RegisteredModel | None = None
    node: Node | None = None

    @property
    def team_id(self) -> int | None:
        """Whose permission it takes: the model's team, or else the whole installation's."""
        return self.model.team_id if self.model is not None else None

    def to_json(self) -> dict[str, str]:
        """Names, empty for any."""
        return {
            "environment": self.environment.name if self.environment else "",
            "model": self.model.name if self.model else "",
            "node": self.node.name if self.node else "",
        }

    def __str__(self) -> str:
        if self.environment is not None and self.model is not None:
            return f"{self.environment.name}/{self.model.name}"
        if self.model is not None:
            return f"model {self.model.name}"
        if self.node is not None:
            return f"node {self.node.name}"
        return f"environment {self.environment.name}" if self.environment else ""


def scope_of(environment: str, model: str, node: str, actor: Actor) -> Scope:
    """The rows of these names, "" for any. Raises Invalid with a pointer for what is not there."""
    faults = []
    found_environment = Environment.objects.filter(name=environment).first()
    found_model = RegisteredModel.objects.visible_to(actor.user).filter(name=model).first()
    found_node = Node.objects.filter(name=node).first()
    for name, value, found in (
        ("environment", environment, found_environment),
        ("model", model, found_model),
        ("node", node, found_node),
    ):
        if value and found is None:
            faults.append(FieldError(f"/{name}", f"There is no {name} {value!r}."))
    if node and model:
        faults.append(FieldError("/node", "A model, or a node: not both."))
    if faults:
        raise Invalid(
            "What it is about cannot be found.",
            code="unknown_scope",
            hint="Name things as the lists do; leave empty what does not matter.",
            errors=tuple(faults),
        )
    return Scope(found_environment, found_model, found_node)
