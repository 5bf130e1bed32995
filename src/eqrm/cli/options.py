"""The options that several commands have, each declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any

from eqrm.checks import CONFIDENCE, Problems
from eqrm.cli.commands import column, inner_level, option, separated
from eqrm.errors import OPTIONS, SettingError
from eqrm.files.yaml_text import parse_settings
from eqrm.tabular.plan import PREDICTION as PREDICTION
from eqrm.tabular.plan import SEVERAL as SEVERAL
from eqrm.tabular.plan import THREADS, TrainingPlan


def declared(name: str) -> Any:
    """The option of a setting of :class:`TrainingPlan`, for the commands that share it."""
    return _option(TrainingPlan.__dataclass_fields__[name])


def confidence_of(what: str, panel: str | None = None) -> Any:
    """The option of the confidence level of something."""
    return option(f"Confidence level of {what}, {CONFIDENCE.words}.", panel)


REPEAT = "Repeat the option for several models."
CLIP = "Clip probabilities to [CLIP, 1 - CLIP] in the log-loss, such as 1e-7."
LARGEST = "To minimise the largest risk, use --measure worst and leave out --alpha."


def _share_or_names(values: list[str]) -> float | list[str]:
    """Domains to keep aside: a share of them, or names; one name alone would be too few."""
    given = separated(values)
    if len(given) == 1:
        with suppress(ValueError):
            return float(given[0])
    return given


def _class_weights(given: list[str]) -> str | dict[str, float]:
    """``balanced``, or the weights of classes (CLASS=WEIGHT)."""
    values = separated(given)
    if len(values) < 2 and not any("=" in value for value in values):
        return values[0]
    found = {}
    for value in values:
        name, _, number = value.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise SettingError(
                f"--class-weight takes 'balanced' or CLASS=WEIGHT, such as yes=5, got {value!r}."
            )
    return found


READ: dict[str, Callable[..., Any]] = {
    "names": separated,
    "values": separated,
    "share or names": _share_or_names,
    "levels": lambda given: [inner_level(each, LARGEST) for each in separated(given)],
    "level": inner_level,
    "settings": parse_settings,
    "weights": _class_weights,
}
"""What becomes of the texts of options, by the kind of setting."""


def read_settings(plan: type[Any], given: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """The settings of a plan that a command was given, as Python would give them."""
    chosen = dict[str, Any]()
    for each in fields(plan):
        if given.get(each.name) is not None:
            with problems.noted():
                read = READ.get(each.metadata["kind"])
                value = given[each.name]
                chosen[each.name] = value if read is None else read(value)
    return chosen


def with_settings(
    command: Callable[..., None], plan: type[Any], *, unset: bool = False
) -> inspect.Signature:
    """The signature of a command that also has every setting of a plan as an option.

    ``unset`` makes None of the defaults, where it counts whether something was said.
    """
    typed = {"text": str, "number": float, "integer": int, "flag": bool, "switch": bool}
    typed["level"] = str
    own = inspect.signature(command, eval_str=True)
    first, *rest = [each for each in own.parameters.values() if each.name != "given"]
    options = []
    for each in fields(plan):
        about = each.metadata
        if about.get("panel") is None:
            continue
        kind: Any = typed.get(about["kind"], list[str])
        default = None if unset or about["kind"] not in typed else each.default
        kind = kind if default is not None else kind | None
        options.append(
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[kind, _option(each)],
            )
        )
    return own.replace(parameters=[first, *options, *rest])


def _option(each: Field[Any]) -> Any:
    """The option of a setting."""
    about, typed = each.metadata, OPTIONS.get(each.name, each.name.replace("_", "-"))
    name = f"--{typed}/--no-{typed}" if about["kind"] == "switch" else f"--{typed}"
    return option(about["help"], about["panel"], name, metavar=about.get("metavar"))


DomainColumns = Annotated[list[str] | None, declared("domain")]

DataRoot = Annotated[
    Path | None, option("Folder that holds the datasets (default: environment variable EQRM_DATA).")
]
DATA, TIME = "Data", "Domains in time"
Target = Annotated[str | None, column("Column of what is predicted.", DATA)]
Seen = Annotated[
    str | None,
    column(
        "Column that says whether a model was trained on the row's domain, true or false. Such "
        "domains are left out (default: the column 'seen', if there is one).",
        DATA,
    ),
]
CommonDomains = Annotated[
    bool, option("Leave out domains for which a model has no rows.", DATA, "--common-domains")
]
Threads = Annotated[int | None, option(THREADS, DATA)]
Memory = Annotated[str, option("Memory limit for reading files, such as 2GB.", DATA)]
Order = Annotated[
    str | None,
    column(
        "Column with the time of each row, a date or a number, which orders the domains. "
        "Default: the domain, where it is a date.",
        TIME,
    ),
]
TestAfter = Annotated[
    str | None,
    option(
        "Use only domains that begin strictly after this day, month, moment or number.",
        TIME,
        metavar="DATE",
    ),
]
TestLast = Annotated[
    float | None,
    option("Use only this share of the domains, the latest.", TIME, metavar="SHARE"),
]
Dependence = Annotated[
    int | None,
    option(
        "For domains that are independent if more than K places apart.",
        TIME,
        metavar="K",
    ),
]
Spells = Annotated[
    bool,
    option(
        "For domains that come in spells of unknown length: an approximate certificate.",
        TIME,
        "--spells",
    ),
]
Recent = Annotated[
    float | None,
    option(
        "For the next domain, by recent domains more: weights halve every HALF_LIFE domains. Not a "
        "certificate.",
        TIME,
        metavar="HALF_LIFE",
    ),
]
