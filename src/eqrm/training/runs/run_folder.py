"""A run is a folder: config.yaml, predictor.json, metrics.jsonl, checkpoint/, risks.parquet, DONE.

``DONE`` is written last: a folder without it is a run that is not finished.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from eqrm.errors import CheckpointError, DataFileError, SettingError
from eqrm.files.archive import content_digest, save_tensors
from eqrm.files.checked_json import parsed_json, read_json
from eqrm.files.writing import CAN_LOCK, try_lock, whole_file, write_text
from eqrm.text import printable, shortened
from eqrm.training.held_out_risks import HeldOutRisks
from eqrm.training.runs.checkpoint import Checkpoints

WEIGHTS, PREDICTOR, DONE = "weights.safetensors", "predictor.json", "DONE"
COLUMNS = ("split", "domain", "examples", "risk", "variance", "standard_error", "accuracy")


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path, checkpoints_kept: int = 2) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoint", checkpoints_kept)

    @classmethod
    def finished(cls, path: str | Path) -> RunFolder:
        """The folder of a run that has ended; any other is refused."""
        files = cls(Path(path))
        if not files.done:
            raise DataFileError(
                f"{path} does not hold a finished run: the file DONE is missing. Give the folder "
                "that 'eqrm train-network' printed, or start the run again to finish it."
            )
        return files

    @property
    def done(self) -> bool:
        return (self.path / DONE).is_file()

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(
                f"The folder {self.path} cannot be created: {error.strerror}. Choose another."
            ) from None

    @contextmanager
    def reserved(self) -> Iterator[bool]:
        """Keep other processes out of the folder; False inside where one of them has it.

        The operating system ends the reservation with the process (:mod:`eqrm.files.writing`).
        """
        self.make()
        handle = os.open(self.path, os.O_RDONLY) if CAN_LOCK else -1
        try:
            yield try_lock(handle)
        finally:
            if handle >= 0:
                os.close(handle)

    def clear(self) -> None:
        """Remove what an earlier run left, to begin again."""
        self.checkpoints.clear()
        for name in (DONE, "metrics.jsonl", "risks.parquet", WEIGHTS):
            (self.path / name).unlink(missing_ok=True)

    def add_metrics(self, record: Mapping[str, Any]) -> None:
        with self.metrics_path.open("a", encoding="utf-8") as file:
            file.write(printable(json.dumps(record, ensure_ascii=False)) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        if not self.metrics_path.exists():
            return []
        text = self.metrics_path.read_text(encoding="utf-8")
        return [parsed_json(line) for line in text.splitlines()]

    def metrics_size(self) -> int:
        """Bytes of metrics on the disk; forces them there."""
        if not self.metrics_path.exists():
            return 0
        with self.metrics_path.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def cut_metrics(self, size: Any) -> None:
        """Remove the lines that were written after a checkpoint."""
        if not isinstance(size, int) or size < 0:
            raise CheckpointError("It does not record how long the metrics were.")
        there = self.metrics_path.stat().st_size if self.metrics_path.exists() else 0
        if there < size:
            raise CheckpointError(
                f"{self.metrics_path} is shorter than when its checkpoint was written: lines were "
                "removed. Restore the file, or start the run again."
            )
        if there > size:
            os.truncate(self.metrics_path, size)

    def write_weights(self, weights: Mapping[str, Tensor]) -> None:
        """The weights that the run ended with, and a digest of them and of ``predictor.json``."""
        plain = torch.contiguous_format  # networks of images may have another
        tensors = {
            name: tensor.detach().cpu().clone(memory_format=plain)
            for name, tensor in weights.items()
        }
        digest = content_digest(self._described(), tensors)
        with whole_file(self.path / WEIGHTS) as draft:
            save_tensors(tensors, draft, {"format": "pt", "sha256": digest})

    def read_weights(self) -> dict[str, Tensor]:
        """What :meth:`write_weights` wrote; a changed file is refused."""
        file = self.path / WEIGHTS
        try:
            with safe_open(file, framework="pt") as opened:
                known = (opened.metadata() or {}).get("sha256")
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"The weights {file} cannot be read: {error}.") from None
        if known != content_digest(self._described(), tensors):
            raise CheckpointError(
                f"{file} or {PREDICTOR} beside it is damaged: their content does not match the "
                "checksum. Restore both, or train the network again."
            )
        return tensors

    def _described(self) -> str:
        """``predictor.json``, whatever its layout."""
        return json.dumps(self.read_json(PREDICTOR), sort_keys=True)

    def write_risks(self, risks: Iterable[HeldOutRisks]) -> None:
        """A row per held-out domain."""
        import pyarrow
        import pyarrow.parquet as parquet

        kinds = [pyarrow.string()] * 2 + [pyarrow.int64()] + [pyarrow.float64()] * 4
        schema = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)))
        rows = [row for each in risks for row in _rows(each)]
        with whole_file(self.path / "risks.parquet") as draft:
            parquet.write_table(pyarrow.Table.from_pylist(rows, schema), draft)

    def read_risks(self) -> list[dict[str, Any]]:
        """The rows of ``risks.parquet``."""
        import pyarrow
        import pyarrow.parquet as parquet

        path = self.path / "risks.parquet"
        if not path.is_file():
            raise DataFileError(f"{self.path} holds no risks: the run is not finished.")
        try:
            rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        except (pyarrow.ArrowException, OSError) as error:
            why = shortened(str(error).replace("\n", " "))
            raise DataFileError(
                f"{path} is damaged ({why}). Delete the folder of the run and train it again."
            ) from None
        return rows

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_text(self.path / name, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def read_json(self, name: str) -> Any:
        """The plain data in a file; None where there is no such file."""
        path = self.path / name
        return read_json(path) if path.is_file() else None


def _rows(risks: HeldOutRisks) -> list[dict[str, Any]]:
    known = risks.accuracies
    columns = (
        [risks.split] * len(risks),
        risks.domains,
        risks.counts.tolist(),
        risks.risks.tolist(),
        risks.variances.tolist(),
        risks.standard_errors.tolist(),
        [None] * len(risks) if known is None else known.tolist(),
    )
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]
