"""The registry of objectives by name."""

from __future__ import annotations

from typing import Any

from eqrm.registry import Registry

OBJECTIVES: Registry[Any] = Registry(
    "objective",
    {
        "arm": "eqrm.objectives.domain_context:ARM",
        "cdann": "eqrm.objectives.adversarial:CDANN",
        "coral": "eqrm.objectives.alignment:CORAL",
        "dann": "eqrm.objectives.adversarial:DANN",
        "eqrm": "eqrm.objectives.risk_based:EQRM",
        "erm": "eqrm.objectives.risk_based:ERM",
        "groupdro": "eqrm.objectives.risk_based:GroupDRO",
        "iga": "eqrm.objectives.penalties:IGA",
        "irm": "eqrm.objectives.penalties:IRM",
        "mixup": "eqrm.objectives.perturbation:Mixup",
        "mldg": "eqrm.objectives.meta:MLDG",
        "mmd": "eqrm.objectives.alignment:MMD",
        "mtl": "eqrm.objectives.domain_context:MTL",
        "rsc": "eqrm.objectives.perturbation:RSC",
        "sagnet": "eqrm.objectives.perturbation:SagNet",
        "sd": "eqrm.objectives.penalties:SD",
        "superquantile": "eqrm.objectives.risk_based:Superquantile",
        "vrex": "eqrm.objectives.risk_based:VREx",
    },
)
"""Name → its class. ``eqrm.objective`` makes one (``eqrm.objectives.base``)."""

_LOSSES, _NETWORKS = "eqrm.objectives.domainbed.losses", "eqrm.objectives.domainbed.networks"
PRESETS: dict[str, Registry[Any]] = {
    "domainbed": Registry(
        "objective of DomainBed",
        {
            "arm": f"{_NETWORKS}:DomainBedARM",
            "cdann": f"{_NETWORKS}:DomainBedCDANN",
            "coral": f"{_LOSSES}:DomainBedCORAL",
            "dann": f"{_NETWORKS}:DomainBedDANN",
            "eqrm": f"{_LOSSES}:DomainBedEQRM",
            "erm": "eqrm.objectives.risk_based:ERM",  # ours is theirs, here and below
            "groupdro": "eqrm.objectives.risk_based:GroupDRO",
            "iga": f"{_LOSSES}:DomainBedIGA",
            "irm": f"{_LOSSES}:DomainBedIRM",
            "mixup": f"{_LOSSES}:DomainBedMixup",
            "mldg": f"{_LOSSES}:DomainBedMLDG",
            "mmd": "eqrm.objectives.alignment:MMD",
            "mtl": f"{_NETWORKS}:DomainBedMTL",
            "rsc": f"{_LOSSES}:DomainBedRSC",
            "sagnet": f"{_NETWORKS}:DomainBedSagNet",
            "sd": "eqrm.objectives.penalties:SD",
            "vrex": "eqrm.objectives.risk_based:VREx",
        },
    ),
}
"""Name of a preset → its objectives: those whose update is that of somebody else's code."""
