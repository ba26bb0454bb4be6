import json

from riskmatch import describe_method
from riskmatch.objectives import methods


def test_list_has_a_line_per_method_and_groups_ideas(riskmatch, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = riskmatch("methods")
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines() if line.split()[:1] and len(line) <= 80]
    by_name = {row[0]: row[1:] for row in rows if row[0] in methods()}
    assert {name: " ".join(row) for name, row in by_name.items()} == {
        name: f"{method.idea} {method.needs} {method.title}" for name, method in methods().items()
    }
    ideas = [row[0] for row in by_name.values()]
    assert len([k for k, idea in enumerate(ideas) if ideas[:k][-1:] != [idea]]) == len(set(ideas))
    assert len(done.out.splitlines()) <= len(methods()) + 4


def test_json_has_defaults_and_ranges_by_data_set(riskmatch):
    described = {entry["name"]: entry for entry in json.loads(riskmatch("methods", "--json").out)}
    assert set(described) == set(methods())
    weight = described["rdm"]["hparams"]["weight"]
    assert (weight["default"], weight["range"]) == (5.0, "U(0.1, 10)")
    assert weight["by_data"]["domainnet"] == {"default": 0.5, "range": "U(0.1, 1)"}
    assert weight["help"] == "λ, of the matching penalty."
    assert described["rdm"]["training"]["lr"]["range"] == "10^U(-4.5, -4)"
    assert described["erm"]["hparams"] == {}
    assert (described["rdm"]["title"], described["rdm"]["idea"]) == ("RDM", "risks")
    assert "WACV 2024" in described["rdm"]["citation"]


def test_method_in_detail(riskmatch):
    text = riskmatch("methods", "rdm").out
    for part in ("Nguyen et al.", "on domainnet", "U(1500, 3000)", "--preset authors-code"):
        assert part in text
    described = json.loads(riskmatch("methods", "rdm", "--json").out)
    assert described["name"] == "rdm"
    code = described["presets"]["authors-code"]
    assert code["choices"]["pool"] == "samples"
    assert code["by_data"]["pacs"]["weight"] == {"default": 5.0, "range": "U(1, 10)"}
    assert "weight 5, searched in U(1, 10)" in " ".join(text.split())
    cost = described["step_cost"]
    assert f"{cost['value']:.2f} × the time of ERM's ({cost['measured_on']})" in " ".join(
        text.split()
    )
    assert f"idea {described['idea']} needs" in " ".join(text.split())
    assert describe_method("riskmatch.objectives:RDM")["step_cost"] is None  # as one's own


def test_formulas_are_plain_text(riskmatch):
    for name in methods():
        done = riskmatch("methods", name)
        assert done.code == 0
        assert f"riskmatch train colored-digits --method {name}" in done.out
        assert "\\" not in done.out


def test_bad_names_are_one_line(riskmatch):
    done = riskmatch("methods", "rmd")
    assert done.code == 2
    assert done.err.startswith("riskmatch: Unknown method 'rmd'. Did you mean 'rdm'?")
    many = riskmatch("methods", "erm", "--json", "rdm")
    assert many.code == 2
    assert many.err.startswith("riskmatch: riskmatch methods takes NAME, got erm rdm. See")
