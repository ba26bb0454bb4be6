"""Compare data of a new site with the held-out samples of the domains of training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from riskmatch import statistics
from riskmatch.data import OnProgress
from riskmatch.data.images.index import EXTENSIONS
from riskmatch.data.images.manifest import listed_files
from riskmatch.deployment.evaluation import read_domains, score_domains
from riskmatch.deployment.inputs import BATCH, ImagePreprocessing, OnSkip, samples
from riskmatch.deployment.model import TrainedModel, load_model
from riskmatch.files import refuse_input
from riskmatch.report.density import kernel_matrix
from riskmatch.report.figures.canvas import save
from riskmatch.report.figures.plot import Lines
from riskmatch.report.figures.risks import cdf_plot
from riskmatch.report.style import domain_style
from riskmatch.validation import mismatch

Array = statistics.Array
Quantity = Literal["risk", "confidence", "features"]
LEVEL = 0.05
PERMUTATIONS = 1000
MAX_SITE, MAX_POOL = 1000, 2000
"""Most samples of a new site and of the pool in a test; larger ones are subsampled."""
POOL = "pool"
NEW = " (new)"


@dataclass(frozen=True, eq=False)
class Monitoring:
    """Tests of new sites against the domains of training."""

    alarm: bool
    """Whether the adjusted p-value of a test against the pool is at most the level."""
    level: float
    labelled: bool
    """Whether risks were compared; else confidences and features, which need no labels."""
    tests: pd.DataFrame
    """A row per site, quantity and reference: ``site``, ``quantity`` (risk, confidence or
    features), ``against`` (pool, or a domain of training), ``samples``, ``reference_samples``,
    ``mean``, ``reference_mean``, ``mmd2``, ``effect``, ``p`` and ``p_adjusted``.

    Only the tests against the pool raise the alarm. Their p-values are adjusted together by Holm's
    method, which changes nothing where there is one; those against single domains are descriptive,
    and adjusted together as well."""
    values: Mapping[str, Mapping[str, Array]] = field(repr=False)
    """Risks or confidences by site and label of a curve, for :meth:`figure`."""

    def figure(self) -> Lines:
        """Distribution functions of the risks or confidences of new sites and domains of training.

        Raises:
            ValueError: features alone were compared.
        """
        if not self.values:
            raise ValueError(
                "Features alone were compared, as for any regression without labels: there are no "
                "risks or confidences to draw."
            )
        labels = list(dict.fromkeys(label for panel in self.values.values() for label in panel))
        styles = {label: domain_style(label, labels, label.endswith(NEW)) for label in labels}
        name = "risk" if self.labelled else "confidence"
        return cdf_plot(
            self.values,
            styles,
            f"{name.capitalize()}s of new sites beside held-out ones of training",
            f"{name} of a sample",
            f"{'Alarm' if self.alarm else 'No alarm'} at level {self.level:g}",
            None if self.labelled else 1.0,
        )

    def to_json(self) -> dict[str, Any]:
        """Result as plain JSON values."""
        summary = {"alarm": self.alarm, "level": self.level, "labelled": self.labelled}
        return {**summary, "tests": self.tests.to_dict("records")}


def monitor(
    model: TrainedModel | Path | str,
    data: Any,
    *,
    labelled: bool = True,
    level: float = LEVEL,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    label: str | None = None,
    domain: str | None = None,
    options: Mapping[str, Any] | None = None,
    data_dir: Path | None = None,
    batch_size: int = BATCH,
    figure: Path | None = None,
    trust: bool = False,
    on_skip: OnSkip | None = None,
    on_progress: OnProgress | None = None,
) -> Monitoring:
    """Test whether the risks of a new site are distributed like those of training.

    The test is a permutation test of the MMD² of the site's risks and the pool: as many held-out
    samples of every domain of training as the smallest has, from the model folder. Without labels
    the same is done with confidences (probabilities of the predicted classes) and features, whose
    shift need not change the accuracy: an unusual site is not always a worse one.

    Args:
        model: a model, or its folder.
        data: labelled data as :func:`riskmatch.evaluate` takes them, of which every domain is a
            new site; without labels inputs as :func:`riskmatch.predict` takes them, one site.
        labelled: whether the data have labels.
        level: the p-value at and below which there is an alarm.
        permutations: permutations of every test; p is at least 1 / (1 + permutations).
        seed: seed of subsamples and permutations.
        label: column of the label of a table; by default that of training.
        domain: column of the domain of a table; by default that of training, if there is one.
        options: options of a named data set; by default those of training if it is the same.
        data_dir: folder that is searched first for files of the data set.
        batch_size: samples per forward pass.
        figure: file to draw :meth:`Monitoring.figure` to: .png, .svg or .pdf.
        trust: import a network of the user's own that the folder names, which runs its code.
        on_skip: called with each file that cannot be read, which is left out; by default such a
            file is an error.
        on_progress: called with the number of samples that are done.

    Raises:
        ValueError: the data do not fit the model, or have too few samples.

    Example:
        >>> import tempfile, torch, riskmatch
        >>> generator = torch.Generator().manual_seed(0)
        >>> x, y = torch.randn(400, 3, generator=generator), torch.arange(400) % 2
        >>> x[:, 0] += 4 * y
        >>> sites = {"A": (x[:200], y[:200]), "B": (x[200:], y[200:])}
        >>> run = riskmatch.train(sites, "erm", out=tempfile.mkdtemp(), steps=50)
        >>> folder = riskmatch.save_model(run, run.folder / "model")
        >>> monitor(folder, {"C": (x, 1 - y)}).alarm  # labels are wrong
        True
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level:g}.")
    if mismatch(seed, int) or seed < 0:
        raise ValueError(f"seed must be an integer in [0, 2^63), got {seed!r}.")
    if not isinstance(model, TrainedModel):
        model = load_model(model, trust=trust)
    if figure is not None:
        if not (labelled or model.labels == "classes"):
            raise ValueError(
                "The figure shows risks or confidences of classes, and without labels this model "
                "has neither: leave out figure."
            )
        if isinstance(data, str | Path):
            refuse_input(figure, data, within=EXTENSIONS)
            if figure.exists() and isinstance(model.preprocessing, ImagePreprocessing):
                refuse_input(figure, *listed_files(Path(data)))
    rng, rows = np.random.default_rng(seed), list[dict[str, Any]]()
    curves: dict[str, dict[str, Array]] = {}
    sites: Iterable[tuple[str, Quantity, Array]]
    if labelled:
        domains = read_domains(model, data, label, domain, options, data_dir, on_progress)
        scored = score_domains(model, domains, batch_size, on_skip, on_progress)
        sites = ((name, "risk", scores.risk.astype(float)) for name, scores in scored)
        pooled_tests = len(domains)
    else:
        wide = any(_held_out(model, name, "features").shape[1] for name in model.held_out)
        if not (model.labels == "classes" or wide):
            raise ValueError(
                "The model predicts no classes, and its network returns no features: data without "
                "labels have nothing to compare."
            )
        sites = _unlabelled(model, data, wide, batch_size, on_skip, on_progress, rng)
        pooled_tests = (model.labels == "classes") + wide
    least = math.ceil(pooled_tests / level) - 1  # else no adjusted p-value could raise the alarm
    if permutations < least:
        raise ValueError(
            f"At level {level:g} with {pooled_tests} test{'s' * (pooled_tests > 1)} against the "
            f"pool, permutations must be at least {least}, got {permutations}."
        )
    for site, quantity, values in sites:
        reference = {name: _held_out(model, name, quantity) for name in model.domains}
        for name, array in {site: values, **reference}.items():
            if len(array) < 2:
                raise ValueError(f"'{name}' has {len(array)} samples; a test needs at least 2.")
        compared = compare(values, reference, permutations, rng)
        rows += [{"site": site, "quantity": quantity, **row} for row in compared]
        if quantity != "features":
            curves[site] = {**reference, site + NEW: values}
    tests = pd.DataFrame(rows)
    pooled = tests["against"] == POOL
    for part in (pooled, ~pooled):
        tests.loc[part, "p_adjusted"] = statistics.holm(tests.loc[part, "p"].to_list())
    alarm = bool((tests.loc[pooled, "p_adjusted"] <= level).any())
    result = Monitoring(alarm, level, labelled, tests, curves)
    if figure is not None:
        save(result.figure().draw(), figure)
    return result


def compare(
    values: Array,
    reference: Mapping[str, Array],
    permutations: int,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Test values of a site against the pool of the reference domains, and against each of them.

    MMD² is the unbiased estimate. Its kernel is that of training for scalars, and
    exp(−‖x − y‖² / median ‖x − y‖²) for features. The effect size of scalars is the probability
    that a value of the site exceeds one of the reference, ties counting half: 0.5 without a
    difference. That of features is 1 − (d̄_xx + d̄_yy) / (2 d̄_xy), with mean distances of different
    samples: 0 without a difference, 1 where the two are far apart.

    Args:
        values: (n,) scalars, or (n, d) features of the site.
        reference: the same of every domain.
        permutations: number of permutations.
        rng: source of subsamples and permutations.

    Returns:
        The test against the pool, then those against the domains; see :attr:`Monitoring.tests`.

    References: Gretton et al., *A Kernel Two-Sample Test*, JMLR 2012; Székely and Rizzo, *Energy
    Statistics*, JSPI 2013.
    """
    each = min(MAX_POOL // len(reference), *map(len, reference.values()))
    site = statistics.subsample(values, MAX_SITE, rng)
    parts = [statistics.subsample(part, each, rng) for part in reference.values()]
    joined, n = np.concatenate([site, *parts]), len(site)
    scalars = joined.ndim == 1
    apart = np.empty((0, 0)) if scalars else statistics.distances(joined)
    gram = kernel_matrix(joined) if scalars else statistics.median_kernel(apart)
    others = np.arange(n, len(joined)).reshape(len(parts), each)
    rows = []
    for name, members in [(POOL, others.ravel()), *zip(reference, others, strict=True)]:
        both = np.concatenate([np.arange(n), members])
        part = gram if name == POOL else gram[np.ix_(both, both)]
        mmd2, p = statistics.two_sample_test(part, n, permutations, rng)
        effect = (
            statistics.superiority(site, joined[members])
            if scalars
            else statistics.separation(apart, np.arange(n), members)
        )
        rows.append(
            {
                "against": name,
                "samples": n,
                "reference_samples": len(members),
                "mean": float(site.mean()) if scalars else None,
                "reference_mean": float(joined[members].mean()) if scalars else None,
                "mmd2": mmd2,
                "effect": effect,
                "p": p,
            }
        )
    return rows


def _unlabelled(
    model: TrainedModel,
    data: Any,
    wide: bool,
    batch_size: int,
    on_skip: OnSkip | None,
    on_progress: OnProgress | None,
    rng: np.random.Generator,
) -> Iterator[tuple[str, Quantity, Array]]:
    """Confidences, and features if they are ``wide``; of many inputs features of a draw alone."""
    site, inputs = "new site", samples(data, model.preprocessing)
    few = len(inputs) <= MAX_SITE
    if isinstance(data, str | Path):
        site = Path(data).stem if Path(data).is_file() else Path(data).name
    outputs = model.outputs(
        inputs, batch_size=batch_size, features=few, on_skip=on_skip, on_progress=on_progress
    )
    scores = model.predictions(outputs.logits)[1]
    if model.labels == "classes" and scores is not None:
        yield site, "confidence", scores.amax(1).numpy().astype(float)
    features = outputs.features
    if features is None and wide:
        rows = statistics.subsample(np.array(outputs.rows), MAX_SITE, rng)
        chosen = outputs.samples.take(rows.tolist())
        features = model.outputs(chosen, batch_size=batch_size, features=True).features
    if features is not None:
        yield site, "features", features.numpy().astype(float)


def _held_out(model: TrainedModel, domain: str, quantity: Quantity) -> Array:
    return np.asarray(getattr(model.held_out[domain], quantity), float)
