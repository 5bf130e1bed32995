"""Which interventions are enough for causal recovery: the six cases of appendix A.2.3, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqrm.checks import one_of
from eqrm.errors import SettingError
from studies.causal.assumption_v import AssumptionV, assumption_v
from studies.causal.scm.interventions import Do, Domain, Intervention, Noise, Scale, Shift
from studies.causal.scm.model import LinearSCM

KINDS = ("do", "shift", "noise", "scale")

ALWAYS = {
    "none": "Enough in every world without effects of the target in which the second moments "
    "of the covariates, summed over domains, have full rank.",
    "shift": "Enough in every world with centred variables: the risks of two domains differ by "
    "(z·τ)², τ the total weight that the predictor's error gives to the shifted variable.",
    "noise": "Enough in every world with centred noises: the risks of two domains differ by "
    "(σ² − 1)·E[N²]·τ², τ the total weight that the error gives to that noise.",
    "scale": "Enough in every world, with two scales for each variable: a combination of the "
    "three risks is E[X²]·τ², τ the total weight that the error gives to the scaled variable.",
    "do": "Not enough in general: the paper's argument drops the term 2xᵀE[NX] of the other "
    "covariates. It depends on the coefficients and on the value set.",
}


@dataclass(frozen=True, eq=False)
class InterventionPlan:
    """Domains of one of the paper's cases, and whether they are enough in this world.

    ``case`` is the number in appendix A.2.3, ``kind`` the intervention ("none" for case 1),
    ``on`` the variables, ``domains`` what :meth:`LinearSCM.population` takes, ``answer`` the
    decision on this world, ``always`` what holds for every world.
    """

    case: int
    kind: str
    on: tuple[str, ...]
    domains: dict[str, Domain]
    answer: AssumptionV
    always: str

    @property
    def enough(self) -> bool | None:
        """True or False; None where it is undecided."""
        return {"unique": True, "not unique": False}.get(self.answer.status)


def intervention_domains(
    kind: str,
    variables: Sequence[str],
    *,
    value: float = 1.0,
    factor: float = 2.0,
    scales: tuple[float, float] = (0.5, 2.0),
) -> dict[str, Domain]:
    """A base domain, and one (for "scale": two) per variable with an intervention on it.

    >>> list(intervention_domains("scale", ["X1"]))
    ['base', 'scale X1 by 0.5', 'scale X1 by 2']
    """
    one_of(kind, KINDS, "intervention")
    if isinstance(variables, str):
        raise SettingError(f"variables must be a list of names, got the string {variables!r}.")
    domains: dict[str, Domain] = {"base": ()}
    for name in variables:
        choices: dict[str, Sequence[Intervention]] = {
            "do": [Do(name, value)],
            "shift": [Shift(name, value)],
            "noise": [Noise(name, factor=factor)],
            "scale": [Scale(name, scale) for scale in scales],
        }
        for each in choices[kind]:
            size = f" by {each.factor:g}" if isinstance(each, Scale) else ""
            domains[f"{kind} {name}{size}"] = (each,)
    return domains


def paper_case(
    scm: LinearSCM, case: int, *, kind: str | None = None, value: float = 1.0
) -> InterventionPlan:
    """One of the six cases of appendix A.2.3 in a world, decided by its truth.

    1: no effects of the target, no interventions; 2: `do` on every covariate; 3: shift; 4:
    noise; 5: two scales; 6: ``kind`` ("shift" unless "do" is said) on the effects of the target.
    ``value`` is z of `do` and shift.

    >>> world = LinearSCM({"X1": {}, "X2": {"Y": 1.0}, "Y": {"X1": 1.0}}, "Y")
    >>> paper_case(world, 6).enough
    True
    """
    kinds = {1: "none", 2: "do", 3: "shift", 4: "noise", 5: "scale", 6: kind or "shift"}
    if case not in kinds:
        raise SettingError(
            f"case must be an integer from 1 to 6, as in the paper's appendix A.2.3, got {case!r}."
        )
    if kind is not None and case != 6 and kind != kinds[case]:
        raise SettingError(f"kind can only be chosen for case 6: case {case} is {kinds[case]!r}.")
    if case == 1 and scm.effects:
        raise SettingError(
            f"Case 1 requires a model without effects of the target, but {scm.effects[0]!r} is one."
        )
    on = () if case == 1 else scm.effects if case == 6 else tuple(scm.features or ())
    return _plan(scm, case, kinds[case], on, value)


def sufficient_interventions(scm: LinearSCM, *, value: float = 1.0) -> list[InterventionPlan]:
    """What would be enough to recover the causal predictor in this world, fewest domains first.

    Interventions are needed on the effects of the target only; where there are none, none is.

    >>> two_effects = LinearSCM({"X1": {"Y": 1.0}, "X2": {"Y": 1.0}, "Y": {}}, "Y")
    >>> for plan in sufficient_interventions(two_effects, value=0.5**0.5):
    ...     print(plan.kind, plan.on, plan.enough)
    shift ('X1', 'X2') True
    noise ('X1', 'X2') True
    do ('X1', 'X2') False
    scale ('X1', 'X2') True
    """
    if not scm.effects:
        return [_plan(scm, 1, "none", (), value)]
    kinds = ("shift", "noise", "do", "scale")
    return [_plan(scm, 6, kind, scm.effects, value) for kind in kinds]


def _plan(
    scm: LinearSCM, case: int, kind: str, on: tuple[str, ...], value: float
) -> InterventionPlan:
    domains: dict[str, Domain] = {"base": ()}
    if kind != "none":
        domains = intervention_domains(kind, on, value=value)
    answer = assumption_v(scm.population(domains), scm.causal_coefficients)
    return InterventionPlan(case, kind, on, domains, answer, ALWAYS[kind])
