"""Conformance checks for data sets: riskmatch's own, or one of yours.

Each check takes the function that gives the data and raises :class:`ConformanceError`, which names
the property that fails. In a test module::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_data_conforms(check):
        check(my_data)

>>> from riskmatch.data.colored_digits import colored_digits
>>> for check in CHECKS:
...     check(colored_digits)
"""

from __future__ import annotations

import inspect
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from riskmatch.data import Domain, DomainSet, split
from riskmatch.testing import ConformanceError, checks_in, name_of, require, require_documented

Load = Callable[[], DomainSet]
Check = Callable[[Load], None]

_CHUNK = 256
"""Samples that are read at a time."""
_BATCH = 4


def options_are_documented(load: Load) -> None:
    """Options are keyword-only with an annotation and a default; the docstring names each."""
    function: Any = load.func if isinstance(load, partial) else load
    for option in inspect.signature(function).parameters.values():
        if option.name in ("data_dir", "on_progress"):
            continue
        keyword = option.kind is option.KEYWORD_ONLY
        require(keyword, load, f"option {option.name!r} must be keyword-only, after a *.")
        require_documented(option, load, function.__doc__ or "")


def domains_are_named(load: Load) -> None:
    """Two domains or more, each with a name of its own and at least two samples to split."""
    data = _loaded(load)
    require(len(data.domains) >= 2, load, f"has {len(data.domains)} domain(s); two are needed.")
    for domain in data.domains:
        text = isinstance(domain.name, str) and domain.name.strip() == domain.name != ""
        require(text, load, f"domain name {domain.name!r} must be text without outer blanks.")
        enough = domain.validation is not None or len(domain) >= 2
        require(enough, load, f"domain '{domain.name}' has {len(domain)} sample(s).")
    repeated = [name for name, count in Counter(data.names).items() if count > 1]
    require(not repeated, load, f"two domains are called {repeated}.")


def domains_for_tests_exist(load: Load) -> None:
    """Domains for tests only are domains of the data set, and others are left to train on."""
    data = _loaded(load)
    unknown = sorted(set(data.test_only) - set(data.names))
    require(not unknown, load, f"test_only names unknown domains {unknown}.")
    require(set(data.test_only) != set(data.names), load, "every domain is for tests only.")


def inputs_have_one_shape(load: Load) -> None:
    """Inputs of all domains, validation samples included, have one shape and one dtype."""
    parts = [part for domain in _loaded(load).domains for part in domain.parts]
    shapes = {tuple(part.x.shape[1:]) for part in parts}
    require(len(shapes) == 1, load, f"inputs have several shapes: {sorted(shapes)}.")
    dtypes = {part.x.dtype for part in parts}
    require(len(dtypes) == 1, load, f"inputs have several dtypes: {sorted(map(str, dtypes))}.")


def inputs_are_finite(load: Load) -> None:
    """No input is infinite or not a number."""
    for domain, x in _chunks(_loaded(load)):
        finite = not x.is_floating_point() or bool(torch.isfinite(x).all())
        require(finite, load, f"domain '{domain.name}' has inputs that are not finite.")


def labels_are_classes(load: Load) -> None:
    """Labels are int64 of shape (n,), from 0 to ``classes`` − 1."""
    data = _loaded(load)
    require(data.classes >= 2, load, f"has {data.classes} class(es); two are needed.")
    for domain in data.domains:
        for part in domain.parts:
            y = part.y
            typed = y.dtype == torch.long and y.ndim == 1
            shape = f"{y.dtype} of shape {tuple(y.shape)}"
            require(typed, load, f"labels of '{domain.name}' must be int64 (n,), got {shape}.")
            low, high = int(y.min()), int(y.max())
            inside = low >= 0 and high < data.classes
            message = f"labels of '{domain.name}' go from {low} to {high} with {data.classes}"
            require(inside, load, f"{message} classes.")


def class_names_match_classes(load: Load) -> None:
    """Class names, where there are any, are one per class and distinct."""
    data = _loaded(load)
    names = data.class_names
    matching = not names or len(set(names)) == len(names) == data.classes
    require(matching, load, f"has {data.classes} classes but the class names {names}.")


def loads_the_same_twice(load: Load) -> None:
    """Loading twice gives the same domains, inputs and labels."""
    _require_same(_loaded(load), _loaded(load), load, "loading twice gives different")


def splits_cover_each_sample_once(load: Load) -> None:
    """Training and validation samples together are the domain, each sample once."""
    for domain in _loaded(load).domains:
        parts = split(domain, trial=0)
        if domain.validation is not None:
            held_out = domain.validation
            same_name = held_out.name == domain.name
            flat = held_out.validation is None and same_name and len(held_out) > 0
            message = f"validation samples of '{domain.name}' must be a Domain of the same name"
            require(flat, load, f"{message} with at least one sample.")
            continue
        whole = _rows(domain)
        together = sum((_rows(part) for part in parts.values()), Counter[bytes]())
        same = together == whole
        require(same, load, f"a split of '{domain.name}' loses or repeats samples.")


def rows_can_be_taken_and_moved(load: Load) -> None:
    """``take`` gives the rows asked for, in that order; ``to`` changes no value."""
    for domain in _loaded(load).domains:
        rows = torch.tensor([len(domain) - 1, 0])
        taken, moved = domain.take(rows), domain.take(rows).to("cpu")
        same = torch.equal(taken.x[:], domain.x[rows]) and torch.equal(taken.y, domain.y[rows])
        require(same, load, f"take() on '{domain.name}' gives other samples.")
        same = torch.equal(moved.x[:], taken.x[:]) and torch.equal(moved.y, taken.y)
        require(same, load, f"to() on '{domain.name}' changes samples.")


def survives_pickling(load: Load) -> None:
    """Other processes receive the same data."""
    data = _loaded(load)
    try:
        restored = pickle.loads(pickle.dumps(data))
    except Exception as error:
        raise ConformanceError(name_of(load), f"cannot be pickled: {error}.") from error
    _require_same(data, restored, load, "pickling changes")


def augmentation_follows_its_generator(load: Load) -> None:
    """The same generator state gives the same finite inputs and leaves the batch unchanged."""
    data = _loaded(load)
    if data.augment is None:
        return
    x = data.domains[0].x[:_BATCH]
    before = x.clone()
    first, second = (data.augment(x, torch.Generator().manual_seed(0)) for _ in range(2))
    require(torch.equal(x, before), load, "augment changes the batch it is given.")
    require(torch.equal(first, second), load, "augment differs for the same generator state.")
    require(len(first) == len(x), load, f"augment turns {len(x)} inputs into {len(first)}.")
    finite = first.is_floating_point() and bool(torch.isfinite(first).all())
    require(finite, load, "augment must return finite floating-point inputs.")


CHECKS: tuple[Check, ...] = checks_in(globals())
"""All checks."""


def _loaded(load: Load) -> DomainSet:
    data = load()
    is_set = isinstance(data, DomainSet)
    require(is_set, load, f"must return a DomainSet, got {type(data).__name__}.")
    return data


def _require_same(first: DomainSet, second: DomainSet, load: Load, message: str) -> None:
    require(first.names == second.names, load, f"{message} domain names.")
    same = (first.classes, first.class_names) == (second.classes, second.class_names)
    require(same, load, f"{message} classes.")
    for one, other in zip(first.domains, second.domains, strict=True):
        for a, b in zip(one.parts, other.parts, strict=True):
            grouped = a.groups is not None and b.groups is not None
            same = torch.equal(a.groups, b.groups) if grouped else a.groups is b.groups  # type: ignore[arg-type]
            require(same, load, f"{message} groups in '{one.name}'.")
            require(torch.equal(a.y, b.y), load, f"{message} labels in '{one.name}'.")
            same = a.x.shape == b.x.shape and all(
                map(torch.equal, a.x.split(_CHUNK), b.x.split(_CHUNK))
            )
            require(same, load, f"{message} inputs in '{one.name}'.")


def _chunks(data: DomainSet) -> Iterator[tuple[Domain, Tensor]]:
    for domain in data.domains:
        for part in domain.parts:
            for x in part.x.split(_CHUNK):
                yield domain, x


def _rows(domain: Domain) -> Counter[bytes]:
    """How often each pair of input and label occurs."""
    inputs = (x for chunk in domain.x.split(_CHUNK) for x in chunk)
    pairs = zip(inputs, domain.y.tolist(), strict=True)
    return Counter(x.contiguous().numpy().tobytes() + bytes(str(y), "ascii") for x, y in pairs)
