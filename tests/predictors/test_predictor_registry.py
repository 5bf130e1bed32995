"""Predictors by name."""

from __future__ import annotations

import pytest
import torch

from eqrm.errors import SettingError
from eqrm.predictors import Predictor, predictor
from eqrm.predictors.registry import PREDICTORS, predictor_settings


@pytest.mark.parametrize("name", [name for name in PREDICTORS if name != "gin"])
def test_every_name_makes_a_predictor_of_the_data_s_size(name: str) -> None:
    made = predictor(name, inputs=(3, 32, 32), outputs=5).eval()
    assert isinstance(made, Predictor)
    assert made(torch.zeros(2, 3, 32, 32)).shape == (2, 5)
    assert "loss" in predictor_settings(name)


def test_names_stand_for_their_settings_and_take_others() -> None:
    made = predictor("MLP", 4, 1, width=7, depth=1, loss="squared")
    assert (made.featurizer[1].out_features, made.loss) == (7, "squared")  # type: ignore[index]
    assert "depth" not in predictor_settings("resnet18")
    assert predictor("gin", None, 2, width=8, depth=2).head.out_features == 2


@pytest.mark.parametrize(
    ("name", "inputs", "settings", "words"),
    [
        ("efficientnet", (3, 8, 8), {}, "Unknown predictor 'efficientnet'. Did you mean"),
        ("mlp", 4, {"widht": 3}, "no setting 'widht'. Did you mean 'width'"),
        ("resnet18", (3, 8, 8), {"depth": 50}, "no setting 'depth'"),
        ("cnn", 4, {}, r"images of shape \(channels, height, width\)"),
        ("mlp", None, {}, "the data are graphs"),
        ("mlp", 4, {"initialisation": "xaver"}, "Did you mean 'xavier'"),
    ],
)
def test_wrong_names_and_settings_are_refused_in_words(
    name: str, inputs: int, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        predictor(name, inputs, 2, **settings)
