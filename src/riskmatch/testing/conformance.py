"""The error that every conformance check raises."""


class ConformanceError(AssertionError):
    """A part does not have a property that every part of its kind must have.

    Args:
        name: name of the part.
        message: the property that fails, following the name.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
