"""A run and the data that it was trained on."""

import json
from dataclasses import replace

import pytest
import torch
from tiny_runs import assert_same_run, tiny

from riskmatch.data import load
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.engine import train
from riskmatch.engine.assemble import domains_of
from riskmatch.engine.data_identity import DataChangedError, identity_of
from riskmatch.engine.final import final_model
from riskmatch.runs import records
from riskmatch.runs.identity import DataIdentity

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
        r"class 'even' is gone, class 'uneven' is new",
    ),
    "a class is new": (data(), data(classes=3), r"class '2' is new"),
    "classes change places": (
        data(class_names=("even", "odd")),
        data(class_names=("odd", "even")),
        r"the classes are in another order",
    ),
    "samples are gone": (
        data(),
        data(domains=(data().domains[0].take(torch.arange(50)), *data().domains[1:])),
        r"'0.9' has 50 samples, not 200",
    ),
    "a domain is new": (
        data(),
        data(domains=(*data().domains, replace(data().domains[0], name="0.7"))),
        r"domain '0.7' is new",
    ),
    "labels are swapped": (data(), changed(0, y=1 - data().domains[0].y), "samples are others"),
    "an input is another": (data(), changed(2, x=data().domains[2].x / 2), "samples are others"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_run_does_not_go_on_with_other_data(tmp_path, case):
    before, after, message = OTHERS[case]
    config = tiny()
    folder = tmp_path / config.id
    stopped(config, tmp_path, before)
    record = (folder / records.FILE).read_bytes()
    with pytest.raises(DataChangedError, match=message) as caught:
        train(config, tmp_path, domains=after, resume=True)
    assert f"Restore them to go on, or remove {folder} to start again." in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (folder / records.FILE).read_bytes() == record
    train(config, tmp_path, domains=before, resume=True)  # restored, it goes on as if nothing
    train(config, tmp_path / "whole", domains=before)
    assert_same_run(folder, tmp_path / "whole" / config.id)


@pytest.mark.parametrize("case", OTHERS)
def test_a_finished_run_warns_of_other_data(tmp_path, case):
    before, after, message = OTHERS[case]
    done = train(tiny(steps=2), tmp_path, domains=before)
    with pytest.warns(UserWarning, match=f"The data differ now .* trained on: .*{message}"):
        assert train(tiny(steps=2), tmp_path, domains=after) == done
    with pytest.raises(DataChangedError, match=message):
        final_model(tiny(steps=2), tmp_path, domains=after)


def test_before_its_first_checkpoint_a_run_starts_again_with_the_data_there_are(tmp_path):
    before, after, _ = OTHERS["a class is new"]
    config = tiny(steps=2)
    records.start(tmp_path / config.id, config, identity_of(before))
    assert train(config, tmp_path, domains=after, resume=True).data == identity_of(after)


def test_a_run_does_not_start_from_an_erm_phase_on_other_data(tmp_path):
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
    """Turn a record into one that does not say what its data were."""
    file = folder / records.FILE
    first, *others = file.read_text().splitlines(keepends=True)
    values = json.loads(first)
    del values["data"]
    file.write_text("".join([json.dumps(values) + "\n", *others]))


def test_a_record_that_does_not_name_its_data_goes_on_as_ever(tmp_path):
    config = tiny()
    stopped(config, tmp_path)
    without_identity(tmp_path / config.id)
    found = train(config, tmp_path, resume=True)
    assert (found.status, found.data) == ("done", None)
    assert train(config, tmp_path, domains=data(class_names=("a", "b"))) == found


def test_a_checkpoint_that_does_not_fit_says_what_to_do(tmp_path):
    config = tiny()
    stopped(config, tmp_path)
    without_identity(tmp_path / config.id)
    with pytest.raises(ValueError, match=r"^The checkpoint of step 13 .* remove .* start again\.$"):
        train(config, tmp_path, domains=data(classes=3), resume=True)


def test_what_is_known_of_a_data_set_is_found_once(monkeypatch):
    domains = data()
    first = identity_of(domains)
    monkeypatch.setattr(
        "riskmatch.engine.data_identity.hash_inputs", lambda x: pytest.fail("read again")
    )
    assert identity_of(domains) is first


def test_validation_samples_count_and_their_content_too():
    x, y = torch.zeros(4, 2), torch.zeros(4, dtype=torch.long)

    def found(value):
        validation = Domain("a", torch.full((3, 2), value), y[:3])
        return identity_of(DomainSet("made", (Domain("a", x, y, validation),), classes=2))

    assert found(0.0) == found(0.0)
    assert found(0.0).samples == {"a": 7}
    assert found(0.0).changes(found(1.0)) == "the samples are others"


def test_many_changes_are_told_in_a_few_words():
    then, now = (DataIdentity(tuple(f"{c}{k}" for k in range(9)), {}) for c in "ab")
    assert then.changes(now).endswith("class 'a3' is gone, and 14 more")


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


def test_features_are_told_by_their_images(pets):
    assert identity_of(domains_of(pets)) == identity_of(load(pets.data, {"image_size": 32}))


@pytest.mark.parametrize("phase", [False, True])
def test_images_of_other_classes_are_refused_before_any_is_read(pets, tmp_path, phase):
    config = replace(pets, pretrain=20) if phase else pets
    if phase:
        train(config.erm_phase(), tmp_path)
    else:
        stopped(config, tmp_path)
    (tmp_path / "pets" / "a" / "cat").rename(tmp_path / "pets" / "a" / "zebra")
    with pytest.raises(DataChangedError, match="class 'zebra' is new"):
        train(config, tmp_path, resume=True, on_progress=lambda *_: pytest.fail("reading"))


def test_images_that_changed_places_are_noticed(pets, tmp_path):
    stopped(pets, tmp_path)
    a = tmp_path / "pets" / "a"
    for old, new in (("cat", "tmp"), ("dog", "cat"), ("tmp", "dog")):
        (a / old).rename(a / new)
    with pytest.raises(DataChangedError, match="the samples are others"):
        train(pets, tmp_path, resume=True)
