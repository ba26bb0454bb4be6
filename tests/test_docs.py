"""Code, commands and links of README.md and of the pages in docs/ hold."""

import re
import shlex
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import riskmatch
from riskmatch.advice import Advice, write_advice
from riskmatch.cli.app import main
from riskmatch.cli.parser import Parser
from riskmatch.defaults.values import PRESETS
from riskmatch.deployment import Expected

ROOT = Path(__file__).resolve().parent.parent
PAGES = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
PAGES["README.md"] = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GENERATED = ("command-line.md", "gallery.md", "methods.md")
ELSEWHERE = (  # tests/integration runs these blocks: test_onnx.py, and test_newcomer.py
    "import onnxruntime",
    'load_model("progress")',
    'load_model("shapes")',
)
RUN = ("extending.md", "reports.md", "selection.md")  # their commands only read a sweep
TYPED = (
    "index.md",
    "tutorial-engineer.md",
    "tutorial-regression.md",
    "tutorial-researcher.md",
    "tutorial-tags.md",
)
"""Pages whose commands tests/integration/test_newcomer.py runs as they stand."""
PARSED = {  # pages whose commands are parsed and not run, and why
    "README.md": "trains and sweeps for hours; the same verbs are in the tutorials",
    "choosing.md": "needs PACS",
    "domainbed.md": "needs an old sweep: tests/cli/test_import.py",
    "models.md": "the commands of the engineer's tutorial",
    "reproducing.md": "trains for hours; tests/experiments and tests/cli run the smoke budget",
    "scale.md": "needs PACS, a cluster or several machines: tests/integration",
    "tables.md": "the commands of the engineer's tutorial, on a table of the reader's own",
}


def blocks(page, language):
    """Code blocks of a page in a language."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)
    return [code for name, code in found if name == language]


def with_blocks(language):
    return [page for page in PAGES if blocks(page, language)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What pages assume to be there: two sweeps, advice, methods and a rule of one's own."""
    root = tmp_path_factory.mktemp("docs")
    options = {"data_options": {"samples": 60}, "model_options": {"widths": [8]}, "steps": 2}
    for name in ("my-sweep", "spread"):
        riskmatch.train("colored-digits", "erm", "0.1", **options, eval_every=1, out=root / name)
    (root / "advice").mkdir()
    advice = Advice("photos/", "erm", {}, {}, Expected(0.5, 0.3, 0.7))
    write_advice(advice, root / "advice" / "advice.json")
    (method,) = blocks("tutorial-researcher.md", "python")[:1]
    own = next(code for code in blocks("README.md", "python") if "class VREx" in code)
    (root / "my_methods.py").write_text(f"{method}\n\n{own}")
    (root / "my_rules.py").write_text(blocks("extending.md", "python")[0])
    return root


def save_model_of_photos():
    """Write the folders new-photos and model."""
    rng = np.random.default_rng(0)
    for place in ("clinic-1/cat", "clinic-1/dog", "clinic-2/cat"):
        Path("new-photos", place).mkdir(parents=True)
        for number in range(3):
            image = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8))
            image.save(f"new-photos/{place}/{number}.png")
    network = {"model": "lite0", "model_options": {"pretrained": False, "size": 32}}
    riskmatch.save_model(riskmatch.train("new-photos", "erm", **network, steps=1), "model")


def names(page):
    """Names that the code of a page assumes, and files of the current folder."""
    if page == "models.md":
        save_model_of_photos()
    if page == "README.md":
        model = torch.nn.Linear(4, 2)
        batch = (torch.randn(6, 4), torch.randint(2, (6,)), torch.arange(6) % 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return {"model": model, "batches": [batch], "optimizer": optimizer}
    if page == "tables.md":
        airports, late = ["JFK", "LGA", "EWR"] * 8, [0, 1, 1, 0] * 6
        columns = {"id": range(24), "airport": airports, "wind": range(24), "late": late}
        columns["aircraft"] = [number // 2 for number in range(24)]
        frame = pd.DataFrame(columns)
        return {"frame": frame, "new_rows": frame[:3], "riskmatch": riskmatch}
    return {}


@pytest.mark.parametrize("page", with_blocks("python"))
def test_python_blocks_run(page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.syspath_prepend(folder)
    namespace = {"__name__": page, **names(page)}
    train = riskmatch.train
    short = {"steps": 2, "warmup": 1, "batch_size": 4}
    monkeypatch.setattr(
        riskmatch, "train", lambda *args, **options: train(*args, **{**options, **short})
    )
    for code in blocks(page, "python"):
        if any(text in code for text in ELSEWHERE):
            compile(code, page, "exec")
        elif "(Objective)" in code:  # in the file my_methods.py
            (name,) = re.findall(r"class (\w+)", code)
            exec(f"from my_methods import {name}", namespace)
        else:
            exec(code, namespace)


class Parsed(BaseException):
    """The words of a command were parsed."""


def commands(page):
    """Command lines of a page, in console blocks and, for users of DomainBed, in tables."""
    lines = "".join(blocks(page, "console")).splitlines()
    if page == "domainbed.md":
        lines += re.findall("`(riskmatch [^`]*)`", PAGES[page])
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_commands_are_parsed(page, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    parse = Parser.parse

    def parse_only(self, *args, **options):
        given = parse(self, *args, **options)
        needed = {option.name for option in self.options if option.required}
        assert needed - given.keys() <= {"test_domains"}  # of which --all-domains has none
        raise Parsed

    monkeypatch.setattr(Parser, "parse", parse_only)
    targets = (ROOT / "Makefile").read_text("utf-8")
    for line in commands(page):
        words = shlex.split(line, comments=True)
        if words[0] == "torchrun":
            words = words[words.index("riskmatch") :]
        if words[0] == "make":
            assert f"\n{words[1]}:" in targets, line
        if words[0] != "riskmatch" or "…" in words:
            continue
        with suppress(Parsed):
            code = main(words[1:])  # 0 where words ask for help
            assert code == 0, line + capsys.readouterr().err


def test_commands_are_run_or_it_is_said_why_not():
    assert {page for page in PAGES if commands(page)} == {*RUN, *TYPED, *PARSED}


@pytest.mark.parametrize("page", RUN)
def test_commands_that_read_a_sweep_run(page, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for line in commands(page):
        program, *words = shlex.split(line, comments=True)
        assert program == "riskmatch"
        assert main(words) == 0, line + capsys.readouterr().err


@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md"])
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", PAGES[page]):
        assert link in GENERATED or (ROOT / "docs" / link).exists(), link
    assert f": {page}\n" in (ROOT / "mkdocs.yml").read_text("utf-8")


def test_the_gallery_is_short_and_has_its_pictures():
    scripts = [path for path in EXAMPLES if "[PNG]" in path.read_text("utf-8")]
    assert 6 <= len(scripts) <= 12
    pictures = {path.stem for path in (ROOT / "docs" / "assets" / "gallery").iterdir()}
    assert pictures == {path.stem for path in scripts}
    for path in scripts:
        assert len(path.read_text("utf-8").splitlines()) < 80, path.name
        assert any(f"assets/gallery/{path.stem}.png" in page for page in PAGES.values()) or (
            any(path.name in page for page in PAGES.values())
        ), path.name


def test_every_value_of_the_papers_presets_has_a_source():
    table = PAGES["paper-and-code.md"].partition("## Where every value")[2]
    named = set(re.findall(r"`(\w+)`", table))
    for preset in (PRESETS["paper"], PRESETS["authors-code"]):
        for layer in (preset.choices, *preset.by_data.values()):
            for choices in layer.values():
                assert choices.keys() <= named


def test_the_reference_has_every_public_name():
    shown = re.findall(r"^::: riskmatch\.(\w+)$", PAGES["api.md"], re.MULTILINE)
    assert sorted(shown) == sorted(riskmatch.__all__)
