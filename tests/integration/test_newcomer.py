"""Every command of the tutorials runs as it is printed, in order, in one folder."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")
ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("newcomer", ROOT / "docs" / "newcomer.py")
newcomer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(newcomer)


@pytest.mark.parametrize("page", newcomer.PAGES)
def test_tutorial_can_be_typed(page, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    typed = [command for command, _ in newcomer.walk(page, tmp_path)]
    assert any(command.startswith("riskmatch report") for command in typed)
    assert list(tmp_path.glob("*.html"))
