from console.models.accounts import ApiToken, Role, Team, User, UserManager
from console.models.audit import AuditEntry, AuditHead
from console.models.jobs import IdempotentRequest, Job, JobLine, JobState
from console.models.keys import KeyAlgorithm, KeyOrigin, SigningKey

__all__ = [
    "ApiToken",
    "AuditEntry",
    "AuditHead",
    "IdempotentRequest",
    "Job",
    "JobLine",
    "JobState",
    "KeyAlgorithm",
    "KeyOrigin",
    "Role",
    "SigningKey",
    "Team",
    "User",
    "UserManager",
]
