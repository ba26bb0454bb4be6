"""Parts for riskmatch, each in a file of its own; ``pyproject.toml`` announces them."""
