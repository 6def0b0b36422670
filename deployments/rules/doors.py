"""Which action each page of the deployments that changes something is (see console.rules.doors)."""

from __future__ import annotations

PAGE_ACTS: dict[str, str] = {
    "deployments:deployment-create": "deployment.create",
    "deployments:deployment-remove": "deployment.remove",
    "deployments:endpoint-mode": "endpoint.mode",
    "deployments:endpoint-rollback": "endpoint.rollback",
    "deployments:endpoint-routing": "split.change",
    "deployments:load-test-create": "load_test.run",
    "deployments:node-cordon": "node.cordon",
    "deployments:node-reconcile": "node.cordon",
    "deployments:node-uncordon": "node.cordon",
    "deployments:node-verify": "node.verify",
    "deployments:version-plans": "plan.build",
    "deployments:version-try": "version.try",
}
