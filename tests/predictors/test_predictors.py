from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from eqrm.errors import DomainDataError, SettingError
from eqrm.predictors import MLP, Predictor
from eqrm.predictors.base import LOSSES, input_size, output_size, widened
from eqrm.predictors.small_networks import LinearPredictor


def with_loss(loss) -> Predictor:
    return Predictor(nn.Identity(), nn.Identity(), loss)


def test_losses_per_example_match_values_worked_out_by_hand() -> None:
    outputs, y = torch.tensor([[0.0, math.log(3.0)], [0.0, 0.0]]), torch.tensor([1, 0])
    expected = [math.log(4 / 3), math.log(2)]
    assert with_loss("cross-entropy").losses(outputs, y).tolist() == pytest.approx(expected)
    logits = torch.tensor([math.log(3.0), 0.0])
    binary = with_loss("binary-cross-entropy").losses(logits, torch.tensor([1, 0]))
    assert binary.tolist() == pytest.approx(expected)
    squares = with_loss("squared").losses(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 2.0]]))
    assert squares.tolist() == [2.0]


@pytest.mark.parametrize("loss", ["squared", "binary-cross-entropy"])
def test_a_column_of_outputs_meets_a_row_of_targets_without_broadcasting(loss: str) -> None:
    outputs, y = torch.randn(4, 1), torch.tensor([0.0, 1.0, 1.0, 0.0])
    column, flat = with_loss(loss).losses(outputs, y), with_loss(loss).losses(outputs[:, 0], y)
    assert column.shape == (4,)
    assert torch.equal(column, flat)


def test_a_loss_that_averages_over_examples_is_refused() -> None:
    predictor = with_loss(lambda outputs, y: nn.functional.mse_loss(outputs, y))
    with pytest.raises(DomainDataError, match="one number per example"):
        predictor.losses(torch.zeros(3), torch.zeros(3))


def test_wrong_names_and_shapes_are_explained() -> None:
    with pytest.raises(SettingError, match="Did you mean 'squared'"):
        with_loss("squard")
    with pytest.raises(DomainDataError, match="binary-cross-entropy"):
        with_loss("cross-entropy").losses(torch.zeros(3), torch.zeros(3, dtype=torch.long))
    with pytest.raises(DomainDataError, match="same number of values per example"):
        with_loss("squared").losses(torch.zeros(3, 2), torch.zeros(3))


def test_class_logits_of_one_logit_give_the_same_loss() -> None:
    predictor, logits = with_loss("binary-cross-entropy"), torch.randn(6, 1)
    y = torch.tensor([0, 1, 1, 0, 1, 0])
    two = nn.functional.cross_entropy(predictor.class_logits(logits), y, reduction="none")
    assert torch.allclose(two, predictor.losses(logits, y), atol=1e-6)


def test_the_mlp_is_its_layers_and_the_linear_predictor_is_affine() -> None:
    predictor, x = MLP(4, 2, width=8, depth=2), torch.randn(3, 2, 2)
    flatten, first, _, second, _ = predictor.featurizer
    by_hand = second(first(flatten(x)).clamp(min=0)).clamp(min=0)
    assert torch.allclose(predictor.features(x), by_hand)
    assert torch.allclose(predictor(x), predictor.head(by_hand))
    linear = LinearPredictor(4, 1)
    expected = x.flatten(1) @ linear.head.weight.T + linear.head.bias
    assert torch.allclose(linear(x), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("network", "shape", "extra_shape"),
    [
        (nn.Linear(3, 5), (2, 3), (2, 4)),
        (nn.Sequential(nn.Flatten(), nn.Linear(3, 5, bias=False), nn.ReLU()), (2, 3), (2, 4)),
        (nn.Sequential(nn.Conv2d(3, 5, 3, stride=2, padding=1)), (2, 3, 6, 6), (2, 4, 6, 6)),
    ],
)
def test_a_widened_network_is_the_old_one_where_the_new_inputs_are_zero(
    network: nn.Module, shape: tuple[int, ...], extra_shape: tuple[int, ...]
) -> None:
    network = network.double()
    wider, x = widened(network, 4), torch.randn(shape, dtype=torch.float64)
    nothing = torch.zeros(extra_shape, dtype=torch.float64)
    assert torch.allclose(wider(torch.cat([x, nothing], dim=1)), network(x))
    assert not torch.allclose(wider(torch.cat([x, nothing + 1], dim=1)), network(x))
    assert input_size(wider) == 7


def test_sizes_are_read_from_the_first_and_last_layer() -> None:
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 10))
    assert (input_size(network), output_size(network)) == (3, 10)
    with pytest.raises(SettingError, match=r"has no nn\.Linear"):
        input_size(nn.ReLU())


def test_missing_labels_change_neither_loss_nor_gradient_of_those_present() -> None:
    logits = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.1, 0.2]], requires_grad=True)
    y = torch.tensor([[1.0, torch.nan, 0.0], [torch.nan, torch.nan, 1.0]])
    losses = LOSSES["binary-cross-entropy"](logits, y)
    first = (torch.tensor(1.0).neg().exp().log1p() + torch.tensor(3.0).exp().log1p()) / 2
    torch.testing.assert_close(losses, torch.stack([first, torch.tensor(0.2).neg().exp().log1p()]))
    losses.sum().backward()
    assert torch.equal(logits.grad == 0, y.isnan())
