"""The updates of DomainBed's algorithms, written down from their definitions in plain autograd.

Nothing here is taken from the package: losses, penalties and Adam are spelled out. Minibatches
are a list of (x, y), one per training domain; ``Network`` holds what an algorithm trains. What an
algorithm draws at random is drawn in the order in which the preset draws it.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Minibatches = Sequence[tuple[Tensor, Tensor]]
LEARNING_RATE, WEIGHT_DECAY = 0.01, 0.1


class Adam:
    """Kingma & Ba, with weight decay added to the gradient."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        rate: float = LEARNING_RATE,
        decay: float = WEIGHT_DECAY,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        self.parameters, self.rate, self.decay, self.betas = list(parameters), rate, decay, betas
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p), 0) for p in self.parameters]

    def descend(self, loss: Tensor, only: Sequence[Tensor] | None = None) -> None:
        """A step on the parameters (``only`` some of them) along the gradient of a loss."""
        wanted = [
            i
            for i, p in enumerate(self.parameters)
            if only is None or any(p is other for other in only)
        ]
        gradients = torch.autograd.grad(
            loss, [self.parameters[i] for i in wanted], materialize_grads=True
        )
        self.step(dict(zip(wanted, gradients, strict=True)))

    @torch.no_grad()
    def step(self, gradients: dict[int, Tensor]) -> None:
        first_beta, second_beta = self.betas
        for i, gradient in gradients.items():
            p, (first, second, count) = self.parameters[i], self.moments[i]
            gradient = gradient + self.decay * p
            first = first_beta * first + (1 - first_beta) * gradient
            second = second_beta * second + (1 - second_beta) * gradient**2
            count += 1
            self.moments[i] = (first, second, count)
            unbiased = first / (1 - first_beta**count)
            scale = (second / (1 - second_beta**count)).sqrt() + 1e-8
            p -= self.rate * unbiased / scale


@dataclass
class Network:
    """Copies of featurizer and head, further networks by name, and numbers that are kept."""

    featurizer: nn.Module
    head: nn.Module
    others: dict[str, nn.Module] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    def __call__(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.featurizer(x))
        return logits

    @property
    def parameters(self) -> list[Tensor]:
        return [*self.featurizer.parameters(), *self.head.parameters()]


def cross_entropies(logits: Tensor, y: Tensor) -> Tensor:
    """−log p_y, one per example."""
    return torch.logsumexp(logits, dim=1) - logits[torch.arange(len(y)), y]


def risk(logits: Tensor, y: Tensor) -> Tensor:
    return cross_entropies(logits, y).mean()


def risks(network: Network, minibatches: Minibatches) -> Tensor:
    return torch.stack([risk(network(x), y) for x, y in minibatches])


def pooled(minibatches: Minibatches) -> tuple[Tensor, Tensor]:
    return torch.cat([x for x, _ in minibatches]), torch.cat([y for _, y in minibatches])


def erm(network: Network, minibatches: Minibatches, **_: Any) -> Tensor:
    x, y = pooled(minibatches)
    return risk(network(x), y)


def irm(network: Network, minibatches: Minibatches, penalty_weight: float) -> Tensor:
    """d/dw of −log softmax(w·l)_y at w = 1 is Σ_k p_k l_k − l_y."""

    def slope(logits: Tensor, y: Tensor) -> Tensor:
        expected = (logits.softmax(dim=1) * logits).sum(dim=1)
        return (expected - logits[torch.arange(len(y)), y]).mean()

    penalties = []
    for x, y in minibatches:
        logits = network(x)
        penalties.append(slope(logits[0::2], y[0::2]) * slope(logits[1::2], y[1::2]))
    return risks(network, minibatches).mean() + penalty_weight * sum(penalties) / len(minibatches)


def vrex(network: Network, minibatches: Minibatches, penalty_weight: float) -> Tensor:
    found = risks(network, minibatches)
    return found.mean() + penalty_weight * ((found - found.mean()) ** 2).mean()


def groupdro(network: Network, minibatches: Minibatches, step_size: float) -> Tensor:
    found = risks(network, minibatches)
    weights = network.kept.get("q", torch.ones(len(minibatches), dtype=found.dtype))
    weights = weights * torch.exp(step_size * found.detach())
    network.kept["q"] = weights = weights / weights.sum()
    return (weights * found).sum()


def iga(network: Network, minibatches: Minibatches, penalty_weight: float) -> Tensor:
    found = risks(network, minibatches)
    gradients = [
        torch.cat(
            [g.flatten() for g in torch.autograd.grad(each, network.parameters, create_graph=True)]
        )
        for each in found
    ]
    mean = torch.stack(gradients).mean(dim=0).detach()
    return found.mean() + penalty_weight * sum(((g - mean) ** 2).sum() for g in gradients)


def sd(network: Network, minibatches: Minibatches, penalty_weight: float) -> Tensor:
    x, y = pooled(minibatches)
    logits = network(x)
    return risk(logits, y) + penalty_weight * (logits**2).mean()


def aligned(
    network: Network, minibatches: Minibatches, weight: float, distance: Callable[..., Tensor]
) -> Tensor:
    features = [network.featurizer(x) for x, _ in minibatches]
    found = torch.stack(
        [risk(network.head(f), y) for f, (_, y) in zip(features, minibatches, strict=True)]
    )
    pairs = [distance(a, b) for a, b in itertools.combinations(features, 2)]
    return found.mean() + weight * sum(pairs) / len(pairs)


def coral(network: Network, minibatches: Minibatches, penalty_weight: float) -> Tensor:
    def distance(a: Tensor, b: Tensor) -> Tensor:
        covariances = (torch.cov(a.T) - torch.cov(b.T)) ** 2
        return covariances.mean() + ((a.mean(dim=0) - b.mean(dim=0)) ** 2).mean()

    return aligned(network, minibatches, penalty_weight, distance)


def mmd(network: Network, minibatches: Minibatches, penalty_weight: float) -> Tensor:
    def kernel(a: Tensor, b: Tensor) -> Tensor:
        squares = ((a[:, None] - b[None]) ** 2).sum(dim=2)
        return sum(torch.exp(-(10.0**power) * squares) for power in range(-3, 4)).mean()

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)

    return aligned(network, minibatches, penalty_weight, distance)


def eqrm(network: Network, minibatches: Minibatches, alpha: float) -> Tensor:
    """Algorithm 1: 32 halvings of [R_min + h·z, R_max + h·z], differentiated as they stand."""
    found = risks(network, minibatches).sort().values
    normal = torch.distributions.Normal(0.0, 1.0)
    bandwidth = 1.06 * found.std() * len(found) ** -0.2
    z = normal.icdf(torch.tensor(alpha, dtype=found.dtype))
    low, high = found[0] + bandwidth * z, found[-1] + bandwidth * z
    for _ in range(32):
        middle = (low + high) / 2
        reached = normal.cdf((middle - found) / bandwidth).mean()
        low, high = (low, middle) if reached > alpha else (middle, high)
    return (low + high) / 2


def mixup(network: Network, minibatches: Minibatches, concentration: float) -> Tensor:
    beta = torch.distributions.Beta(concentration, concentration)
    order = torch.randperm(len(minibatches)).tolist()
    total = torch.zeros((), dtype=minibatches[0][0].dtype)
    for place, here in enumerate(order):
        (x, y), (other_x, other_y) = (
            minibatches[here],
            minibatches[order[(place + 1) % len(order)]],
        )
        share = float(beta.sample())
        logits = network(share * x + (1 - share) * other_x)
        total = total + share * risk(logits, y) + (1 - share) * risk(logits, other_y)
    return total / len(minibatches)


def mldg(network: Network, minibatches: Minibatches, beta: float, held_out: int) -> list[Tensor]:
    """The gradient: of R_i at θ and of R_j at θ after a fresh Adam's step, over all domains."""
    order = torch.randperm(len(minibatches)).tolist()
    training, testing = order[:-held_out], order[-held_out:]
    total = [torch.zeros_like(p) for p in network.parameters]
    for i, j in zip(training, itertools.cycle(testing), strict=False):
        clone = copy.deepcopy(network)
        (x, y), (other_x, other_y) = minibatches[i], minibatches[j]
        gradients = torch.autograd.grad(risk(clone(x), y), clone.parameters)
        Adam(clone.parameters).step(dict(enumerate(gradients)))
        after = torch.autograd.grad(risk(clone(other_x), other_y), clone.parameters)
        total = [
            t + (g + beta * h) / len(minibatches)
            for t, g, h in zip(total, gradients, after, strict=True)
        ]
    return total


def rsc(network: Network, minibatches: Minibatches, drop: float, drop_examples: float) -> Tensor:
    x, y = pooled(minibatches)
    features = network.featurizer(x)
    logits = network.head(features)
    everyone = torch.arange(len(y))
    (slopes,) = torch.autograd.grad(logits[everyone, y].sum(), features, retain_graph=True)
    limits = np.percentile(slopes.numpy(), 100 * (1 - drop), axis=1, keepdims=True)
    kept = torch.from_numpy((slopes.numpy() < limits).astype(np.float64))
    with torch.no_grad():
        muted = network.head(features * kept).softmax(dim=1)[everyone, y]
        fall = (logits.softmax(dim=1)[everyone, y] - muted).numpy()
    spared = torch.from_numpy(fall < np.percentile(fall, 100 * (1 - drop_examples)))
    kept[spared] = 1.0
    return risk(network.head(features * kept), y)


def restyled(features: Tensor, what: str) -> Tensor:
    mean, variance = features.mean(dim=1, keepdim=True), features.var(dim=1, keepdim=True)
    content = (features - mean) / torch.sqrt(variance + 1e-5)
    other = torch.randperm(len(features))
    if what == "content":
        return content[other].detach() * torch.sqrt(variance + 1e-5) + mean
    share = torch.rand(len(features), 1).to(features)
    mean = share * mean + (1 - share) * mean[other]
    variance = share * variance + (1 - share) * variance[other]
    return content * torch.sqrt(variance + 1e-5) + mean


def discriminator_loss(
    network: Network, minibatches: Minibatches, conditional: bool, penalty: float
) -> Tensor:
    x, y = pooled(minibatches)
    domains = torch.cat([torch.full((len(y),), e) for e, (_, y) in enumerate(minibatches)])
    inputs = network.featurizer(x)
    if conditional:
        inputs = inputs + network.others["class_embeddings"].weight[y]
    losses = cross_entropies(network.others["discriminator"](inputs), domains)
    if conditional:
        counts = torch.tensor([int((y == k).sum()) for k in range(int(y.max()) + 1)])
        loss = (losses / (counts[y] * len(counts))).sum()
    else:
        loss = losses.mean()
    (slopes,) = torch.autograd.grad(losses.sum(), inputs, create_graph=True)
    return loss + penalty * (slopes**2).sum(dim=1).mean()


def arm(network: Network, minibatches: Minibatches) -> Tensor:
    """The context of all domains in one pass (batch norm sees them together), a mean for each."""
    x, y = pooled(minibatches)
    context = network.others["context"](x)
    sizes = [len(y) for _, y in minibatches]
    means = [part.mean(dim=0, keepdim=True).expand_as(part) for part in context.split(sizes)]
    return risk(network(torch.cat([x, torch.cat(means)], dim=1)), y)


def mtl(network: Network, minibatches: Minibatches, noise: Sequence[Tensor]) -> Tensor:
    total = torch.zeros((), dtype=minibatches[0][0].dtype)
    for (x, y), drawn in zip(minibatches, noise, strict=True):
        total = total + risk(network.head(torch.cat([network.featurizer(x), drawn], dim=1)), y)
    return total
