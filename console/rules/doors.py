"""Which action each page of the floor that changes something is: the doors ask before the view.

The registry and the deployments have their own tables of the same form. What the API's methods
are is said by `required_actions` of their views. `OWN` is what everybody who is signed in may do,
about themselves; `OPEN` is where nobody needs to be signed in. A structure test sees to it that
no page is missing.
"""

from __future__ import annotations

OWN = "own"
OPEN = "open"

# Methods of the API that name no action of their own: one signs in there.
API_ACTS: dict[str, str] = {
    "POST api:token-exchange": OPEN,
    "POST api:token-list": OPEN,
}

PAGE_ACTS: dict[str, str] = {
    "console:app": "second_factor.manage_own",
    "console:app-remove": "second_factor.manage_own",
    "console:audit-checkpoint": "audit.manage",
    "console:audit-sink-create": "audit.manage",
    "console:audit-sink-remove": "audit.manage",
    "console:audit-sink-secret": "audit.manage",
    "console:audit-sink-switch": "audit.manage",
    "console:audit-sink-test": "audit.manage",
    "console:audit-verify": "audit.read",
    "console:identity-link-confirm": OWN,
    "console:identity-unlink": OWN,
    "console:invitation": OPEN,
    "console:invitation-revoke": "user.manage",
    "console:invitations": "user.manage",
    "console:job-cancel": "job.manage_own",
    "console:job-retry": "job.manage_own",
    "console:key-enrol": "key.manage_own",
    "console:key-revoke": "key.manage_own",
    "console:notice-done": "notice.manage_own",
    "console:passkey-add": "second_factor.manage_own",
    "console:passkey-options": "second_factor.manage_own",
    "console:passkey-remove": "second_factor.manage_own",
    "console:person-create": "user.manage",
    "console:person-deactivate": "user.manage",
    "console:person-password": "user.manage",
    "console:person-reactivate": "user.manage",
    "console:person-roles": "user.manage",
    "console:person-second-factor": "user.manage",
    "console:person-token-revoke": "user.manage",
    "console:recovery-codes": "second_factor.manage_own",
    "console:service-account-change": "service_account.manage",
    "console:service-account-create": "service_account.manage",
    "console:service-account-disable": "service_account.manage",
    "console:service-account-enable": "service_account.manage",
    "console:service-account-token": "service_account.manage",
    "console:session-end": OWN,
    "console:session-end-others": OWN,
    "console:settings": OWN,
    "console:sign-in": OPEN,
    "console:sign-in-code": OPEN,
    "console:sign-in-passkey": OPEN,
    "console:sign-in-passkey-options": OPEN,
    "console:sign-in-set-up": OPEN,
    "console:sign-out": OWN,
    "console:team-change": "team.manage",
    "console:team-create": "team.manage",
    "console:team-delete": "team.manage",
    "console:team-member": "team.manage",
    "console:team-member-remove": "team.manage",
    "console:token-create": "token.manage_own",
    "console:token-revoke": "token.manage_own",
    "console:workload-add": "service_account.manage",
    "console:workload-remove": "service_account.manage",
    "set_language": OPEN,
}
