"""What a release needs before it may go live, and why, in words that a person can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from console.errors import Conflict, NotAllowed
from models_registry.exporting.protocol import TensorSpec
from models_registry.rules import tensors
from models_registry.rules.contract_types import ContractDocument, Tensor

MOVES: dict[str, frozenset[str]] = {
    "proposed": frozenset({"approved", "refused", "withdrawn"}),
    # An approved release that runs nowhere may be taken back; whether it runs is asked above.
    "approved": frozenset(),
    "refused": frozenset(),
    "withdrawn": frozenset(),
}

ROLE_WORDS: Mapping[str, str] = {
    "data_scientist": "a data scientist",
    "sre": "an SRE",
    "business_owner": "a business owner",
    "platform_admin": "a platform admin",
}


@dataclass(frozen=True, slots=True)
class Policy:
    """What an environment (and the contract for it) asks of a release.

    `roles`: one approval by a holder of each. `author_may_approve`: whether the person who asked
    for the release may give one of them.
    """

    environment: str
    requires_contract: bool
    roles: tuple[str, ...]
    author_may_approve: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a release is: roles that approved, those that are missing, and a sentence."""

    given: tuple[str, ...]
    missing: tuple[str, ...]
    explanation: str

    @property
    def complete(self) -> bool:
        return not self.missing


def may_move(before: str, after: str) -> bool:
    """Whether a release may go from one state to another."""
    return after in MOVES[before]


def check_move(before: str, after: str, subject: str) -> None:
    """Raise Conflict (`illegal_move`) unless `subject` may go from `before` to `after`."""
    if not may_move(before, after):
        raise Conflict(
            f"{subject} cannot become {after}: it is {before} already.",
            code="illegal_move",
            hint="Ask for a new release of the version.",
        )


def policy_for(
    *,
    environment: str,
    requires_contract: bool,
    approver_roles: Iterable[str],
    author_may_approve: bool,
    contract: ContractDocument | None,
) -> Policy:
    """The environment's policy, with the approvals that the contract promises on top."""
    promised = contract.approvals.get(environment, ()) if contract else ()
    roles = tuple(dict.fromkeys((*approver_roles, *promised)))
    return Policy(environment, requires_contract, roles, author_may_approve)


def standing(policy: Policy, approved_roles: Iterable[str]) -> Standing:
    """What has been approved and what is missing, with the sentence that the page shows."""
    given = tuple(role for role in policy.roles if role in set(approved_roles))
    missing = tuple(role for role in policy.roles if role not in given)
    return Standing(given, missing, _explanation(policy, given, missing))


def role_for_approval(
    policy: Policy, *, approved_roles: Iterable[str], held_roles: Iterable[str], is_author: bool
) -> str:
    """The role in which a person approves: the first missing one that they hold.

    Raises NotAllowed with `author_may_not_approve` or `role_missing`.
    """
    if is_author and not policy.author_may_approve:
        raise NotAllowed(
            f"You asked for this release, and {policy.environment} does not let the person who "
            "asks also approve.",
            code="author_may_not_approve",
            hint="Ask somebody else: " + _words(policy.roles, "or") + " can approve.",
        )
    missing = standing(policy, approved_roles).missing
    held = set(held_roles)
    for role in missing:
        if role in held:
            return role
    raise NotAllowed(
        f"{policy.environment} waits for the approval of {_words(missing, 'and')}, "
        "and that is not a role of yours.",
        code="role_missing",
        hint="Ask " + _words(missing, "or") + " to approve.",
    )


def misfits(
    contract: ContractDocument,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    *,
    batched: bool,
) -> tuple[str, ...]:
    """Sentences on where a version's graph does not keep the contract's interface; () when it does.

    Names and dtypes must be the same. A fixed size in the contract may be served by a free axis
    (the contract is narrower); a free one in the contract needs a free axis. `batched`: Triton may
    batch, and then it serves what is batch alone with an axis of 1.
    """
    return (
        *_side("input", contract.interface.inputs, inputs, batched),
        *_side("output", contract.interface.outputs, outputs, batched),
    )


def _side(
    kind: str, promised: Sequence[Tensor], found: Sequence[TensorSpec], batched: bool
) -> tuple[str, ...]:
    there = {spec.name: spec for spec in found}
    faults = []
    for tensor in promised:
        spec = there.pop(tensor.name, None)
        if spec is None:
            faults.append(f"The contract's {kind} {tensor.name} is not in the model.")
            continue
        if spec.dtype != tensor.dtype:
            faults.append(
                f"The {kind} {tensor.name} is {spec.dtype} in the model and {tensor.dtype} in the "
                "contract."
            )
        served = tensors.as_served(spec, batched=batched)
        if not _fits(tensor.dims, spec.shape) and not _fits(tensor.dims, served.shape):
            faults.append(
                f"The {kind} {tensor.name} has the shape {_shape(spec)} in the model and "
                f"[{', '.join(map(str, tensor.dims))}] in the contract."
            )
    # An output more is the provider's own business, an input more is one that no caller sends.
    if kind == "input":
        faults.extend(f"The model's input {name} is not in the contract." for name in there)
    return tuple(faults)


def _fits(promised: Sequence[str | int], found: Sequence[int]) -> bool:
    return len(promised) == len(found) and all(
        size == -1 or (isinstance(wanted, int) and wanted == size)
        for wanted, size in zip(promised, found, strict=True)
    )


def _shape(spec: TensorSpec) -> str:
    dims = spec.dims or ("",) * len(spec.shape)
    parts = (name or str(size) for size, name in zip(spec.shape, dims, strict=True))
    return "[" + ", ".join(parts) + "]"


def _explanation(policy: Policy, given: Sequence[str], missing: Sequence[str]) -> str:
    contract = (
        "a contract in force is required" if policy.requires_contract else "no contract is required"
    )
    if not policy.roles:
        return f"{policy.environment} asks for no approval, and {contract}: approved by policy."
    asked = f"{policy.environment} asks for the approval of {_words(policy.roles, 'and')}"
    if not policy.author_may_approve:
        asked += ", other than the person who asked"
    if not missing:
        return f"{asked}, and {contract}. All approvals are there."
    return f"{asked}, and {contract}. Missing: {_words(missing, 'and')}."


def _words(roles: Sequence[str], joint: str) -> str:
    words = [ROLE_WORDS.get(role, role) for role in roles]
    if len(words) < 2:
        return words[0] if words else "nobody"
    return f"{', '.join(words[:-1])} {joint} {words[-1]}"
