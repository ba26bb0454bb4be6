"""Names that mean one thing: files of tests, which pytest imports side by side, and classes."""

import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent


def repeated(names):
    return [name for name, count in Counter(names).items() if count > 1]


def test_every_test_file_has_a_name_of_its_own():
    names = [path.name for path in TESTS.rglob("*.py")]
    assert set(repeated(names)) <= {"conftest.py"}


def test_every_public_class_has_a_name_of_its_own():
    sources = [path.read_text("utf-8") for path in (TESTS.parent / "src").rglob("*.py")]
    classes = re.findall(r"^class ([A-Za-z]\w*)", "\n".join(sources), re.MULTILINE)
    assert len(classes) > 100
    assert repeated(classes) == []
