"""A step of EfficientNet-lite0 as ``python -m studies pacs`` takes it, augmentation included.

    PYTHONPATH=src:. python3 benchmarks/image_step.py --output DIR

Prints Markdown with the name of the device and writes it to DIR/image_step.md: steps of the trainer
with ERM and with EQRM, captured as CUDA graphs and not, which take turns; and how far the losses of
captured steps are from those of others, for every objective that may be captured. The bounds are
for an H200. ``--device cpu`` tries the script without a GPU, on small images.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from studies.pacs.settings import PacsSettings
from tables import gpu_options, markdown, measured_on
from timing import Budget, interleaved
from torch import Tensor

from eqrm.data.augmentation import Augmentation
from eqrm.data.batches import DomainBatches
from eqrm.data.domain_data import DomainData
from eqrm.objectives.registry import OBJECTIVES
from eqrm.predictors.efficientnet import EfficientNetLite
from eqrm.training.device_data import WARM_UP
from eqrm.training.phases import Phase
from eqrm.training.trainer import Trainer
from eqrm.training.training_settings import TrainingSettings

DOMAINS, IMAGES, CLASSES = 3, 400, 7
MOST_MILLISECONDS, MOST_RATIO = 8.0, 1.05
SMALL, STEPS, MOST_DIFFERENCE = 64, 12, 1e-3
"""Pixels and steps for the comparison of losses, and by how much of themselves they may differ: the
sums of convolutions have no fixed order."""


def random_images(pixels: int) -> DomainData:
    """Bytes of as many domains as a run of PACS is trained on."""
    draw = torch.Generator().manual_seed(0)
    size = DOMAINS * IMAGES
    x = torch.randint(0, 256, (size, 3, pixels, pixels), dtype=torch.uint8, generator=draw)
    y = torch.randint(0, CLASSES, (size,), generator=draw)
    return DomainData(x, y, torch.arange(size) % DOMAINS, ("a", "b", "c"))


def trainer_of(
    data: DomainData, objective: str, captured: bool, examples: int, device: str, precision: str
) -> Trainer:
    """A trainer of the network, in its first phase."""
    torch.manual_seed(0)
    settings = TrainingSettings(
        device=device,
        precision=precision,
        augment=Augmentation(),
        cuda_graph=captured,
    )
    trainer = Trainer(
        EfficientNetLite(3, CLASSES, frozen_batch_norm=True),
        data,
        [Phase(objective, steps=1_000_000, learning_rate=1e-4)],
        DomainBatches(data, DOMAINS, examples, seed=0),
        settings=settings,
    )
    trainer.state.enter_phase(0)
    return trainer


def taken(trainer: Trainer) -> Tensor:
    """Take a step: the next batch, its augmentation, forward, backward, update; its loss."""
    state = trainer.state
    losses = trainer._take_step(trainer._next_batch(), trainer.phases.place(state.step))
    state.step += 1
    return losses["predictor"]


def step_of(
    data: DomainData, objective: str, captured: bool, examples: int, device: str
) -> Callable[[], object]:
    """Steps of a trainer whose first ones are taken."""
    precision = "bf16" if device != "cpu" else "float32"
    trainer = trainer_of(data, objective, captured, examples, device, precision)
    for _ in range(WARM_UP + 2):
        taken(trainer)
    return lambda: taken(trainer)


def differences(device: str) -> dict[str, float]:
    """By objective, the largest share by which losses of captured steps differ from others."""
    data, found = random_images(SMALL), {}
    for name in OBJECTIVES if device != "cpu" else ("erm",):
        if not OBJECTIVES.load(name).capturable:
            continue
        both = []
        for captured in (False, True):
            trainer = trainer_of(data, name, captured, 8, device, "float32")
            both.append(torch.stack([taken(trainer).clone() for _ in range(STEPS)]))
            if captured and device != "cpu" and trainer.takes_step.captured is None:
                raise SystemExit(f"The steps of {name} were not captured.")
        found[name] = float(((both[0] - both[1]) / both[0]).abs().max())
    return found


def main(arguments: list[str]) -> int:
    """Measure, print, store; 1 when a bound does not hold."""
    options = gpu_options(arguments, __doc__)
    if options is None:
        return 2
    on_gpu = options.device != "cpu"
    study = PacsSettings()
    pixels, examples = (study.pixels, study.examples) if on_gpu else (32, 2)
    data = random_images(pixels)
    steps = {
        f"{objective}{', captured' if captured else ''}": step_of(
            data, objective, captured, examples, options.device
        )
        for captured in ((False, True) if on_gpu else (False,))
        for objective in ("erm", "eqrm")
    }
    budget = Budget(rounds=9, burst=0.1, longest=10.0, pause=0.0)
    timings = interleaved(steps, budget, torch.cuda.synchronize if on_gpu else None)
    rows = [[name, f"{timing.milliseconds:.2f}"] for name, timing in timings.items()]
    title = f"a step of {DOMAINS} x {examples} images of {pixels} pixels, EfficientNet-lite0"
    page = f"{measured_on(options.device)}\n\n{markdown([title, 'ms'], rows)}"
    holds = True
    if on_gpu:
        erm, eqrm = (timings[f"{name}, captured"].milliseconds for name in ("erm", "eqrm"))
        holds = erm <= MOST_MILLISECONDS and eqrm <= MOST_RATIO * erm
        word = "PASS" if holds else "FAIL"
        page += f"\n\n{word} ERM {erm:.2f} ms (at most {MOST_MILLISECONDS:g} on an H200), "
        page += f"EQRM / ERM {eqrm / erm:.3f} (at most {MOST_RATIO})"
    far = differences(options.device)
    same = max(far.values()) <= MOST_DIFFERENCE
    holds = holds and same
    each = ", ".join(f"{name} {value:.1e}" for name, value in far.items())
    page += (
        f"\n\n{'PASS' if same else 'FAIL'} losses of captured steps differ from others by at most "
    )
    page += f"{MOST_DIFFERENCE:g} of themselves: {each}"
    print(page)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "image_step.md").write_text(page + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
