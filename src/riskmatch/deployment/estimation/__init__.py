"""The accuracy of a model at a site without labels: estimators, judged on left-out sites.

An estimator is a function of a :class:`~riskmatch.deployment.estimation.case.Case`; one of your own
is named ``package.module:Name``. Nothing here imports torch.
"""
