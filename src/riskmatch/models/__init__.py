"""Networks: x → (features, logits)."""

from riskmatch.models.mlp import MLP

__all__ = ["MLP"]
