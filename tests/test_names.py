"""The test files have names of their own, which pytest needs to import them side by side."""

from collections import Counter
from pathlib import Path


def test_every_test_file_has_a_name_of_its_own():
    names = Counter(path.name for path in Path(__file__).parent.rglob("*.py"))
    assert [name for name, count in names.items() if count > 1 and name != "conftest.py"] == []
