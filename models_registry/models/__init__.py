from models_registry.models.artifacts import Artifact, Upload, UploadState
from models_registry.models.catalog import (
    ModelAlias,
    RegisteredModel,
    RiskClass,
    Seat,
    SeatHolder,
)
from models_registry.models.contracts import ContractSignature, ContractState, ServiceContract
from models_registry.models.releases import Environment, Release, ReleaseApproval, ReleaseState
from models_registry.models.versions import ModelClass, ModelVersion, VersionState

__all__ = [
    "Artifact",
    "ContractSignature",
    "ContractState",
    "Environment",
    "ModelAlias",
    "ModelClass",
    "ModelVersion",
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
    "VersionState",
]
