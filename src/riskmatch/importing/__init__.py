"""Other people's logs, into our records; nothing here knows of torch."""
