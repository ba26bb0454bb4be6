"""Examine tags and numbers as labels, by domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.doctor.findings import Finding
from riskmatch.data.labels import summary
from riskmatch.validation import listed


def check_labels(names: Sequence[str], labels: Mapping[str, NDArray[Any]]) -> Iterator[Finding]:
    """Findings about tags or numbers that say nothing, in a domain or in all."""
    described = summary(names, labels)
    tags = {tag: [shares[tag] for shares in described.values()] for tag in names}
    for tag, shares in tags.items():
        known = [share for share in shares if not np.isnan(share)]
        if not known or (len({*known}) == 1 and known[0] in (0, 1)):
            state = "missing from all rows" if not known else f"{known[0]:g} in all rows"
            message = f"is {state}, so nothing can be learnt about the tag"
            yield Finding("one-class", "fault", message, "Leave it out of the label.", column=tag)
    for domain, values in described.items():
        if values.keys() == {"mean", "spread"} and not names:
            if values["spread"] == 0 and len(labels[domain]) > 1:
                message = f"has the label {values['mean']:g} only, in {len(labels[domain]):,} rows"
                cure = "R² has no value there. Add rows, or join it with another domain."
                yield Finding("one-value", "warning", message, cure, domain=domain)
            continue
        single = [tag for tag, share in values.items() if share in (0, 1) or np.isnan(share)]
        single = [tag for tag in single if any(0 < share < 1 for share in tags[tag])]
        if single:
            message = f"has the same value of {listed(single)} in all rows where it is known"
            cure = "AUROC has no value for these tags there. Add rows that differ."
            yield Finding("one-class", "warning", message, cure, domain=domain)
