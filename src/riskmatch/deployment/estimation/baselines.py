"""What is expected without a look at the site."""

from __future__ import annotations

from statistics import fmean

from riskmatch.deployment.estimation.case import Case, by_site


def left_out_mean(case: Case) -> float:
    """Mean of the metric over left-out sites; siblings count as one."""
    values = {site.name: case.value(site) for site in case.others}
    return fmean(map(fmean, by_site(values, case.others)))


def validation(case: Case) -> float:
    """The metric on validation samples of the domains of training."""
    own = case.validation
    value, reason = case.metric(own.label, own.predicted, own.scores)
    if reason:
        stored = own.scores is not None
        raise ValueError(reason if stored else "no probabilities of validation samples are stored")
    return value
