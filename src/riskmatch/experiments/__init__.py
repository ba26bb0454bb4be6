"""The paper's tables and figures, each a short declaration over the parts below."""
