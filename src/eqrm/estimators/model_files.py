"""Models in one safetensors file: arrays, and everything else as JSON in its header.

Loading reads numbers and texts. The class comes from a fixed list, so nothing in a file can
execute code, and a digest tells whether anything in it was changed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from sklearn.utils.validation import check_is_fitted

import eqrm
from eqrm.errors import DataFileError, EqrmError, SettingError, did_you_mean
from eqrm.estimators.saved_state import REGISTRY, Arrays, Savable, restored
from eqrm.files.writing import whole_file

FORMAT = "eqrm model 1"
WRITERS = (
    "'eqrm train' writes model files (models/*.safetensors in its folder), and so does "
    "eqrm.save_model."
)


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What a file holds: a fitted estimator, and what else was ``attached`` (or None)."""

    estimator: Any
    attached: dict[str, Any] | None


def save_model(estimator: Any, path: str | Path, attached: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to one file, without pickle: whole, or not at all.

    ``attached`` is anything that JSON can hold and that belongs to the model, such as how the
    columns of a table become its features.

    >>> import numpy, tempfile
    >>> from eqrm import QRMRegressor, load_model
    >>> model = QRMRegressor(alpha=None).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.1], [1, 1, 2])
    >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> save_model(model, path)
    >>> bool(load_model(path).predict([[5.0]]) == model.predict([[5.0]]))
    True
    """
    name = type(estimator).__name__
    if name not in REGISTRY or not isinstance(estimator, Savable):
        raise SettingError(
            f"{name} cannot be saved by save_model, which knows: {', '.join(sorted(REGISTRY))}. Of "
            "a pipeline, save its last step."
        )
    check_is_fitted(estimator)
    content, arrays = estimator.saved_state()
    described = {"class": name, "version": eqrm.__version__, "attached": attached, **content}
    try:
        text = json.dumps(described, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SettingError(f"What is attached to a model must be JSON: {error}.") from None
    whole = {key: np.asarray(array, order="C") for key, array in arrays.items()}
    metadata = {"format": FORMAT, "model": text, "digest": _digest(text, whole)}
    with whole_file(Path(path)) as draft:
        save_file(whole, draft, metadata)


def load_model(path: str | Path) -> Any:
    """The estimator in a file that :func:`save_model` wrote, ready to predict.

    Damaged, truncated and foreign files are refused. Nothing that is loaded can execute code.
    """
    return read_model(path).estimator


def read_model(path: str | Path) -> SavedModel:
    """The estimator, and what was attached to it."""
    text, arrays = _read(Path(path))
    try:
        content = json.loads(text)
        name = content["class"]
        if name not in REGISTRY:
            raise DataFileError(
                f"{path} holds a model of the class {name!r}, which this version of eqrm "
                f"({eqrm.__version__}) does not know. {did_you_mean(name, REGISTRY)}"
            )
        return SavedModel(restored(name, content, arrays), content["attached"])
    except EqrmError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _damaged(path, error) from None


def _read(path: Path) -> tuple[str, Arrays]:
    if not path.is_file():
        raise DataFileError(f"There is no file {path}.")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except PermissionError:
        raise DataFileError(f"{path} cannot be read: permission is missing.") from None
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError):
        # What safetensors says is about the bytes of a header, and helps nobody here.
        raise DataFileError(f"{path} is no model file, or it is damaged. {WRITERS}") from None
    found = metadata.get("format", "")
    if found != FORMAT:
        if found.startswith("eqrm model "):
            raise DataFileError(
                f"{path} was written in the form {found!r}, by another version of eqrm than this "
                f"one ({eqrm.__version__}), which reads {FORMAT!r}."
            )
        raise DataFileError(f"{path} holds no model of eqrm. {WRITERS}")
    text = metadata.get("model", "")
    if metadata.get("digest") != _digest(text, arrays):
        raise _damaged(path, "its content does not match its digest")
    return text, arrays


def _digest(text: str, arrays: Arrays) -> str:
    """Of everything in the file that means something."""
    total = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def _damaged(path: str | Path, why: object) -> DataFileError:
    return DataFileError(f"{path} is damaged: {why}. Save or train the model again.")
