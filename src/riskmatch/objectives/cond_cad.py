"""Conditional contrastive adversarial domain bottleneck."""

from __future__ import annotations

from dataclasses import dataclass

from riskmatch.objectives.cad import CAD


@dataclass(frozen=True)
class CondCAD(CAD):
    r"""CAD among the samples of a class: no feature tells the domain of a sample of known class.

    .. math:: \bar R + \lambda \frac{\tau}{0.07} \operatorname*{mean}_i \Bigl[
              \log \sum_{j \in A_i} \exp \frac{\langle f_i, f_j \rangle}{\tau}
              - \log \sum_{j \in A_i : e_j \ne e_i} \exp \frac{\langle f_i, f_j \rangle}{\tau}
              \Bigr], \qquad A_i = \{j \ne i : y_j = y_i\}

    The mean is over the samples whose class is in another domain of the batch, too.
    """

    within_class = True
    title = "CondCAD"
    idea = "features"
    citation = "Ruan et al., Optimal Representations for Covariate Shift, ICLR 2022"
