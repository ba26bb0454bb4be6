from types import SimpleNamespace

import pytest

from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.experiments.at_hand import data_at_hand, done
from riskmatch.experiments.catalogue import EXPERIMENTS
from riskmatch.experiments.experiment import STAND_IN, Request
from riskmatch.experiments.notes import in_place_of, left_out
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with no data but what is placed on it."""
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def place(*names):
        for name in names:
            for part in BENCHMARKS[name].parts:
                (tmp_path / "riskmatch" / name / part.folder).mkdir(parents=True)

    return place


def test_what_is_here_is_taken_and_the_rest_is_named(machine):
    machine("pacs", "domainnet")
    data, absent = data_at_hand(EXPERIMENTS["table2"], "laptop")
    assert data == ("pacs", "domainnet")
    assert absent["vlcs"] == "riskmatch data get vlcs"
    assert left_out(Request("laptop", data, absent)) == (
        "Left out: VLCS (riskmatch data get vlcs), OfficeHome (riskmatch data get officehome), "
        "TerraIncognita (riskmatch data get terraincognita)."
    )
    assert data_at_hand(EXPERIMENTS["table2"], "laptop", ["pacs"]) == (("pacs",), {})


def test_smoke_takes_images_that_are_here_unless_they_are_many(machine):
    machine("pacs", "domainnet")
    assert data_at_hand(EXPERIMENTS["pacs"], "smoke") == (("pacs",), {})
    data, absent = data_at_hand(EXPERIMENTS["table2"], "smoke", ["pacs", "domainnet"])
    assert (data, absent) == (("pacs",), {"domainnet": "--budget laptop"})


def test_digits_stand_in_for_images_and_the_caption_says_so(machine):
    data, absent = data_at_hand(EXPERIMENTS["efficiency"], "smoke", ["pacs", "vlcs"])
    assert data == (STAND_IN,)
    request = Request("smoke", data, absent)
    assert in_place_of(request) == (
        "colored-digits, scikit-learn's handwritten digits, in place of VLCS, PACS. "
    )
    assert left_out(request) == ""
    assert in_place_of(Request("smoke", ("pacs",))) == ""


@pytest.mark.parametrize("budget", ["laptop", "paper"])
def test_nothing_stands_in_at_larger_budgets(machine, budget):
    cure = r"Not on this machine, but can be had: vlcs \(riskmatch data get vlcs\)\."
    with pytest.raises(ValueError, match=cure):
        data_at_hand(EXPERIMENTS["vlcs"], budget)


def test_nothing_stands_in_for_mnist(machine):
    with pytest.raises(ValueError, match=r"colored-mnist \(riskmatch data get mnist\)"):
        data_at_hand(EXPERIMENTS["table1"], "smoke")


def test_a_data_set_of_another_table_is_refused(machine):
    with pytest.raises(ValueError, match="Unknown data set of Table 5 'domainnet'"):
        data_at_hand(EXPERIMENTS["efficiency"], "smoke", ["domainnet"])


def test_runs_that_are_unfinished_or_damaged_do_not_count(tmp_path):
    runs = [SimpleNamespace(config=RunConfig("d", ("t",), "erm", seed=k)) for k in range(4)]
    for run in runs[:3]:
        records.start(tmp_path / run.config.id, run.config)
    records.end(tmp_path / runs[0].config.id, "done")
    (tmp_path / runs[2].config.id / "records.jsonl").write_text("{}\n{}\n")
    with pytest.warns(UserWarning, match=runs[2].config.id):
        assert list(done(runs, tmp_path)) == [runs[0].config.id]
