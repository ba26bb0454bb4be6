import pytest

from riskmatch.experiments import list_experiments, reproduce, reproduce_all

OWN_METHOD = """
from dataclasses import dataclass

from riskmatch.contract import Objective, Terms


@dataclass(frozen=True)
class Squared(Objective):
    \"\"\"Mean risk plus the weighted mean of squared risks.\"\"\"

    weight: float = 1.0

    def __call__(self, ev, memory):
        return Terms({"risk": ev.risk, "squares": self.weight * (ev.risks**2).mean()})
"""


@pytest.fixture(autouse=True)
def without_data(monkeypatch, tmp_path):
    """A machine without data sets, and an empty working directory."""
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_outcome_has_files_text_and_numbers(tmp_path):
    plans, boards = [], []
    outcome = reproduce(
        "table8",
        "smoke",
        out=tmp_path / "out",
        methods=["erm"],
        on_plan=lambda scope, runs: plans.append((scope, runs)),
        on_change=lambda board: boards.append(len(board.done)),
    )
    assert (outcome.error, outcome.interrupted, outcome.failed) == (None, False, {})
    assert [path.name for path in outcome.output.files] == [
        f"vlcs-on-colored-digits.{suffix}" for suffix in ("md", "tex", "csv")
    ]
    assert outcome.output.text in outcome.output.files[0].read_text()
    assert [row["method"] for row in outcome.output.values] == ["ERM"]
    ((scope, runs),) = plans
    assert "VLCS" in scope.data_note
    assert boards[-1] == len(runs) == 3


def test_method_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "own_method.py").write_text(OWN_METHOD)
    monkeypatch.syspath_prepend(str(tmp_path))
    methods = ["erm", "own_method:Squared"]
    outcome = reproduce("table2", "smoke", data=["vlcs"], methods=methods)
    assert outcome.error is None
    assert [row["method"] for row in outcome.output.values] == ["ERM", "Squared"]


def test_request_that_cannot_be_run():
    with pytest.raises(ValueError, match="fig2 does not take methods"):
        reproduce("fig2", "smoke", methods=["rdm"])
    with pytest.raises(ValueError, match="'medium'"):
        reproduce("pacs", "medium")
    with pytest.raises(ValueError, match="riskmatch data get pacs"):
        reproduce("pacs", "laptop")


def test_reproduce_all_continues_after_an_error():
    started = []
    outcomes = reproduce_all("smoke", as_is=True, on_start=lambda name, *_: started.append(name))
    name, outcome = next(outcomes)
    assert (name, outcome.output, started) == ("table1", None, ["table1"])
    assert "No run of table1 is finished" in outcome.error
    assert next(outcomes)[0] == "table2"


def test_list_names_missing_data():
    infos = {info.name: info for info in list_experiments()}
    assert infos["vlcs"].data == {"vlcs": "riskmatch data get vlcs"}
    assert infos["vlcs"].runs["smoke"] == 12
