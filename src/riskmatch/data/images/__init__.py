"""Images of several domains: listed, decoded once, fed from memory."""
