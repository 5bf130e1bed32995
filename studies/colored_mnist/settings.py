"""ColoredMNIST: methods, grids, recipes and sizes, and the numbers of the paper's Table 1.

A *recipe* says how runs are trained; a *setting* is a method, an initialisation and the value of
its hyperparameter: a penalty weight, η of GroupDRO, log(1−α) of EQRM, the steps of ERM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eqrm import EQRM, ERM, Level, Phase
from eqrm.objectives import IGA, IRM, SD, GroupDRO, Objective, VREx

FLIPS, TEST_FLIP, ORACLE_FLIPS = (0.1, 0.2), 0.9, (0.5, 0.5)
ALL_FLIPS = tuple(round(0.1 * k, 1) for k in range(11))
RANDOM, PRETRAINED = "random", "erm"
GRADIENT_RATIO, PENALTY_WEIGHT = "gradient-norm-ratio", "penalty-weight"
"""How losses are scaled."""
INITIALISATIONS = (RANDOM, PRETRAINED)

NAMES = {
    "erm": "ERM",
    "irm": "IRM",
    "groupdro": "GroupDRO",
    "sd": "SD",
    "iga": "IGA",
    "vrex": "VREx",
    "eqrm": "EQRM",
    "oracle": "Oracle",
}
WITH_STEPS = ("erm", "oracle")
"""Trained by ERM: what varies is the number of steps, and there is one initialisation."""

PAPER: dict[tuple[str, str], tuple[float, float]] = {
    ("erm", RANDOM): (27.9, 1.5),
    ("irm", RANDOM): (52.5, 2.4),
    ("irm", PRETRAINED): (69.7, 0.9),
    ("groupdro", RANDOM): (27.3, 0.9),
    ("groupdro", PRETRAINED): (29.0, 1.1),
    ("sd", RANDOM): (49.4, 1.5),
    ("sd", PRETRAINED): (70.3, 0.6),
    ("iga", RANDOM): (50.7, 1.4),
    ("iga", PRETRAINED): (57.7, 3.3),
    ("vrex", RANDOM): (55.2, 4.0),
    ("vrex", PRETRAINED): (71.6, 0.5),
    ("eqrm", RANDOM): (53.4, 1.7),
    ("eqrm", PRETRAINED): (71.4, 0.4),
    ("oracle", RANDOM): (72.1, 0.7),
}
"""Table 1: mean and standard deviation of the test accuracy, in per cent."""

Grid = Mapping[str, tuple[float, ...]]
_STEPS = (400.0, 600.0, 1000.0)
_ETAS = (0.001, 0.01, 0.1, 0.5, 1.0)
_PENALTIES = (50.0, 100.0, 500.0, 1000.0, 5000.0)
_PUBLISHED = (1e3, 5e3, 1e4, 5e4, 1e5)
GRIDS: dict[str, Grid] = {
    "paper": {
        "erm": _STEPS,
        "oracle": _STEPS,
        "irm": _PENALTIES,
        "groupdro": _ETAS,
        "sd": (0.001, 0.01, 0.1, 1.0),
        "iga": _PENALTIES,
        "vrex": _PENALTIES,
        "eqrm": (-100.0, -250.0, -500.0, -750.0, -1000.0),
    },
    "published": {
        "erm": _STEPS,
        "oracle": _STEPS,
        "irm": _PUBLISHED,
        "groupdro": _ETAS,
        "sd": (1.0, 5.0, 10.0, 50.0, 100.0),
        "iga": _PUBLISHED,
        "vrex": _PUBLISHED,
        "eqrm": (-100.0, -500.0, -1000.0, -5000.0, -10000.0),
    },
}
"""The paper's grids (appendix E) and those of the published code; that of ERM and the oracle is
the published code's in both, because the paper names none."""

FIGURE_LEVELS = (
    Level(0.5),
    Level(0.9),
    Level(0.99),
    Level(log_tail=-10.0),
    Level(log_tail=-100.0),
    Level(log_tail=-1000.0),
)


@dataclass(frozen=True)
class Recipe:
    """How runs are trained. The defaults are the paper's; ``scaling`` is the published code's.

    ``burn_in`` steps of ERM, then the method up to ``steps`` (``long_steps`` of GroupDRO, SD and
    IGA) in all; rates are those at the beginning of each. ``examples`` are per training domain,
    of which a batch takes ``batch`` (all if None), with ``replacement`` or without. ``shared_data``
    gives every seed the digits and colours of the first. ``products`` are "float16" (on a GPU
    with the bits of TF32), "tf32" or "float32".
    """

    burn_in: int = 400
    steps: int = 600
    long_steps: int = 1000
    rate: float = 1e-4
    rate_after: float = 1e-4
    width: int = 390
    depth: int = 3
    dropout: float = 0.2
    initialisation: str = "xavier"
    examples: int = 25_000
    batch: int | None = None
    replacement: bool = False
    shared_data: bool = False
    scaling: bool = True
    gradient: str = "implicit"
    products: str = "float16"

    def total_steps(self, method: str) -> int:
        """The steps of a method, burn-in included."""
        return self.long_steps if method in ("groupdro", "sd", "iga") else self.steps


@dataclass(frozen=True)
class TableSetting:
    """A method, an initialisation and the value of its hyperparameter."""

    method: str
    initialisation: str
    value: float

    @property
    def name(self) -> str:
        """For files and people."""
        return f"{self.method}-{self.initialisation}-{self.value:g}"

    def objective(self, gradient: str = "implicit") -> Objective:
        """What is minimised after the burn-in.

        The penalty of IGA is a sum over domains in the published code and a mean here, so its
        weight is multiplied by the number of domains.
        """
        if self.method == "eqrm":
            options = None if gradient == "implicit" else {"gradient": gradient}
            level = Level(self.value) if self.value > 0 else Level(log_tail=self.value)
            return EQRM(level, options=options)
        if self.method == "iga":
            return IGA(len(FLIPS) * self.value)
        made = {"irm": IRM, "sd": SD, "vrex": VREx, "groupdro": GroupDRO}
        return ERM() if self.method in WITH_STEPS else made[self.method](self.value)

    def phases(self, recipe: Recipe) -> tuple[Phase, ...]:
        """ERM at a constant rate, then the method with a fresh Adam and a cosine to 0.

        From random weights: the method with a cosine over all steps, and no scaling of losses.
        ERM and the oracle keep a constant rate.
        """
        if self.method in WITH_STEPS:
            return (Phase("erm", int(self.value), recipe.rate),)
        steps = recipe.total_steps(self.method)
        objective = self.objective(recipe.gradient)
        if self.initialisation == RANDOM:
            return (Phase(objective, steps, recipe.rate, "cosine"),)
        scaling = "none"
        if recipe.scaling:
            scaling = {
                "eqrm": GRADIENT_RATIO,
                "irm": PENALTY_WEIGHT,
                "vrex": PENALTY_WEIGHT,
                "sd": PENALTY_WEIGHT,
            }.get(self.method, "none")
        after = Phase(
            objective, steps - recipe.burn_in, recipe.rate_after, "cosine", loss_scaling=scaling
        )
        return (Phase("erm", recipe.burn_in, recipe.rate), after)

    def printed(self) -> str:
        """The hyperparameter for people.

        >>> TableSetting("eqrm", "erm", -1000.0).printed(), TableSetting("sd", "erm", 1).printed()
        ('α = 1−e^−1000', 'λ = 1')
        """
        if self.method == "eqrm":
            shown = f"{self.value:g}" if self.value > 0 else f"1−e^−{-self.value:g}"
            return f"α = {shown}"
        symbol = {"groupdro": "η", **dict.fromkeys(WITH_STEPS, "steps")}.get(self.method, "λ")
        return f"{symbol} = {self.value:g}"


@dataclass(frozen=True)
class RecipeChange:
    """A change of the recipe, and the settings that are trained with it."""

    recipe: Recipe
    settings: tuple[TableSetting, ...]


STANDARD = Recipe()
_ERM = TableSetting("erm", RANDOM, 1000.0)
_IRM = TableSetting("irm", PRETRAINED, 1e4)
_VREX = TableSetting("vrex", PRETRAINED, 1e4)
_EQRM = TableSetting("eqrm", PRETRAINED, -5000.0)
_METHODS = (_IRM, _VREX, _EQRM)
AS_PUBLISHED = "batches with replacement"
CANDIDATES: dict[str, RecipeChange] = {
    AS_PUBLISHED: RecipeChange(
        replace(STANDARD, replacement=True),
        (
            _ERM,
            *_METHODS,
            *(TableSetting("irm", PRETRAINED, weight) for weight in (5e4, 1e5)),
            TableSetting("vrex", PRETRAINED, 1e5),
            TableSetting("eqrm", PRETRAINED, -10000.0),
        ),
    ),
    "one draw of digits and colours": RecipeChange(
        replace(STANDARD, shared_data=True), (_ERM, *_METHODS)
    ),
    "no dropout": RecipeChange(replace(STANDARD, dropout=0.0), (_ERM, *_METHODS)),
    "torch's default initialisation": RecipeChange(
        replace(STANDARD, initialisation="default"), (_ERM, *_METHODS)
    ),
    "two hidden layers": RecipeChange(replace(STANDARD, depth=2), (_ERM, *_METHODS)),
    "burn-in of 800 steps": RecipeChange(replace(STANDARD, burn_in=800, steps=1000), _METHODS),
    "600 steps after the burn-in": RecipeChange(replace(STANDARD, steps=1000), _METHODS),
    "no loss scaling": RecipeChange(replace(STANDARD, scaling=False), _METHODS),
    "published gradient": RecipeChange(replace(STANDARD, gradient="bisection"), (_EQRM,)),
    "TF32 products": RecipeChange(replace(STANDARD, products="tf32"), (_ERM, *_METHODS)),
    **{
        f"rate {rate:g} after the burn-in": RecipeChange(
            replace(STANDARD, rate_after=rate),
            tuple(TableSetting("sd", PRETRAINED, weight) for weight in (1.0, 100.0)),
        )
        for rate in (1e-5, 5e-6, 2.5e-6)
    },
}
"""What may explain the difference from the paper, one change at a time. The published code draws
the examples of its batches with replacement, and has three hidden layers where the paper says
two. Where SD ends depends on the rate after the burn-in, which the published code has an option
for. These rates, and the further values of the first change, were added after the first results
had been seen."""


@dataclass(frozen=True)
class MnistSettings:
    """Sizes: seeds, the recipe, the grids and what is varied."""

    seeds: int = 10
    recipe: Recipe = STANDARD
    grids: Mapping[str, Grid] = field(default_factory=lambda: GRIDS)
    candidates: Mapping[str, RecipeChange] = field(default_factory=lambda: CANDIDATES)
    initialisations: tuple[str, ...] = INITIALISATIONS
    figure_levels: tuple[Level, ...] = FIGURE_LEVELS
    test_digits: int | None = None

    def figure_settings(self) -> list[TableSetting]:
        """EQRM from ERM's weights at the levels of the figure."""
        values = [
            level.log_tail if level.log_tail <= -10.0 else level.alpha
            for level in self.figure_levels
        ]
        return [TableSetting("eqrm", PRETRAINED, value) for value in values]


_SMALL = Recipe(
    burn_in=150,
    steps=270,
    long_steps=270,
    rate=1e-3,
    rate_after=4e-4,
    width=128,
    batch=2_500,
    products="float32",
)
SIZES = {
    "full": MnistSettings(),
    "quick": MnistSettings(
        seeds=2,
        recipe=_SMALL,
        grids={
            "paper": {
                "erm": (150.0,),
                "oracle": (150.0,),
                "irm": (5000.0,),
                "vrex": (5000.0,),
                "eqrm": (-1000.0,),
                "groupdro": (0.1,),
                "sd": (1.0,),
            }
        },
        initialisations=(PRETRAINED,),
        candidates={},
        figure_levels=(Level(0.99), Level(log_tail=-1000.0)),
        test_digits=5_000,
    ),
}
