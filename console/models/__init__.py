from console.models.accounts import (
    ApiToken,
    Role,
    Team,
    TeamMembership,
    User,
    UserKind,
    UserManager,
)
from console.models.audit import (
    AuditCheckpoint,
    AuditEntry,
    AuditHead,
    AuditOccurrence,
    AuditSink,
    SinkKind,
)
from console.models.jobs import IdempotentRequest, Job, JobLine, JobState
from console.models.keys import (
    InstallationKey,
    KeyAlgorithm,
    KeyOrigin,
    RevocationKind,
    SigningKey,
)
from console.models.notices import Notice, Severity
from console.models.sessions import Session
from console.models.sign_ins import (
    ExternalIdentity,
    IdentitySource,
    Invitation,
    Passkey,
    WorkloadIdentity,
    WorkloadTokenUse,
)

__all__ = [
    "ApiToken",
    "AuditCheckpoint",
    "AuditEntry",
    "AuditHead",
    "AuditOccurrence",
    "AuditSink",
    "ExternalIdentity",
    "IdempotentRequest",
    "IdentitySource",
    "InstallationKey",
    "Invitation",
    "Job",
    "JobLine",
    "JobState",
    "KeyAlgorithm",
    "KeyOrigin",
    "Notice",
    "Passkey",
    "RevocationKind",
    "Role",
    "Session",
    "Severity",
    "SigningKey",
    "SinkKind",
    "Team",
    "TeamMembership",
    "User",
    "UserKind",
    "UserManager",
    "WorkloadIdentity",
    "WorkloadTokenUse",
]
