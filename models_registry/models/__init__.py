from models_registry.models.artifacts import Artifact, Upload, UploadState
from models_registry.models.catalog import (
    ModelAlias,
    RegisteredModel,
    RiskClass,
    Seat,
    SeatHolder,
    Visibility,
)
from models_registry.models.contracts import (
    ContractComment,
    ContractDraft,
    ContractSignature,
    ContractState,
    ServiceContract,
)
from models_registry.models.load_tests import LoadPattern, LoadTest
from models_registry.models.reference_samples import ReferenceSample
from models_registry.models.releases import (
    BreakGlass,
    Environment,
    FreezeWindow,
    Release,
    ReleaseApproval,
    ReleaseState,
)
from models_registry.models.versions import (
    ModelClass,
    ModelVersion,
    Optimisation,
    VersionFile,
    VersionState,
)

__all__ = [
    "Artifact",
    "BreakGlass",
    "ContractComment",
    "ContractDraft",
    "ContractSignature",
    "ContractState",
    "Environment",
    "FreezeWindow",
    "LoadPattern",
    "LoadTest",
    "ModelAlias",
    "ModelClass",
    "ModelVersion",
    "Optimisation",
    "ReferenceSample",
    "RegisteredModel",
    "Release",
    "ReleaseApproval",
    "ReleaseState",
    "RiskClass",
    "Seat",
    "SeatHolder",
    "ServiceContract",
    "Upload",
    "UploadState",
    "VersionFile",
    "VersionState",
    "Visibility",
]
