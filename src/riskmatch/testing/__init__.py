"""What the parts of riskmatch promise, as checks that your own parts can run too."""
