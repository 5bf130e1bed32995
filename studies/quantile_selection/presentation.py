"""The tables, the picture and the words of the study of selection rules."""

from __future__ import annotations

import math
from statistics import median_low
from typing import TYPE_CHECKING

from eqrm.evaluation.presenting.plots import new_figure
from studies.outcome import Cell, ResultTable
from studies.quantile_selection.findings import (
    HINDSIGHT,
    MEAN,
    MEASURES,
    RANDOM,
    REFERENCES,
    RULES,
    TEST,
    VALIDATION,
    SelectionFindings,
    groups_and_rules,
    measures_of,
    quantile_name,
)
from studies.quantile_selection.settings import (
    DECAY,
    DEPTH,
    DROPOUT,
    EITHER,
    EQRM,
    ERM,
    EXAMPLES,
    GROUPS,
    LINEAR,
    MAIN_LEVEL,
    OBJECTIVES,
    RATE,
    WIDTH,
    WITH_ERM_PHASE,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAIN = quantile_name(MAIN_LEVEL)
DRAWN = {
    RATE: "learning rate",
    WIDTH: "width",
    DEPTH: "depth",
    DROPOUT: "dropout",
    DECAY: "weight decay",
    EXAMPLES: "examples per day",
}
EQUAL_ODDS = math.log(2.0)
"""The risk of saying one half, which is that of every day."""
DIGITS = 6
"""Of the numbers that are kept in files."""


def selection_tables(findings: SelectionFindings) -> list[ResultTable]:
    """All tables; the first three are on the page."""
    makers = (_changes, _risks, _taken, _choices, _candidates)
    return [table(findings) for table in makers]


def _options(group: str) -> list[str]:
    """Rules and references of a group; a random draw and defaults are those of an objective."""
    return [*RULES, *(REFERENCES if group in OBJECTIVES else (HINDSIGHT,))]


def _changes(findings: SelectionFindings) -> ResultTable:
    rows: list[list[Cell]] = []
    for group in GROUPS:
        for option in (name for name in _options(group) if name != MEAN):
            changes = [findings.from_mean(group, option, measure) for measure in MEASURES]
            rows.append([group, option, *(f"{each} {each.word}" for each in changes)])
    title = "Change on unseen days against selection by the mean"
    return ResultTable("changes", title, ["runs of", "selected by", *MEASURES], rows, leading=True)


def _risks(findings: SelectionFindings) -> ResultTable:
    pairs = [(group, option) for group in GROUPS for option in _options(group)]
    rows: list[list[Cell]] = [
        [group, option, *map(float, findings.unseen(group, option).mean(axis=0))]
        for group, option in pairs
    ]
    rows.append([LINEAR, "", *map(float, findings.linear.mean(axis=0))])
    rows.append(["equal odds", "", *[EQUAL_ODDS] * len(MEASURES)])
    title = "Risk (cross-entropy) over unseen days, mean over splits"
    return ResultTable("risks", title, ["runs of", "selected by", *MEASURES], rows, leading=True)


def _taken(findings: SelectionFindings) -> ResultTable:
    """How often rules agree, and the median of what they take."""
    rows: list[list[Cell]] = []
    for group, rule in groups_and_rules():
        chosen = [each.selected[rule] for each in findings.selections[group]]
        run, both = findings.agreement(group, rule)
        steps = f"{median_low([each.checkpoint.step for each in chosen])}"
        medians = [median_low([c.run.settings[path] for c in chosen]) for path in DRAWN]
        rows.append(
            [
                group,
                rule,
                "" if rule == MEAN else f"{run} of {len(chosen)}",
                "" if rule == MEAN else f"{both} of {len(chosen)}",
                f"{sum(each.run.objective == EQRM for each in chosen)} of {len(chosen)}",
                steps,
                *(f"{value:.2g}" for value in medians),
            ]
        )
    columns = ["runs of", "selected by", "same run as by the mean", "same checkpoint too"]
    columns += ["EQRM", "step", *DRAWN.values()]
    title = "What each rule selects (medians over splits)"
    return ResultTable("taken", title, columns, rows, leading=True)


def _choices(findings: SelectionFindings) -> ResultTable:
    """Every selection, split by split."""
    rows: list[list[Cell]] = []
    for group, rule in groups_and_rules():
        for split, each in enumerate(findings.selections[group]):
            chosen = each.selected[rule]
            rows.append(
                [
                    str(split),
                    group,
                    rule,
                    chosen.run.objective,
                    str(chosen.run.draw),
                    str(chosen.checkpoint.step),
                    *(float(chosen.run.settings[path]) for path in DRAWN),
                    round(-chosen.score, DIGITS),
                    *(round(float(value), DIGITS) for value in each.unseen[rule]),
                ]
            )
    columns = ["split", "runs of", "selected by", "objective", "draw", "step", *DRAWN.values()]
    columns += ["validation", *(f"unseen {measure}" for measure in MEASURES)]
    return ResultTable("choices", "Every selection", columns, rows, on_page=False)


def _candidates(findings: SelectionFindings) -> ResultTable:
    """Every run and checkpoint: what selections can be computed from again."""
    rows: list[list[Cell]] = []
    for split, runs in enumerate(findings.splits):
        for run in runs.all_runs:
            seen, unseen = (measures_of(run, run.checkpoints, part) for part in (VALIDATION, TEST))
            for at, checkpoint in enumerate(run.checkpoints):
                numbers = [round(float(v), DIGITS) for v in (*seen[at], *unseen[at])]
                place = [str(split), run.objective, str(run.draw), str(checkpoint.step)]
                rows.append([*place, *numbers])
    columns = ["split", "objective", "draw", "step"]
    columns += [f"{part} {measure}" for part in ("validation", "unseen") for measure in MEASURES]
    return ResultTable("candidates", "Every candidate", columns, rows, on_page=False)


def selection_answer(findings: SelectionFindings) -> str:
    """What the study says, and what to do."""
    words = {"lower": "clearly lower", "tie": "a tie", "higher": "clearly higher"}
    own = {group: findings.from_mean(group, MAIN, MAIN) for group in GROUPS}
    shown = {group: f"{change} ({words[change.word]})" for group, change in own.items()}
    paid = {group: findings.from_mean(group, MAIN, MEAN) for group in GROUPS}
    room = {group: findings.from_mean(group, HINDSIGHT, MAIN) for group in OBJECTIVES}
    random = {group: findings.from_mean(group, RANDOM, MAIN) for group in OBJECTIVES}
    lines = [
        _what_is_selected(findings),
        f"The price: the mean risk on unseen days changes by {paid[ERM]} with ERM, {paid[EQRM]} "
        f"with EQRM, {paid[EITHER]} with either.",
        f"How much there is to select: the {MAIN} of the best candidate in hindsight differs from "
        f"that of selection by the mean by {room[ERM]} with ERM and {room[EQRM]} with EQRM; that "
        f"of a random draw by {random[ERM]} and {random[EQRM]}.",
        f"The objective: both selected by the {MAIN}, EQRM's {MAIN} differs from ERM's by "
        f"{findings.change((EQRM, MAIN), (ERM, MAIN), MAIN)}, its mean by "
        f"{findings.change((EQRM, MAIN), (ERM, MAIN), MEAN)}.",
        f"The network: ERM selected by the mean differs from linear ERM by "
        f"{findings.change((ERM, MEAN), (LINEAR, ''), MEAN)} in the mean, and by "
        f"{findings.change((ERM, MEAN), (LINEAR, ''), MAIN)} in the {MAIN}.",
    ]
    first = (
        f"**Selected by the {MAIN} of validation days instead of their mean, the {MAIN} of risk on "
        f"unseen days changes by {shown[ERM]} with ERM, by {shown[EQRM]} with EQRM, and by "
        f"{shown[EITHER]} where the rule also chooses between the two objectives.**"
    )
    return "\n".join([first, "", advice(findings), "", *(f"- {line}" for line in lines)])


def _what_is_selected(findings: SelectionFindings) -> str:
    splits = len(findings.splits)
    agreed = {group: findings.agreement(group, MAIN)[0] for group in OBJECTIVES}
    eqrm = {
        rule: sum(s.selected[rule].run.objective == EQRM for s in findings.selections[EITHER])
        for rule in (MEAN, MAIN)
    }
    early = sum(
        each.selected[MEAN].checkpoint.step <= findings.settings.erm_steps
        for each in findings.selections[WITH_ERM_PHASE]
    )
    of_erm = {
        rule: [each.selected[rule] for each in findings.selections[ERM]] for rule in (MEAN, MAIN)
    }
    steps = {r: median_low([c.checkpoint.step for c in own]) for r, own in of_erm.items()}
    rates = {r: median_low([c.run.settings[RATE] for c in own]) for r, own in of_erm.items()}
    return (
        f"What they select: both rules take the same run in {agreed[ERM]} of {splits} splits with "
        f"ERM and in {agreed[EQRM]} with EQRM. Of ERM the mean takes step {steps[MEAN]} at a "
        f"learning rate of {rates[MEAN]:.2g} (medians), the {MAIN} step {steps[MAIN]} at "
        f"{rates[MAIN]:.2g}. Among the runs of both objectives, the mean takes "
        f"EQRM in {eqrm[MEAN]} of {splits} splits, the {MAIN} in {eqrm[MAIN]}. Where checkpoints "
        f"of EQRM's ERM phase compete, the mean takes one of them in {early} of {splits} splits"
        + (", and so undoes the objective." if early else ".")
    )


def advice(findings: SelectionFindings) -> str:
    """What a user should do, by which differences are clear."""
    words = {group: findings.from_mean(group, MAIN, MAIN).word for group in GROUPS}
    says = {
        "lower": "select by the quantile of the level that you are judged by",
        "higher": "select by the mean",
        "tie": "either rule will do: the difference is within the noise of the splits",
    }
    found = []
    for group in OBJECTIVES:
        reached = float(findings.unseen(group, MAIN)[:, MEASURES.index(MAIN)].mean())
        if reached >= EQUAL_ODDS:
            found.append(
                f"With {group}, selection does not help: the {MAIN} that it reaches, "
                f"{reached:.3f}, is no lower than that of equal odds, {EQUAL_ODDS:.3f}, because "
                "the rule takes networks that say little. Train for the level instead."
            )
        else:
            found.append(f"With {group}, {says[words[group]]}.")
    found.append(f"Where the rule chooses between objectives too, {says[words[EITHER]]}.")
    price = findings.from_mean(EITHER, MAIN, MEAN)
    if words[EITHER] == "lower" and price.word == "higher":
        found.append(
            f"It costs {price} in the mean, so do this if bad days matter more than the average."
        )
    objective = findings.change((EQRM, MAIN), (ERM, MAIN), MAIN)
    if objective.word == "lower":
        found.append(
            f"Selection does not replace the objective: with both selected by the {MAIN}, that of "
            f"EQRM is lower than that of ERM ({objective})."
        )
    return f"**What to do.** {' '.join(found)}"


def selection_remarks(findings: SelectionFindings) -> list[str]:
    """How to read the numbers, and what the study does not say."""
    failures = [line for split in findings.splits for line in split.failures]
    return [
        *(f"Failed: {line}" for line in failures),
        "± is the standard error over splits times Student's t. Splits overlap, so the variance "
        "over splits is multiplied by 1/S + test/train (Nadeau & Bengio 2003). A change within ± "
        "of 0 is called a tie.",
        "The best in hindsight is picked by the unseen days themselves, for each column its own: "
        "part of it is luck that no rule can have.",
        "The time at the top is that of the command that wrote this page; runs that were finished "
        "before are not in it. Theirs is under Settings.",
        "A random draw is the mean over draws after the last step; the defaults are draw 0 after "
        "the last step.",
        "Quantiles are empirical ones (step), of whole days. Every selection, and every candidate "
        "with its risks on validation and unseen days, is in choices.csv and candidates.csv.",
        "Set after something was seen: the number of steps and the group without EQRM's ERM phase, "
        "after seven trial runs of another seed; the row of equal odds and the advice that rests "
        "on it, after the full results. No comparison or check was changed after them.",
        "Not part of this study: recalibrating the selected network on validation days, which "
        "needs no second training and on these features gives ERM as low a 0.9-quantile as "
        "training for it ([networks](../../training.md#from-a-file), "
        "[linear models](../../flights.md)).",
    ]


def draw_changes(findings: SelectionFindings) -> Figure:
    """A panel per group: change of every measure against selection by the mean."""
    figure = new_figure(width=11.0, height=3.4)
    panels = figure.subplots(1, len(GROUPS))
    options = [*(rule for rule in RULES if rule != MEAN), HINDSIGHT]
    for panel, group in zip(panels, GROUPS, strict=True):
        for place, option in enumerate(options):
            changes = [findings.from_mean(group, option, measure) for measure in MEASURES]
            panel.errorbar(
                [at + 0.16 * (place - 1.5) for at in range(len(MEASURES))],
                [100.0 * each.mean for each in changes],
                yerr=[100.0 * each.half for each in changes],
                fmt="_" if option == HINDSIGHT else "o",
                color="0.6" if option == HINDSIGHT else f"C{place}",
                markersize=4,
                capsize=2,
                linewidth=1.0,
                label=option if option == HINDSIGHT else f"selected by the {option}",
            )
        panel.axhline(0.0, color="0.3", linewidth=0.8)
        panel.set_xticks(range(len(MEASURES)), [m.removesuffix("-quantile") for m in MEASURES])
        panel.set_title(group, fontsize=9)
    panels[0].set_ylabel("change against selection by the mean, %")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, frameon=False, loc="outside upper center", ncols=len(options), fontsize=8
    )
    return figure
