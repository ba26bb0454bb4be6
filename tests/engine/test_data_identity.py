"""Changes of the data that a run was trained on."""

import json
from dataclasses import replace

import pytest
import torch
from tiny_runs import assert_same_run, tiny

from riskmatch.data import load
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.engine.assemble import domains_of
from riskmatch.engine.data_identity import DataChangedError, identity_of
from riskmatch.engine.load import final_network, load_run
from riskmatch.engine.run import train
from riskmatch.runs import records
from riskmatch.runs.lines import DataIdentity

DATA = {"samples": 200}


def data(**changes):
    return replace(load("colored-digits", DATA), **changes)


def changed(place, **changes):
    """Coloured digits with one domain changed."""
    domains = list(data().domains)
    domains[place] = replace(domains[place], **changes)
    return data(domains=tuple(domains))


def stopped(config, out, domains=None, step=13):
    def on_step(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, out, domains=domains, on_step=on_step, checkpoint_every=5)


OTHERS = {
    "a class is renamed": (
        data(class_names=("even", "odd")),
        data(class_names=("odd", "uneven")),
        r"class 'even' was removed, class 'uneven' was added",
    ),
    "a class is new": (data(), data(classes=3), r"class '2' was added"),
    "classes change places": (
        data(class_names=("even", "odd")),
        data(class_names=("odd", "even")),
        r"the order of the classes differs",
    ),
    "samples are gone": (
        data(),
        data(domains=(data().domains[0].take(torch.arange(50)), *data().domains[1:])),
        r"'0.9' has 50 samples instead of 200",
    ),
    "a domain is new": (
        data(),
        data(domains=(*data().domains, replace(data().domains[0], name="0.7"))),
        r"domain '0.7' was added",
    ),
    "labels are swapped": (data(), changed(0, y=1 - data().domains[0].y), "samples differ"),
    "an input is another": (data(), changed(2, x=data().domains[2].x / 2), "samples differ"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_resuming_with_other_data_raises(tmp_path, case):
    before, after, message = OTHERS[case]
    config = tiny()
    folder = tmp_path / config.id
    stopped(config, tmp_path, before)
    record = (folder / records.FILE).read_bytes()
    with pytest.raises(DataChangedError, match=message) as caught:
        train(config, tmp_path, domains=after, resume=True)
    assert f"Restore them to continue, or remove {folder} to start again." in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (folder / records.FILE).read_bytes() == record
    train(config, tmp_path, domains=before, resume=True)
    train(config, tmp_path / "whole", domains=before)
    assert_same_run(folder, tmp_path / "whole" / config.id)


@pytest.mark.parametrize("case", OTHERS)
def test_finished_run_warns_of_other_data(tmp_path, case):
    before, after, message = OTHERS[case]
    done = train(tiny(steps=2), tmp_path, domains=before)
    with pytest.warns(UserWarning, match=f"The data differ .* trained on: .*{message}"):
        assert train(tiny(steps=2), tmp_path, domains=after) == done
    with pytest.raises(DataChangedError, match=message):
        final_network(load_run(tmp_path / done.config.id), after)


def test_run_without_checkpoint_starts_again_with_the_current_data(tmp_path):
    before, after, _ = OTHERS["a class is new"]
    config = tiny(steps=2)
    records.start(tmp_path / config.id, config, identity_of(before))
    assert train(config, tmp_path, domains=after, resume=True).data == identity_of(after)


def test_erm_phase_on_other_data_raises(tmp_path):
    before, after, message = OTHERS["a class is renamed"]
    config = tiny("rdm", pretrain=20)
    phase = tmp_path / config.erm_phase().id
    train(config.erm_phase(), tmp_path, domains=before)
    with pytest.raises(DataChangedError, match=message) as caught:
        train(config, tmp_path, domains=after)
    assert f"remove {phase} to start again" in str(caught.value)
    assert records.find(tmp_path / config.id) is None
    assert train(config, tmp_path, domains=before).status == "done"


def without_identity(folder):
    """Remove the identity of the data from a record."""
    file = folder / records.FILE
    first, *others = file.read_text().splitlines(keepends=True)
    values = json.loads(first)
    del values["data"]
    file.write_text("".join([json.dumps(values) + "\n", *others]))


def test_record_without_identity_can_be_resumed(tmp_path):
    config = tiny()
    stopped(config, tmp_path)
    without_identity(tmp_path / config.id)
    record = train(config, tmp_path, resume=True)
    assert (record.status, record.data) == ("done", None)
    assert train(config, tmp_path, domains=data(class_names=("a", "b"))) == record


def test_checkpoint_that_does_not_fit_raises_with_the_cure(tmp_path):
    config = tiny()
    stopped(config, tmp_path)
    without_identity(tmp_path / config.id)
    with pytest.raises(ValueError, match=r"^The checkpoint of step 13 .* remove .* start again\.$"):
        train(config, tmp_path, domains=data(classes=3), resume=True)


def test_identity_is_computed_once_per_data_set(monkeypatch):
    domains = data()
    first = identity_of(domains)
    monkeypatch.setattr(
        "riskmatch.engine.data_identity.hash_inputs", lambda x: pytest.fail("read again")
    )
    assert identity_of(domains) is first


def test_identity_includes_validation_samples():
    x, y = torch.zeros(4, 2), torch.zeros(4, dtype=torch.long)

    def identity(value):
        validation = Domain("a", torch.full((3, 2), value), y[:3])
        return identity_of(DomainSet("made", (Domain("a", x, y, validation),), classes=2))

    assert identity(0.0) == identity(0.0)
    assert identity(0.0).samples == {"a": 7}
    assert identity(0.0).changes(identity(1.0)) == "the samples differ"


def test_long_list_of_changes_is_shortened():
    then, now = (DataIdentity(tuple(f"{c}{k}" for k in range(9)), {}) for c in "ab")
    assert then.changes(now).endswith("class 'a3' was removed, and 14 more")


@pytest.fixture
def pets(tmp_path, monkeypatch):
    """A run on the features of four images."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("efficientnet_lite_pytorch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number, path in enumerate(("a/cat", "a/dog", "b/cat", "b/dog")):
        (tmp_path / "pets" / path).mkdir(parents=True)
        for place in range(2):
            colour = (60 * number, 100 * place, 0)
            image.new("RGB", (32, 32), colour).save(tmp_path / "pets" / path / f"{place}.png")
    return tiny(
        data=str(tmp_path / "pets"),
        test_domains=("b",),
        data_options={"image_size": 32},
        model="lite0",
        model_options={"frozen": True},
        batch_size=2,
    )


def test_features_have_the_identity_of_their_images(pets):
    assert identity_of(domains_of(pets)) == identity_of(load(pets.data, {"image_size": 32}))


@pytest.mark.parametrize("phase", [False, True])
def test_changed_classes_raise_before_images_are_read(pets, tmp_path, phase):
    config = replace(pets, pretrain=20) if phase else pets
    if phase:
        train(config.erm_phase(), tmp_path)
    else:
        stopped(config, tmp_path)
    (tmp_path / "pets" / "a" / "cat").rename(tmp_path / "pets" / "a" / "zebra")
    with pytest.raises(DataChangedError, match="class 'zebra' was added"):
        train(config, tmp_path, resume=True, on_progress=lambda *_: pytest.fail("reading"))


def test_swapped_images_raise(pets, tmp_path):
    stopped(pets, tmp_path)
    a = tmp_path / "pets" / "a"
    for old, new in (("cat", "tmp"), ("dog", "cat"), ("tmp", "dog")):
        (a / old).rename(a / new)
    with pytest.raises(DataChangedError, match="the samples differ"):
        train(pets, tmp_path, resume=True)
