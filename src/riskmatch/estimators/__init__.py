"""Risk distribution matching as scikit-learn estimators."""

from riskmatch.estimators.classifier import RiskMatchingClassifier
from riskmatch.estimators.regressor import RiskMatchingRegressor

__all__ = ["RiskMatchingClassifier", "RiskMatchingRegressor"]
