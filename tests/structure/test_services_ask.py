"""Every service asks who acts: with the action, and for the team of the model that it is about."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from console.rules.permissions import ACTIONS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("console", "models_registry", "deployments")
# Where no model is known yet, or the thing is one's own until a model takes it.
WITHOUT_TEAM = {"upload.create"}


@cache
def functions() -> dict[str, list[ast.FunctionDef]]:
    """Every function of the services' rooms by its name."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package / "services").rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef):
                    found.setdefault(node.name, []).append(node)
    return found


def calls(function: ast.FunctionDef) -> list[ast.Call]:
    return [node for node in ast.walk(function) if isinstance(node, ast.Call)]


def name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def actions_asked(call: ast.Call) -> set[str]:
    """The actions named in a call of require or allowed, also as a choice between two."""
    if name_of(call) not in {"require", "allowed", "locked_endpoint"}:
        return set()
    words = {
        one.value for arg in call.args for one in ast.walk(arg) if isinstance(one, ast.Constant)
    }
    return {word for word in words if isinstance(word, str) and word in ACTIONS}


def test_what_is_asked_about_a_model_is_asked_for_its_team() -> None:
    wrong = []
    for name, group in functions().items():
        for call in (call for function in group for call in calls(function)):
            for action in actions_asked(call):
                rule = ACTIONS[action]
                needs_team = rule.per_team and rule.roles and action not in WITHOUT_TEAM
                has_team = len(call.args) > 2 or any(k.arg == "team_id" for k in call.keywords)
                if needs_team and not has_team:
                    wrong.append(f"{name} asks {action} without the model's team")
    # `set_split` and its like ask anywhere first, so that nobody learns by 404 what is there.
    first = {
        "_for_act",
        "_locked",
        "create_silence",
        "deploy_release",
        "end_silence",
        "import_openslo",
        "propose_exclusion",
        "propose_maintenance",
        "remove_deployment",
        "remove_rule",
        "require_rule",
        "restore_rule",
        "revoke_share",
        "roll_back",
        "set_access_policy",
        "set_mode",
        "set_policy",
        "set_rule",
        "set_split",
        "set_telemetry",
        "share_sla",
        "start_rollout",
        "take_points",
    }
    assert [line for line in wrong if line.split()[0] not in first] == []


def test_every_action_is_asked_by_a_service_of_its_own() -> None:
    asked = {
        action
        for group in functions().values()
        for function in group
        for call in calls(function)
        for action in actions_asked(call)
    }
    # Reading is asked at the doors, and the selectors leave out what is not to be seen.
    assert set(ACTIONS) - asked <= {"read", "audit.read", "audit.export"}
