"""``eqrm table``: the tables of a sweep's folder, in all formats, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import called, printed_by, refused
from data.real_data import ROOT, needs

DOMAINS = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """DomainBed's records of two draws and two trials on three domains."""
    lines = []
    for held_out in range(DOMAINS):
        for draw in (0, 1):
            for trial in (0, 1):
                measured = {
                    f"env{n}_{part}_acc": (n + draw + trial) / 8
                    for n in range(DOMAINS)
                    for part in ("in", "out")
                }
                place = {"dataset": "Mine", "algorithm": "ERM", "test_envs": [held_out]}
                place |= {"hparams_seed": draw, "trial_seed": trial}
                name = f"{held_out}{draw}{trial}"
                lines.append({"args": place, "hparams": {}, "step": 0, "run": name, **measured})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "records.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def test_all_rules_are_tabulated_and_those_without_records_say_so(folder: Path) -> None:
    out = printed_by("table", str(folder))
    assert "Mine: accuracy (%) on held-out domains. Selection: training-domain" in out
    # draw 1 is selected: domain n reaches (n + 1 + trial) / 8
    assert "ERM        18.8 ± 4.4  31.2 ± 4.4  43.8 ± 4.4  31.2 ± 4.4" in out
    assert "Mine, leave-one-domain-out: 12 runs not judged or reported" in out
    assert "no validation risk" in out


def test_rules_and_their_settings_are_options(folder: Path) -> None:
    options = ["--rule", "quantile,oracle", "--metric", "accuracy", "--alpha", "0.5"]
    out = printed_by("table", str(folder), *options, "--checkpoints", "last")
    assert "quantile of validation domains, α = 0.5, last checkpoint" in out
    assert "training-domain" not in out


def test_files_are_written_in_the_format_of_their_name(folder: Path, tmp_path: Path) -> None:
    begins = {"txt": "Mine: acc", "md": "### Mine", "tex": r"\paragraph", "csv": "table,dataset"}
    for suffix, begin in begins.items():
        path = tmp_path / f"tables.{suffix}"
        code, out, _ = called("table", str(folder), "--output", str(path))
        assert (code, out) == (0, f"Wrote {path}.\n")
        assert path.read_text(encoding="utf-8").startswith(begin)
    code, out, _ = called("table", str(folder), "--selected", "--format", "csv")
    assert out.startswith(
        "dataset,rule,objective,held_out,trial,draw,step,score,value,run,settings\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rule", "orcle"], "Unknown selection rule 'orcle'. Did you mean 'oracle'?"),
        (["--format", "pdf"], "format"),
        (["--output", "tables.pdf"], "The format of tables.pdf is not known by its name"),
        (["--metric", "f1"], "metric"),
        (["--alpha", "2"], "--alpha must be a level"),
        (["--quantiles", "x"], "--quantiles must be a level"),
        (["--checkpoints", "first"], "checkpoint rule"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    folder: Path, options: list[str], message: str
) -> None:
    assert message in refused("table", str(folder), *options)


@needs("domainbed_sweep/records.jsonl.gz")
def test_the_page_shows_what_the_command_prints() -> None:
    page = Path(__file__).parents[2] / "docs" / "sweeps.md"
    rules = "training-domain,leave-one-domain-out,oracle"
    _, out, _ = called("table", str(ROOT / "domainbed_sweep"), "--rule", rules)
    assert f"```text\n{out}```" in page.read_text(encoding="utf-8")
    assert f"--rule {rules}\n```" in page.read_text(encoding="utf-8")
