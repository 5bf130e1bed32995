"""The registry of objectives by name."""

from __future__ import annotations

from typing import Any

from eqrm.registry import Registry

OBJECTIVES: Registry[Any] = Registry(
    "objective",
    {
        "arm": "eqrm.objectives.domain_context:ARM",
        "cdann": "eqrm.objectives.adversarial:CDANN",
        "coral": "eqrm.objectives.penalties:CORAL",
        "dann": "eqrm.objectives.adversarial:DANN",
        "eqrm": "eqrm.objectives.risk_based:EQRM",
        "erm": "eqrm.objectives.risk_based:ERM",
        "groupdro": "eqrm.objectives.risk_based:GroupDRO",
        "iga": "eqrm.objectives.penalties:IGA",
        "irm": "eqrm.objectives.penalties:IRM",
        "mixup": "eqrm.objectives.perturbation:Mixup",
        "mldg": "eqrm.objectives.meta:MLDG",
        "mmd": "eqrm.objectives.penalties:MMD",
        "mtl": "eqrm.objectives.domain_context:MTL",
        "rsc": "eqrm.objectives.perturbation:RSC",
        "sagnet": "eqrm.objectives.perturbation:SagNet",
        "sd": "eqrm.objectives.penalties:SD",
        "superquantile": "eqrm.objectives.risk_based:Superquantile",
        "vrex": "eqrm.objectives.risk_based:VREx",
    },
)
"""Name → its class. ``eqrm.objective`` makes one (``eqrm.objectives.base``)."""

PRESETS: dict[str, Registry[Any]] = {
    "domainbed": Registry(
        "objective of DomainBed",
        {
            "arm": "eqrm.objectives.domain_context:DomainBedARM",
            "cdann": "eqrm.objectives.adversarial:DomainBedCDANN",
            "coral": "eqrm.objectives.penalties:DomainBedCORAL",
            "dann": "eqrm.objectives.adversarial:DomainBedDANN",
            "eqrm": "eqrm.objectives.risk_based:DomainBedEQRM",
            "erm": "eqrm.objectives.risk_based:ERM",  # ours is theirs, here and below
            "groupdro": "eqrm.objectives.risk_based:GroupDRO",
            "iga": "eqrm.objectives.penalties:DomainBedIGA",
            "irm": "eqrm.objectives.penalties:DomainBedIRM",
            "mixup": "eqrm.objectives.perturbation:DomainBedMixup",
            "mldg": "eqrm.objectives.meta:DomainBedMLDG",
            "mmd": "eqrm.objectives.penalties:MMD",
            "mtl": "eqrm.objectives.domain_context:DomainBedMTL",
            "rsc": "eqrm.objectives.perturbation:DomainBedRSC",
            "sagnet": "eqrm.objectives.perturbation:DomainBedSagNet",
            "sd": "eqrm.objectives.penalties:SD",
            "vrex": "eqrm.objectives.risk_based:VREx",
        },
    ),
}
"""Name of a preset → its objectives: those whose update is that of somebody else's code.

Each ``DomainBed…`` class makes the update that DomainBed (Gulrajani & Lopez-Paz 2021, and the code
beside it) makes on the same network and batch. Its docstring says where that code differs from the
paper of the method, and from our class, beside which it stands. DomainBed's batches hold equally
many examples of every training domain, for which the mean over examples and that over domains are
one.
"""
