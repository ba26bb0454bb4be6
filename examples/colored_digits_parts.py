"""The data, the table and the figure of `colored_digits.py`."""

import json
from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

AGREEMENT = (0.9, 0.8, 0.1)  # of colour and label: two training domains, then the test domain
COLOURS = ("#0072B2", "#E69F00", "#CC79A7")  # Okabe and Ito: apart for every eye

Samples = tuple[Tensor, Tensor, Tensor]  # images (n, 128), labels (n,), domain (n,)


def domains(size: int) -> tuple[list[Samples], list[Samples]]:
    """Two domains to train on and, on held-out digits, all three."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32)
    targets = torch.tensor(digits.target)
    seen, unseen = torch.randperm(len(images)).split([1400, len(images) - 1400])
    train = [coloured(images[seen], targets[seen], k, size) for k in (0, 1)]
    held_out = [coloured(images[unseen], targets[unseen], k, size) for k in (0, 1, 2)]
    return train, held_out


def coloured(images: Tensor, targets: Tensor, k: int, size: int) -> Samples:
    """Draw `size` images of domain k: jittered, with noisy labels, in one of two channels."""
    pick = torch.randint(len(images), (size,))
    label = (targets[pick] >= 5) ^ (torch.rand(size) < 0.25)
    colour = label ^ (torch.rand(size) >= AGREEMENT[k])
    channels = F.one_hot(colour.long(), 2)[:, :, None, None]  # (size, 2, 1, 1)
    x = (channels * jitter(images[pick][:, None])).flatten(1)  # (size, 2 * 8 * 8)
    return x, label.long(), torch.full((size,), k)


def jitter(images: Tensor) -> Tensor:
    """Turn by up to 0.1 rad, scale by up to 5 %, shift by up to 2.5 % of the width."""
    most = torch.tensor([[0.1], [0.05], [0.05], [0.05]])
    angle, scale, dx, dy = most * (torch.rand(4, len(images)) * 2 - 1)
    cos, sin = (1 + scale) * angle.cos(), (1 + scale) * angle.sin()
    affine = torch.stack([cos, -sin, dx, sin, cos, dy], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


@torch.no_grad()
def compare(models: dict[str, nn.Module], held_out: list[Samples], path: Path) -> None:
    """Print the accuracy of each model on each domain, and draw its risks."""
    print("\naccuracy on held-out digits, by agreement of colour and label")
    print(f"{'':<6}" + "".join(f"{p:8.0%}" for p in AGREEMENT))
    risks, record = {}, {}
    for name, model in models.items():
        logits = [(model(x), y) for x, y, _ in held_out]
        risks[name] = [F.cross_entropy(z, y, reduction="none") for z, y in logits]
        accuracy = [(z.argmax(1) == y).float().mean().item() for z, y in logits]
        record[name] = dict(zip(map(str, AGREEMENT), accuracy, strict=True))
        print(f"{name:<6}" + "".join(f"{a:8.3f}" for a in accuracy))
    draw_risks(risks, path)
    path.with_suffix(".json").write_text(json.dumps({"accuracy": record}, indent=2) + "\n")
    print(f"\nthe distributions of their risks: {path}")


def draw_risks(risks: dict[str, list[Tensor]], path: Path) -> None:
    """Draw one panel per method and one histogram per domain, with a line at each mean."""
    highest = max(r.max().item() for per_domain in risks.values() for r in per_domain)
    bins = torch.linspace(0, highest, 60).tolist()
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    axes = figure.subplots(1, len(risks), sharex=True, sharey=True)
    for axis, (name, per_domain) in zip(axes, risks.items(), strict=True):
        for p, colour, r in zip(AGREEMENT, COLOURS, per_domain, strict=True):
            role = "test" if p == AGREEMENT[-1] else "train"
            label = f"colour agrees {p:.0%} ({role})"
            axis.hist(r, bins, density=True, histtype="step", color=colour, lw=1.6, label=label)
            axis.axvline(r.mean(), color=colour, lw=1.2, ls=(0, (4, 2)))
        axis.set(title=name, xlabel="risk of a sample (cross-entropy)", xlim=(0, highest))
        axis.set_yscale("log")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("density (log scale)")
    axes[-1].legend(frameon=False, loc="upper right")
    figure.suptitle("Risks on held-out digits, by domain (dashed: means)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
