"""Domains that are siblings by what they do: one of them makes a model much better on the other.

A new domain has no sibling among the domains of training, so that accuracies on domains left out
are too high while their siblings are trained on. Probes on features or columns tell: ridge
regression of the labels, which needs the sums of products of each domain only once. The cost of
leaving out e besides d is what the probe without both loses on d. That of a pair, the mean of both
directions, is compared with the costs of all pairs, which vary by chance and as domains differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.advice.baselines import categories_of, inputs_of, linear, vectors_of
from riskmatch.data import OnProgress, no_progress
from riskmatch.data.catalogue import resolve as resolve_data
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.splits import splits
from riskmatch.statistics import even
from riskmatch.sweep.plan import held_out

LEVEL = 0.05
"""Level of the test of all pairs together."""
LEAST = 0.03
"""Smallest cost of siblings: of the accuracy, or as a share of the variance of the label."""
SAMPLES, MOST = 2000, 30
"""Most samples of a domain for probes, and most domains."""
RIDGE = 0.1
"""Penalty of the probes, as a share of the mean eigenvalue of the products."""
Array = NDArray[Any]
Pair = tuple[str, str]


@dataclass(frozen=True)
class PairCost:
    """What leaving out ``other`` besides a domain costs on it."""

    domain: str
    other: str
    alone: float
    """Accuracy without the domain, or share of the variance of the label that is explained."""
    both: float
    """The same without the other domain, too."""
    variance: float
    """Sampling variance of the difference."""


def sibling_costs(domains: DomainSet) -> list[PairCost]:
    """The cost of every other domain for every domain; empty for other inputs than vectors.

    Samples in groups that are trained on do not count.
    """
    names, numbers = domains.names, not domains.classes
    if inputs_of(domains) == "other" or not 3 <= len(names) <= MOST:
        return []
    parts = {name: by["train"] for name, by in splits(domains.domains, 0).items()}
    prepare = linear(numbers, categories_of(domains), C=1.0)[0]
    some = [vectors_of(part)[even(len(part), SAMPLES)] for part in parts.values()]
    prepare.fit(np.concatenate(some))
    labels = np.concatenate([part.y.numpy() for part in parts.values()])

    def rows(part: Domain) -> tuple[Array, Array]:
        chosen = even(len(part), SAMPLES)
        x, y = prepare.transform(vectors_of(part)[chosen]), part.y.numpy()[chosen]
        x = x.toarray() if hasattr(x, "toarray") else x
        standard = (y - labels.mean())[:, None] / labels.std()
        return np.c_[x, np.ones(len(x))], standard if numbers else np.eye(domains.classes)[y]

    training = {name: rows(part) for name, part in parts.items()}
    products = {name: (x.T @ x / len(x), x.T @ y / len(x)) for name, (x, y) in training.items()}
    reported = {name: rows(splits(domains.domains, 0, [name])[name]["train"]) for name in names}

    @cache
    def scores(domain: str, *others: str) -> Array:
        kept = [products[name] for name in names if name not in (domain, *others)]
        gram, cross = (np.sum(part, axis=0) for part in zip(*kept, strict=True))
        penalty = np.full(len(gram), RIDGE * np.trace(gram) / len(gram))
        penalty[-1] = 1e-9  # of the constant
        x, y = reported[domain]
        outputs = x @ np.linalg.solve(gram + np.diag(penalty), cross)
        right: Array = outputs.argmax(1) == y.argmax(1)
        return 1 - ((outputs - y)[:, 0]) ** 2 if numbers else right * 1.0

    costs = []
    for domain, other in permutations(names, 2):
        alone, both = scores(domain), scores(domain, other)
        variance = float((alone - both).var() / len(both))
        costs.append(PairCost(domain, other, float(alone.mean()), float(both.mean()), variance))
    return costs


def siblings_among(costs: Sequence[PairCost]) -> dict[Pair, float]:
    """Pairs of siblings, with the mean cost of leaving out one for the other.

    A pair's cost is that of siblings if it exceeds the median of all pairs, by the one-sided t test
    with the robust spread of the pairs (1.4826 × their median absolute deviation) and the sampling
    error together, at the level 0.05 / number of pairs, and 3 points.

    Example:
        >>> pairs = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
        >>> both = [0.6, 0.8, 0.79, 0.79, 0.81, 0.8]
        >>> costs = [PairCost(*p, 0.8, y, 1e-5) for p, y in zip(pairs, both)]
        >>> {pair: round(cost, 2) for pair, cost in siblings_among(costs).items()}
        {('a', 'b'): 0.2}
    """
    from scipy.special import stdtrit

    by_pair: dict[Pair, list[PairCost]] = {}
    for one in costs:
        pair = (one.domain, one.other)
        by_pair.setdefault(pair if pair[::-1] not in by_pair else pair[::-1], []).append(one)
    mean = {p: float(np.mean([c.alone - c.both for c in of])) for p, of in by_pair.items()}
    if len(mean) < 3:
        return {}
    middle = float(np.median([*mean.values()]))
    spread = 1.4826 * float(np.median([abs(cost - middle) for cost in mean.values()]))
    t = float(stdtrit(len(mean) - 1, 1 - LEVEL / len(mean)))

    def threshold(pair: Pair) -> float:
        chance = sum(one.variance for one in by_pair[pair]) / len(by_pair[pair]) ** 2
        return middle + max(LEAST, t * math.sqrt(spread**2 + chance))

    return {pair: cost for pair, cost in mean.items() if cost > threshold(pair)}


def joined(sets: Iterable[Sequence[str]], names: Sequence[str]) -> list[list[str]]:
    """Sets that share a domain as one, in the order of ``names``.

    Example:
        >>> joined([("a", "b"), ("c", "d"), ("b", "e")], ("a", "b", "c", "d", "e"))
        [['a', 'b', 'e'], ['c', 'd']]
    """
    group = {name: {name} for name in names}
    for one in sets:
        together = set().union(*(group[name] for name in one))
        group |= dict.fromkeys(together, together)
    found = dict.fromkeys(tuple(n for n in names if n in group[name]) for name in names)
    return [list(one) for one in found if len(one) > 1]


def find_siblings(
    data: str,
    inputs: DomainSet,
    options: Mapping[str, Any] | None = None,
    data_dir: Path | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[list[list[str]], str]:
    """Sets of siblings to leave out together, and how they were looked for and found, in words.

    Args:
        data: name or path of a data set, whose images are compared.
        inputs: the data set, as features where it holds images.
        options: options of the data set.
        data_dir: folder searched first for the files of the data set.
        on_progress: called while data are read.
    """
    named, ways, together = resolve_data(data), [], list[list[str]]()
    if named.contents == "images":
        from riskmatch.data.doctor import siblings_in

        (on_progress or no_progress)("comparing images of different domains", 0, None)
        together = [list(one.domains) for one in siblings_in(named.index(data_dir, options))]
        ways = ["images that domains share"]
    parts = [f"{' and '.join(one)} share images" for one in together]
    (on_progress or no_progress)("probing pairs of domains", 0, None)
    if costs := sibling_costs(inputs):
        ways.append("probes without every pair of domains")
        pairs = siblings_among(costs)
        cost = (f"{a} and {b} ({100 * cost:.1f} points)" for (a, b), cost in pairs.items())
        parts += [f"leaving out one costs the other more than chance: {', '.join(cost)}"] * bool(
            pairs
        )
        every = joined([*together, *pairs], inputs.names)
        if len(held_out(inputs.names, together=every)) < 3:
            sets = ",".join("+".join(one) for one in every)
            parts.append(
                "too few domains to leave them out together, so that what is expected is too high; "
                f"with more domains: --leave-out-together {sets}"
            )
        else:
            together = every
    if not ways:
        return [], "Siblings were not looked for: that takes images, features or columns."
    found = "; ".join([*parts, "they are left out together"] if together else parts) or "none"
    return together, f"Siblings were looked for by {' and by '.join(ways)}: {found}."
