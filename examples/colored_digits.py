"""ERM against RDM on coloured digits: a plain training loop with one criterion in it.

The label is "five or more", wrong for a quarter of the images. Colour agrees with it for 90 % and
80 % of the two training domains, so it is the better predictor there; in the third domain it agrees
for 10 %. ERM follows the colour. RDM, which asks that the training domains have the same
distribution of risks, has to read the digit.
"""

import argparse
import copy
from pathlib import Path

import torch
from colored_digits_parts import compare, domains
from torch import nn
from torch.nn import functional as F

from riskmatch import RiskMatching

parser = argparse.ArgumentParser(description="ERM against RDM on coloured digits.")
parser.add_argument("--out", type=Path, default=Path("out/colored_digits.png"), help="the figure")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)  # enough for layers this small, and kind to a busy machine
train, held_out = domains(size=5000)
x, y, domain = (torch.cat(parts) for parts in zip(*train, strict=True))


def fit(model, optimizer, criterion, steps, name):
    for step in range(1, steps + 1):
        risks = F.cross_entropy(model(x), y, reduction="none")  # one risk per sample
        out = criterion(risks, domain)
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        if step % 50 == 0:
            means = "  ".join(f"{risk:.3f}" for risk in out.domain_risks.tolist())
            print(f"{name:<8} step {step:3d}   mean risk per domain  {means}", flush=True)


erm = nn.Sequential(
    nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)
)
adam = torch.optim.Adam(erm.parameters(), lr=1e-3)
average = RiskMatching(weight=0)
fit(erm, adam, average, 200, "ERM")

rdm = copy.deepcopy(erm)  # both go on from here, for as many steps
fit(erm, adam, average, 200, "ERM, on")
matching = RiskMatching(weight=10_000, match="worst", divergence="moments", rescale=True)
fit(rdm, torch.optim.Adam(rdm.parameters(), lr=1e-3), matching, 200, "RDM")

compare({"ERM": erm, "RDM": rdm}, held_out, args.out)
