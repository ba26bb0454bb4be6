import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mirror import Mirror, serving
from trees import SMALL, contents, locked, pacs_files, plant, small_pacs, tarred, zipped

from riskmatch.data.fetch import FetchError
from riskmatch.data.images.benchmark import BENCHMARKS, Download, Origin, load_index
from riskmatch.data.images.get import get_benchmark

PACS = BENCHMARKS["pacs"]

DATA = os.environ.get("RISKMATCH_DATA")
PACKED = tarred(pacs_files("kfold/"), "w:gz")
SHA256 = "sha256:" + hashlib.sha256(PACKED).hexdigest()


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    monkeypatch.setattr("riskmatch.data.fetch.TIMEOUT", 0.3)
    return tmp_path / "cache" / "riskmatch"


def origin(url, name="small.tar.gz", checksum=None):
    return Origin((Download(name, (f"{url}/{name}",), checksum),))


def get(*origins, folder=None, **options):
    return get_benchmark(small_pacs(*origins), folder, **options)


def assert_whole(folder):
    """The folder holds the images, and only a lock file is beside it."""
    assert contents(folder) == pacs_files()
    beside = {path.name for path in folder.parent.iterdir()} - {f".{folder.name}.lock"}
    assert beside == {folder.name}


@pytest.mark.parametrize("checksum", [None, SHA256], ids=["unverified", "verified"])
def test_archive_is_downloaded_unpacked_verified_and_removed(cache, checksum):
    seen = []
    with serving(Mirror({"small.tar.gz": PACKED})) as (url,):
        folder = get(origin(url, checksum=checksum), on_progress=lambda *call: seen.append(call))
        assert folder == cache / "pacs"
    assert_whole(folder)
    size = len(PACKED)
    last = {task: (done, total) for task, done, total in seen}
    assert list(last) == ["small.tar.gz", "verifying small.tar.gz", "unpacking small.tar.gz"]
    assert last["small.tar.gz"] == last["unpacking small.tar.gz"] == (size, size)
    index = load_index(small_pacs())
    assert {name: sum(row.values()) for name, row in index.counts().items()} == SMALL


def test_complete_benchmark_is_not_downloaded_again(tmp_path):
    folder = plant(tmp_path / "data" / "PACS", pacs_files())
    assert get(folder=folder) == folder


def test_benchmark_in_riskmatch_data_is_used(tmp_path, monkeypatch):
    folder = plant(tmp_path / "data" / "PACS", pacs_files())
    monkeypatch.setenv("RISKMATCH_DATA", str(folder.parent))
    assert get() == folder


def test_folder_with_other_images_is_unchanged(tmp_path):
    folder = plant(tmp_path / "pacs", pacs_files() | {"photo/dog/more.jpg": b""})
    before = contents(folder)
    with pytest.raises(ValueError, match=r"differs from PACS .*photo has 3 images, not 2\."):
        get(folder=folder)
    assert contents(folder) == before


def test_folder_with_some_domains_is_unchanged(tmp_path):
    folder = plant(tmp_path / "pacs", {"photo/dog/1.jpg": b"", "sketch/dog/1.jpg": b""})
    with pytest.raises(
        ValueError, match=r"lacks art_painting, cartoon: complete it, or move it aw"
    ):
        get(folder=folder)
    assert len(contents(folder)) == 2


@pytest.mark.parametrize(
    "fault",
    [{"stop_after": 100}, {"stop_after": 100, "stall": True}, {"damage": True}],
    ids=["truncated", "stalled", "corrupt"],
)
def test_next_url_continues_after_a_failure(cache, fault):
    bad = Mirror({"small.tar.gz": PACKED}, ranges=False, **fault)
    good = Mirror({"small.tar.gz": PACKED})
    with serving(bad, good) as (first, second):
        urls = (f"{first}/small.tar.gz", f"{second}/small.tar.gz")
        folder = get(Origin((Download("small.tar.gz", urls, SHA256),)))
    assert_whole(folder)
    assert good.sent == len(PACKED) - (0 if "damage" in fault else 100)


def test_next_call_continues_the_download(cache):
    broken = Mirror({"small.tar.gz": PACKED}, ranges=False, stop_after=100)
    with serving(broken) as (url,), pytest.raises(FetchError, match="ended after 100 of"):
        get(origin(url, checksum=SHA256))
    assert not (cache / "pacs").exists()
    good = Mirror({"small.tar.gz": PACKED})
    with serving(good) as (url,):
        assert_whole(get(origin(url, checksum=SHA256)))
    assert good.asked == [("small.tar.gz", "bytes=100-")]
    assert not (cache / "pacs.download").exists()


def test_other_files_in_the_folder_of_a_download_stay(cache):
    (cache / "pacs.download").mkdir(parents=True)
    (cache / "pacs.download/notes.txt").write_text("mine")
    with serving(Mirror({"small.tar.gz": PACKED})) as (url,):
        assert contents(get(origin(url, checksum=SHA256))) == pacs_files()
    assert [path.name for path in (cache / "pacs.download").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<html>Quota exceeded</html>", "a web page, not the file"),
        (PACKED[:-40], "is damaged: "),
        (PACKED[:-8] + bytes(4) + PACKED[-4:], "is damaged: CRC check failed"),
        (locked(zipped(pacs_files())), "cannot be unpacked: "),
        (tarred({"else/a/1.jpg": b""}), "no folders art_painting/dog/<image> (likewise cartoon"),
        (tarred(pacs_files() | {"photo/dog/x.jpg": b""}), "photo has 3 images, not 2"),
        (tarred(pacs_files() | {"../x.jpg": b""}), "unsafe to unpack: '../x.jpg' is a path out"),
    ],
    ids=["page", "cut", "flipped", "locked", "other", "drifted", "hostile"],
)
def test_next_origin_is_used_after_a_bad_one(cache, content, reason):
    wrong, good = Mirror({"wrong.tar.gz": content}), Mirror({"small.zip": zipped(pacs_files())})
    with serving(wrong, good) as (first, second):
        bad = origin(first, "wrong.tar.gz")
        with pytest.raises(FetchError, match=re.escape(reason)):
            get(bad)
        assert list(cache.rglob("*.gz")) == []  # or the next call would use it again
        assert not (cache / "pacs").exists()
        assert_whole(get(bad, origin(second, "small.zip")))


def test_other_counts_with_valid_checksums_give_a_warning(cache):
    content = tarred(pacs_files() | {"photo/dog/x.jpg": b""})
    checksum = "sha256:" + hashlib.sha256(content).hexdigest()
    with (
        serving(Mirror({"small.tar.gz": content})) as (url,),
        pytest.warns(UserWarning, match=r"PACS: photo has 3 images, not 2\. The files have their"),
    ):
        folder = get(origin(url, checksum=checksum))
    assert len(contents(folder)) == len(pacs_files()) + 1


def test_given_mirrors_replace_the_urls(cache):
    with serving(Mirror({"small.tar.gz": PACKED})) as (url,):
        assert_whole(get(origin("http://127.0.0.1:9"), mirrors=[url]))


@pytest.mark.parametrize("name", ["PACS.tar.gz", "pacs.tgz", "kfold.tar"])
@pytest.mark.parametrize("place", ["data", "data/pacs", "set"])
def test_local_archive_is_unpacked_and_kept(tmp_path, monkeypatch, name, place):
    monkeypatch.setenv("RISKMATCH_DATA", str(tmp_path / "set"))
    archive = plant(tmp_path / place, {name: PACKED}) / name
    folder = get(folder=tmp_path / "data" / "pacs")
    archive_kept = contents(tmp_path / "data").pop(f"pacs/{name}", PACKED)
    found = {path: content for path, content in contents(folder).items() if path != name}
    assert (found, archive_kept) == (pacs_files(), PACKED)
    assert archive.exists()


def test_local_file_of_an_origin_is_not_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("RISKMATCH_DATA", str(plant(tmp_path / "set", {"small.tar.gz": PACKED})))
    assert_whole(get(origin("http://127.0.0.1:9", checksum=SHA256)))


def test_damaged_local_file_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("RISKMATCH_DATA", str(plant(tmp_path / "set", {"small.tar.gz": b"half"})))
    with serving(Mirror({"small.tar.gz": PACKED})) as (url,):
        assert_whole(get(origin(url, checksum=SHA256)))


def test_error_says_which_files_to_place_where(cache, tmp_path):
    with serving(Mirror({})) as (url,), pytest.raises(FetchError) as caught:
        get(origin(url), origin(url, "b.zip"), folder=tmp_path / "data" / "pacs")
    message = str(caught.value)
    assert message.startswith(f"Could not get PACS. Tried: {url}/small.tar.gz (404 Not Found); ")
    assert (
        f"place in {tmp_path}/data an archive of the images called pacs.tar, .tar.gz or .zip"
        in message
    )
    assert "or the files small.tar.gz; or b.zip; " in message
    assert (
        f"the images as {tmp_path}/data/pacs/art_painting/dog/<image> (likewise cartoon" in message
    )
    assert "\n" not in message
    assert {path.suffix for path in (tmp_path / "data").iterdir()} <= {".lock"}


def test_origin_with_missing_package_is_skipped_with_the_cure(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    needy = Origin((Download("x.parquet", ("http://127.0.0.1:9/x",)),), "parquet")
    with pytest.raises(FetchError, match=r"it needs pyarrow: pip install 'riskmatch\[parquet\]'"):
        get(needy)


def test_next_process_waits_and_removes_files_of_a_killed_one(cache):
    archive = plant(cache, {"pacs.tar.gz": PACKED}) / "pacs.tar.gz"
    command = [sys.executable, str(Path(__file__).with_name("unpack_forever.py")), str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        begun = process.stdout.readline()
        assert (cache / ".pacs.unpacking" / "half.jpg").exists()
        seen = []

        def waiting(*call):
            seen.append(call)
            process.kill()

        folder = get(on_progress=waiting)
    assert begun == "unpacking\n"
    assert seen[0] == ("waiting for another process", 0, None)
    archive.unlink()
    assert_whole(folder)


@pytest.mark.needs_data
def test_pacs_is_unpacked_from_its_archive_offline(cache, monkeypatch):
    if not DATA or not Path(DATA, "PACS.tar").is_file():
        pytest.skip("needs PACS.tar in $RISKMATCH_DATA")
    monkeypatch.setenv("RISKMATCH_DATA", DATA)
    folder = get_benchmark(PACS, mirrors=["http://127.0.0.1:9"])
    assert folder == cache / "pacs"
    assert len(load_index(PACS)) == 9_991
