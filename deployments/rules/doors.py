"""Which action each page of the deployments that changes something is (see console.rules.doors)."""

from __future__ import annotations

PAGE_ACTS: dict[str, str] = {
    "deployments:caller-block": "caller.manage",
    "deployments:caller-key-create": "caller.manage",
    "deployments:caller-key-revoke": "caller.manage",
    "deployments:callers": "caller.manage",
    "deployments:deployment-create": "deployment.create",
    "deployments:deployment-remove": "deployment.remove",
    "deployments:endpoint-access": "access.change",
    "deployments:endpoint-fallback": "read",
    "deployments:endpoint-mode": "endpoint.mode",
    "deployments:endpoint-rollback": "endpoint.rollback",
    "deployments:endpoint-routing": "split.change",
    "deployments:endpoint-rollback-policy": "rollback_policy.change",
    "deployments:incident-acknowledge": "incident.handle",
    "deployments:incident-comment": "incident.handle",
    "deployments:incident-resolve": "incident.handle",
    "deployments:gateway-change": "gateway.register",
    "deployments:gateway-list": "gateway.register",
    "deployments:gateway-remove": "gateway.register",
    "deployments:load-test-create": "load_test.run",
    "deployments:node-cordon": "node.cordon",
    "deployments:node-reconcile": "node.cordon",
    "deployments:node-uncordon": "node.cordon",
    "deployments:node-verify": "node.verify",
    "deployments:token-issuer": "caller.manage",
    "deployments:token-issuer-refresh": "caller.manage",
    "deployments:token-issuer-remove": "caller.manage",
    "deployments:version-plans": "plan.build",
    "deployments:version-try": "version.try",
}
