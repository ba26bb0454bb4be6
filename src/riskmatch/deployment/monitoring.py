"""Test whether new sites are worse than left-out sites, and whether they are unlike training."""

from __future__ import annotations

import shlex
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
from riskmatch.deployment import alarm
from riskmatch.deployment.evaluation import read_domains, score_domains
from riskmatch.deployment.inputs import BATCH, ImagePreprocessing, OnSkip, samples
from riskmatch.deployment.model import TrainedModel, load_model
from riskmatch.files import refuse_input
from riskmatch.metrics import MetricFacts
from riskmatch.report.details import train_command
from riskmatch.report.figures.canvas import save
from riskmatch.report.figures.plot import Lines
from riskmatch.report.figures.risks import cdf_plot
from riskmatch.report.style import domain_style
from riskmatch.validation import mismatch

Array = statistics.Array
Quantity = Literal["risk", "confidence", "features"]
LEVEL = 0.05
PERMUTATIONS = 1000
NEW = " (new)"


@dataclass(frozen=True, eq=False)
class Monitoring:
    """Whether new sites are worse than left-out sites, and how unlike training they are."""

    alarm: bool
    """Whether a site is worse than left-out sites differ among themselves; False where that cannot
    be tested, see ``uncalibrated``."""
    uncalibrated: str
    """Why there can be no alarm, and what to do; empty if there can."""
    level: float
    looks: int
    metric: MetricFacts
    """What is known about the metric of the alarm."""
    labelled: bool
    """Whether risks were compared; else confidences and features, which need no labels."""
    sites: pd.DataFrame
    """A row per site that is tested, with the columns of
    :func:`riskmatch.deployment.alarm.judge_sites`; empty where there can be no alarm."""
    tests: pd.DataFrame
    """For information, a row per site and quantity, compared with the pool of held-out samples:
    ``site``, ``quantity`` (risk, confidence or features), ``samples``, ``reference_samples``,
    ``mean``, ``reference_mean``, ``mmd2``, ``effect`` and ``p``. Almost any site is unlike the
    pool, those of training too: these tests raise no alarm."""
    untested: Mapping[str, str]
    """Why other sites, new, left out or of training, take no part, by name."""
    values: Mapping[str, Mapping[str, Array]] = field(repr=False)
    """Risks or confidences by site and label of a curve, for :meth:`figure`."""

    @property
    def lines(self) -> list[str]:
        """What was found, the alarm last."""
        unit, lines = " points" * self.metric.percent, []
        looks = f" over {self.looks} looks" * (self.looks > 1)
        for row in self.sites.to_dict("records"):
            side = "lower" if row["difference"] < 0 else "higher"
            lines.append(
                f"{'ALARM' if row['alarm'] else 'no alarm'}: {row['site']}: {self.metric.title} "
                f"{self.metric.shown(row['value'])}, {self.metric.shown(abs(row['difference']))}"
                f"{unit} {side} than the mean of {row['left_out']} left-out sites "
                f"({self.metric.shown(row['reference'])}), p {row['p_adjusted']:.2g}, level "
                f"{self.level:g}{looks}"
            )
        lines.sort(key=lambda line: line.startswith("ALARM"))
        left = [f"not tested: {name}: {reason}" for name, reason in self.untested.items()]
        without = [f"no calibrated alarm: {self.uncalibrated}"] if self.uncalibrated else []
        return left + without + lines

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
        alarmed = self.sites.loc[self.sites["alarm"], "site"] if len(self.sites) else ()
        return cdf_plot(
            self.values,
            styles,
            f"{name.capitalize()}s of new sites beside held-out ones of training",
            f"{name} of a sample",
            "No calibrated alarm"
            if self.uncalibrated
            else f"Alarm at level {self.level:g}: {', '.join(alarmed) or 'none'}",
            None if self.labelled else 1.0,
        )

    def to_json(self) -> dict[str, Any]:
        """Result as plain JSON values."""
        names = "alarm", "uncalibrated", "level", "looks", "labelled", "untested"
        summary = {name: getattr(self, name) for name in names}
        tables = {name: getattr(self, name).to_dict("records") for name in ("sites", "tests")}
        return {**summary, "metric": self.metric.title, **tables}


def monitor(
    model: TrainedModel | Path | str,
    data: Any,
    *,
    labelled: bool = True,
    metric: str | None = None,
    level: float = LEVEL,
    looks: int = 1,
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
    """Test whether a new site is worse than left-out sites differ among themselves.

    The alarm is one-sided and calibrated on the left-out sites of the model folder, with the
    spread between them and the sampling error of each: see
    :func:`riskmatch.statistics.p_of_worse_site`. Without them there is none. For information the
    MMD² of the site's risks and the pool of held-out samples is tested by permutation; without
    labels that of confidences (probabilities of the predicted classes) and features, whose shift
    need not change the accuracy: an unusual site is not always a worse one.

    Args:
        model: a model, or its folder.
        data: labelled data as :func:`riskmatch.evaluate` takes them, of which every domain is a
            new site; without labels inputs as :func:`riskmatch.predict` takes them, one site.
        labelled: whether the data have labels.
        metric: the metric of the alarm, a name, ``package.module:function``, or ``risk`` for the
            mean risk; by default the primary one of the model's task.
        level: the probability of an alarm at sites like those that were left out; several sites
            share it.
        looks: number of times that the sites are tested, as more data come: all looks share the
            level.
        permutations: permutations of every test of distributions.
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
        ValueError: the data do not fit the model, or an option is out of range.

    Example:
        >>> import tempfile, torch, riskmatch
        >>> generator = torch.Generator().manual_seed(0)
        >>> x, y = torch.randn(400, 3, generator=generator), torch.arange(400) // 4 % 2
        >>> x[:, 0] += 4 * y
        >>> sites = {name: (x[k::4], y[k::4]) for k, name in enumerate("ABCD")}
        >>> out = Path(tempfile.mkdtemp())
        >>> run = riskmatch.train(sites, "erm", out=out, steps=50, save=out / "m", left_out=True)
        >>> monitor(out / "m", {"E": (x, 1 - y)}).alarm  # labels are wrong
        True
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level:g}.")
    for name, value, least in (
        ("seed", seed, 0),
        ("looks", looks, 1),
        ("permutations", permutations, 1),
    ):
        if mismatch(value, int) or value < least:
            raise ValueError(f"{name} must be an integer in [{least}, 2^63), got {value!r}.")
    place = model if isinstance(model, Path | str) else "MODEL"
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
    if metric != alarm.RISK:
        metric = model.task.judged_by((), metric or "").primary
    facts, rng = alarm.judged_metric(metric, model.left_out), np.random.default_rng(seed)
    compared: Iterable[tuple[str, Quantity, Array]]
    judged, untested = list[dict[str, Any]](), dict[str, str]()
    uncalibrated = "the data have no labels" if not labelled else _uncalibrated(model, place)
    if labelled:
        domains = read_domains(model, data, label, domain, options, data_dir, on_progress)
        groups = {entry.name: entry.groups for entry in domains}
        scored = dict(score_domains(model, domains, batch_size, on_skip, on_progress))
        sites = {
            name: (one, None if (own := groups[name]) is None else own.numpy()[one.index])
            for name, one in scored.items()
        }
        judged, untested = alarm.judge_sites(model.left_out, sites, metric, level, looks)
        compared = ((name, "risk", one.risk.astype(float)) for name, one in scored.items())
    else:
        wide = any(_held_out(model, name, "features").shape[1] for name in model.held_out)
        if not (model.labels == "classes" or wide):
            raise ValueError(
                "The model predicts no classes, and its network returns no features: data without "
                "labels have nothing to compare."
            )
        compared = _unlabelled(model, data, wide, batch_size, on_skip, on_progress, rng)
    rows, curves = list[dict[str, Any]](), dict[str, dict[str, Array]]()
    for site, quantity, values in compared:
        every = {name: _held_out(model, name, quantity) for name in model.domains}
        if quantity != "features":
            curves[site] = {**every, site + NEW: values}
        reference = {name: one for name, one in every.items() if len(one) >= alarm.LEAST_SAMPLES}
        sizes = {f"training domain {name}": len(one) for name, one in every.items()}
        for name, n in (sizes | {f"site {site}": len(values)}).items():
            if n < alarm.LEAST_SAMPLES:
                untested[name] = f"{n} samples, and a test takes {alarm.LEAST_SAMPLES}"
        if len(values) >= alarm.LEAST_SAMPLES and reference:
            test = alarm.compare(values, reference, permutations, rng)
            rows.append({"site": site, "quantity": quantity, **test})
    common = any(row["alarm"] for row in judged), uncalibrated, level, looks, facts, labelled
    result = Monitoring(*common, pd.DataFrame(judged), pd.DataFrame(rows), untested, curves)
    if figure is not None:
        save(result.figure().draw(), figure)
    return result


def _uncalibrated(model: TrainedModel, place: Path | str) -> str:
    """Why a model has no calibrated alarm, and the command that cures it; empty if it has one."""
    sites = {site.siblings or (name,) for name, site in model.left_out.items()}
    if len(sites) >= alarm.LEAST_SITES:
        return ""
    cause = f"the model folder has {len(sites)} left-out sites, and {alarm.LEAST_SITES} are needed"
    if len(model.domains) < alarm.LEAST_SITES:
        return f"{cause}: train on {alarm.LEAST_SITES} domains or more"
    command = train_command(model.config)
    where = shlex.quote(str(place))
    cure = (
        f"{command} --all-domains --save {where}"
        if command
        else "riskmatch.train(…, left_out=True)"
    )
    return f"{cause}; left-out sites are trained and stored by: {cure}"


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
    few = len(inputs) <= alarm.MAX_SITE
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
        rows = statistics.subsample(np.array(outputs.rows), alarm.MAX_SITE, rng)
        chosen = outputs.samples.take(rows.tolist())
        features = model.outputs(chosen, batch_size=batch_size, features=True).features
    if features is not None:
        yield site, "features", features.numpy().astype(float)


def _held_out(model: TrainedModel, domain: str, quantity: Quantity) -> Array:
    return np.asarray(getattr(model.held_out[domain], quantity), float)
