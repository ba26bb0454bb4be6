import pytest

from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.experiments import EXPERIMENTS, Scope
from riskmatch.experiments.catalogue import available_data
from riskmatch.experiments.experiment import STAND_IN
from riskmatch.experiments.reproduction import finished_records
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.sweep.plan import PlannedRun


@pytest.fixture
def place(monkeypatch, tmp_path):
    """A machine without data; returns a function that adds data sets."""
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def place(*names):
        for name in names:
            for part in BENCHMARKS[name].parts:
                (tmp_path / "riskmatch" / name / part.folder).mkdir(parents=True)

    return place


def test_available_and_missing_data_sets(place):
    place("pacs", "domainnet")
    data, unavailable = available_data(EXPERIMENTS["table2"], "laptop")
    assert data == ("pacs", "domainnet")
    assert unavailable["vlcs"] == "riskmatch data get vlcs"
    note = Scope("laptop", data, unavailable).data_note
    assert all(name in note for name in ("VLCS", "OfficeHome", "TerraIncognita"))
    assert "PACS" not in note
    assert available_data(EXPERIMENTS["table2"], "laptop", ["pacs"]) == (("pacs",), {})


def test_smoke_skips_large_data_sets(place):
    place("pacs", "domainnet")
    assert available_data(EXPERIMENTS["pacs"], "smoke") == (("pacs",), {})
    data, unavailable = available_data(EXPERIMENTS["table2"], "smoke", ["pacs", "domainnet"])
    assert data == ("pacs",)
    assert list(unavailable) == ["domainnet"]


def test_smoke_replaces_missing_images_by_digits(place):
    data, unavailable = available_data(EXPERIMENTS["efficiency"], "smoke", ["pacs", "vlcs"])
    assert data == (STAND_IN,)
    note = Scope("smoke", data, unavailable).data_note
    assert STAND_IN in note
    assert "VLCS, PACS" in note
    assert Scope("smoke", ("pacs",)).data_note == ""


@pytest.mark.parametrize("budget", ["laptop", "paper"])
def test_larger_budgets_need_the_images(place, budget):
    with pytest.raises(ValueError, match=r"vlcs \(riskmatch data get vlcs\)"):
        available_data(EXPERIMENTS["vlcs"], budget)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_digits_replace_any_missing_data_under_the_budget_smoke_alone(name, place):
    assert available_data(EXPERIMENTS[name], "smoke")[0] == (STAND_IN,)
    with pytest.raises(ValueError, match=r"riskmatch data get"):
        available_data(EXPERIMENTS[name], "paper")


def test_data_set_of_another_table(place):
    with pytest.raises(ValueError, match="data set of Table 5 'domainnet'"):
        available_data(EXPERIMENTS["efficiency"], "smoke", ["domainnet"])


def test_unfinished_and_damaged_runs_are_skipped(tmp_path):
    runs = [PlannedRun(RunConfig("d", ("t",), "erm", seed=k), "a run") for k in range(4)]
    for run in runs[:3]:
        records.start(tmp_path / run.config.id, run.config)
    records.end(tmp_path / runs[0].config.id, "done")
    (tmp_path / runs[2].config.id / "records.jsonl").write_text("{}\n{}\n")
    with pytest.warns(UserWarning, match=runs[2].config.id):
        assert list(finished_records(runs, tmp_path)) == [runs[0].config.id]
