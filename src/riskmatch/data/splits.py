"""Splits of domains into training and validation parts, at random or by groups of samples."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from riskmatch.data.domain import Domain
from riskmatch.data.sampler import stream
from riskmatch.files import seed_hash, seed_of

VALIDATION_SHARE = 0.2
_WHOLE = re.compile(r"0|-?[1-9]\d{0,18}")


def split(domain: Domain, trial: int, trained: Tensor | None = None) -> dict[str, Domain]:
    """The domain as ``train`` (80 %) and ``val`` (20 %, at least one sample).

    The split depends only on the domain's name and size and on ``trial``: adding a domain to a
    data set changes no other split. Samples keep their order. A domain with validation samples of
    its own keeps those, whatever the trial.

    Groups are split instead of samples where the domain has them: those whose hash with the trial
    is below 0.2 are ``val``, the same ones in every domain.

    Args:
        domain: the domain.
        trial: number of the trial.
        trained: (k,) groups in the training parts of a run of which this is a test domain, see
            :func:`splits`. If the domain has some of them, ``val`` are their samples and ``train``,
            which is reported, are the others.

    Raises:
        ValueError: a part is empty.

    Example:
        >>> whole = Domain("sketch", torch.zeros(10, 2), torch.zeros(10, dtype=torch.long))
        >>> {name: len(part) for name, part in split(whole, trial=0).items()}
        {'train': 8, 'val': 2}

        >>> grouped = replace(whole, groups=torch.arange(10) // 2)
        >>> {name: part.groups.tolist() for name, part in split(grouped, trial=3).items()}
        {'train': [0, 0, 1, 1, 2, 2], 'val': [3, 3, 4, 4]}
    """
    separate = domain.validation is not None
    return _parts(domain, None if separate else _split_rows(domain, trial, trained))


def splits(
    domains: Sequence[Domain],
    trial: int,
    test_domains: Collection[str] = (),
    rule: str = "hash",
) -> dict[str, dict[str, Domain]]:
    """Both parts of every domain by name, as in a run of this trial.

    Test domains matter where groups span domains: what is reported of a test domain, its part
    ``train``, are the samples whose groups are in no part that is trained on. The ``rule`` is
    ``hash`` (:func:`split`) or ``domainbed`` (:func:`domainbed_rows`).
    """
    rows = check_splits(domains, trial, test_domains, rule)
    return {domain.name: _parts(domain, rows.get(domain.name)) for domain in domains}


def check_splits(
    domains: Sequence[Domain],
    trial: int = 0,
    test_domains: Collection[str] = (),
    rule: str = "hash",
) -> dict[str, dict[str, Tensor]]:
    """The rows of :func:`splits`, or its ``ValueError``; no sample is copied.

    Domains with validation samples of their own are left out.
    """
    if rule == "domainbed":
        return {d.name: domainbed_rows(d, trial, place) for place, d in enumerate(domains)}
    trained = _trained_groups(domains, trial, test_domains)
    return {
        d.name: _split_rows(d, trial, trained if d.name in test_domains else None)
        for d in domains
        if d.validation is None
    }


def domainbed_rows(domain: Domain, trial: int, place: int) -> dict[str, Tensor]:
    """Rows of the parts ``train`` and ``val`` as DomainBed divides a folder of images.

    The images are numbered in the order of torchvision's ``ImageFolder``, the numbers are shuffled
    with a seed from ``trial`` and the domain's ``place`` among all domains by name, and the first
    ⌊0.2 n⌋ are ``val`` (Gulrajani and Lopez-Paz, ICLR 2021, whose code is meant).

    Raises:
        ValueError: the domain is no folder of images, or a part is empty.

    Example:
        >>> y = torch.zeros(10, dtype=torch.long)
        >>> domain = Domain("sketch", torch.zeros(10, 2), y, ranks=torch.arange(10).flip(0))
        >>> domainbed_rows(domain, trial=0, place=3)["val"]
        tensor([3, 7])
    """
    cause = "is no such folder, whole"
    if domain.groups is not None:
        cause = "has groups, which that tears apart"
    if domain.groups is not None or domain.ranks is None:
        raise ValueError(
            "DomainBed's split shuffles the images of folders domain/class/image in the order of "
            f"torchvision's ImageFolder, and '{domain.name}' {cause}. Leave out --split domainbed "
            "(split=)."
        )
    numbers = list(range(len(domain)))
    np.random.RandomState(seed_hash(trial, place)).shuffle(numbers)
    validation = torch.tensor(numbers[: int(len(domain) * VALIDATION_SHARE)], dtype=torch.long)
    held_out = torch.isin(domain.ranks, validation.to(domain.ranks.device))
    if not held_out.any():
        raise ValueError(
            f"Domain '{domain.name}' has {len(domain)} sample(s), and DomainBed's split needs five "
            "or more. Leave out --split domainbed (split=)."
        )
    rows = {"train": (~held_out).nonzero()[:, 0], "val": held_out.nonzero()[:, 0]}
    return {name: part.to(domain.y.device) for name, part in rows.items()}


def group_ids(names: Iterable[str]) -> Tensor:
    """(n,) int64 id of each group by name: whole numbers themselves, of other names the hash.

    Example:
        >>> group_ids(["7", "-12"]), bool(group_ids(["anna"]) == group_ids(["anna", "07"])[0])
        (tensor([  7, -12]), True)
    """
    return torch.tensor([_group_id(name) for name in names], dtype=torch.long)


def on_validation_side(groups: Tensor, *key: str | int, share: float = VALIDATION_SHARE) -> Tensor:
    """(n,) whether each group is held out: whether its hash with ``key`` is below ``share``."""
    ids, places = groups.cpu().unique(return_inverse=True)
    sides = [seed_of("group", *key, group) < share * 2**64 for group in ids.tolist()]
    return torch.tensor(sides, dtype=torch.bool)[places]


def shared_domains(domains: Iterable[Domain]) -> tuple[str, ...]:
    """Names of the domains with a group that another domain has, too."""
    distinct = {d.name: d.groups.cpu().unique() for d in domains if d.groups is not None}
    if not distinct:
        return ()
    ids, counts = torch.cat(list(distinct.values())).unique(return_counts=True)
    shared = ids[counts > 1]
    return tuple(name for name, own in distinct.items() if torch.isin(own, shared).any())


def _group_id(name: str) -> int:
    if _WHOLE.fullmatch(name) and -(2**63) <= int(name) < 2**63:
        return int(name)
    return seed_of("name", name) - 2**63


def _parts(domain: Domain, rows: dict[str, Tensor] | None) -> dict[str, Domain]:
    """The parts of a domain at these rows; without any, its own validation samples are one."""
    if rows is None:
        assert domain.validation is not None
        return {"train": replace(domain, validation=None), "val": domain.validation}
    return {name: domain.take(part) for name, part in rows.items()}


def _trained_groups(
    domains: Sequence[Domain], trial: int, test_domains: Collection[str]
) -> Tensor | None:
    """The groups in the training parts of the domains that are trained on."""
    parts = [d.groups for d in domains if d.groups is not None and d.name not in test_domains]
    if not parts:
        return None
    ids: Tensor = torch.cat([part.cpu() for part in parts]).unique()
    trained: Tensor = ids[~on_validation_side(ids, trial)]
    return trained


def _split_rows(domain: Domain, trial: int, trained: Tensor | None) -> dict[str, Tensor]:
    """Rows of each part."""
    n = len(domain)
    if domain.groups is None:
        if n < 2:
            raise ValueError(
                f"Domain '{domain.name}' has {n} sample(s); a split needs two or more. "
                "Leave it out of the data, or merge it with another domain."
            )
        order = torch.randperm(n, generator=stream("split", trial, domain.name))
        validation = max(1, round(VALIDATION_SHARE * n))
        return {
            "train": order[validation:].sort().values,
            "val": order[:validation].sort().values,
        }
    held_out = on_validation_side(domain.groups, trial)
    seen = None if trained is None else torch.isin(domain.groups.cpu(), trained)
    if seen is not None and seen.any():
        held_out = seen
    rows = {"train": (~held_out).nonzero()[:, 0], "val": held_out.nonzero()[:, 0]}
    if empty := [name for name, part in rows.items() if not len(part)]:
        raise ValueError(_empty_part(domain, trial, empty[0], held_out is seen))
    return {name: part.to(domain.y.device) for name, part in rows.items()}


def _empty_part(domain: Domain, trial: int, part: str, seen: bool) -> str:
    """Cause and cure of a part without samples."""
    assert domain.groups is not None
    number = len(domain.groups.unique())
    count = f"{number:,} group(s)"
    if seen:
        return (
            f"The test domain '{domain.name}' has {count}, and the other domains train on all of "
            f"them in trial {trial}, so that nothing can be reported on unseen groups. Take "
            "another trial (--trial, trial=), or group the samples by something else."
        )
    if number < 2:
        return (
            f"Domain '{domain.name}' has {count}, and a split by group needs two or more. Merge "
            "it with another domain, leave it out, or group its samples by something else."
        )
    name = {"train": "training", "val": "validation"}[part]
    return (
        f"Domain '{domain.name}' has {count}, none of them in the {name} part of trial {trial}: "
        "each is drawn with probability 0.2. Take another trial (--trial, trial=), merge the "
        "domain with another, or leave it out."
    )
