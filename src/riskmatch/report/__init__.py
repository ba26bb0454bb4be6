"""Tables and figures from plain numbers; nothing here knows of torch."""
