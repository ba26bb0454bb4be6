import hashlib
import re
import socket
from functools import partial

import pytest
from mirror import Mirror, serving

from riskmatch.data import fetch as fetch_module
from riskmatch.data.fetch import FetchError, check_digest, fetch, from_mirrors

CONTENT = bytes(k * k % 251 for k in range(300_000))
MD5 = hashlib.md5(CONTENT).hexdigest()
FILES = {"f.bin": CONTENT}


@pytest.fixture(autouse=True)
def short_timeout(monkeypatch):
    monkeypatch.setattr(fetch_module, "TIMEOUT", 0.3)


def get(folder, urls, content=CONTENT, **options):
    check = partial(check_digest, algorithm="sha256", expected=hashlib.sha256(content).hexdigest())
    return fetch(from_mirrors(urls, "f.bin"), "f.bin", folder, check, **options)


def assert_whole(path):
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["f.bin"]


def test_download_reports_progress(tmp_path):
    seen = []
    with serving(Mirror(FILES)) as urls:
        path = get(tmp_path / "new" / "folder", urls, on_progress=lambda *call: seen.append(call))
    assert_whole(path)
    assert seen[0] == ("f.bin", 0, len(CONTENT))
    assert seen[-2:] == [("f.bin", len(CONTENT), len(CONTENT)), ("verifying f.bin", 0, None)]
    assert [done for _, done, _ in seen[:-1]] == sorted(done for _, done, _ in seen[:-1])


def test_missing_file_is_requested_from_the_next_mirror(tmp_path):
    empty, good = Mirror({}), Mirror(FILES)
    with serving(empty, good) as urls:
        assert_whole(get(tmp_path, urls))
    assert len(empty.asked) == len(good.asked) == 1


def test_damaged_file_is_discarded_before_the_next_mirror(tmp_path):
    bad, good = Mirror(FILES, damage=True), Mirror(FILES)
    with serving(bad, good) as urls:
        with pytest.raises(FetchError, match=r"its sha256 is \w+, not \w+"):
            get(tmp_path, urls[:1])
        assert list(tmp_path.iterdir()) == []
        assert_whole(get(tmp_path, urls))
    assert good.asked == [("f.bin", None)]


@pytest.mark.parametrize("stall", [False, True])
def test_download_resumes_at_the_next_mirror(tmp_path, stall):
    short = Mirror(FILES, ranges=False, stop_after=100_000, stall=stall)
    good = Mirror(FILES)
    with serving(short, good) as urls:
        assert_whole(get(tmp_path, urls))
    assert good.asked[-1] == ("f.bin", "bytes=100000-")
    assert good.sent == len(CONTENT) - 100_000


def test_mirror_is_retried_while_it_makes_progress(tmp_path):
    mirror = Mirror(FILES, stop_after=120_000)
    with serving(mirror) as urls:
        assert_whole(get(tmp_path, urls))
    ranges = [wanted for _, wanted in mirror.asked]
    assert ranges == [None, "bytes=120000-", "bytes=240000-"]
    assert mirror.sent == len(CONTENT)


def test_web_page_is_refused_and_received_bytes_are_kept(tmp_path):
    (tmp_path / "f.bin.part").write_bytes(CONTENT[:100_000])
    page = Mirror({"f.bin": b" <!DOCTYPE html><html>Quota exceeded</html>"}, ranges=False)
    good = Mirror(FILES)
    with serving(page, good) as urls:
        with pytest.raises(FetchError, match=r"f\.bin \(a web page, not the file\)"):
            get(tmp_path, urls[:1])
        assert_whole(get(tmp_path, urls))
    assert good.asked == [("f.bin", "bytes=100000-")]


def test_next_call_resumes(tmp_path):
    broken, good = Mirror(FILES, stop_after=100_000, ranges=False), Mirror(FILES)
    with serving(broken, good) as urls:
        with pytest.raises(FetchError, match="ended after 100,000 of 300,000 bytes"):
            get(tmp_path, urls[:1])
        assert [path.name for path in tmp_path.iterdir()] == ["f.bin.part"]
        assert_whole(get(tmp_path, urls[1:]))
    assert good.sent == len(CONTENT) - 100_000


def test_server_without_ranges_starts_again(tmp_path):
    (tmp_path / "f.bin.part").write_bytes(CONTENT[:1000])
    mirror = Mirror(FILES, ranges=False)
    with serving(mirror) as urls:
        assert_whole(get(tmp_path, urls))
    assert mirror.asked == [("f.bin", "bytes=1000-")]


@pytest.mark.parametrize("wrong", [b"something else", b"x" * 400_000])
def test_wrong_bytes_of_an_earlier_call_are_discarded(tmp_path, wrong):
    (tmp_path / "f.bin.part").write_bytes(wrong)
    mirror = Mirror(FILES)
    with serving(mirror) as urls:
        assert_whole(get(tmp_path, urls))
    assert mirror.asked == [("f.bin", f"bytes={len(wrong)}-"), ("f.bin", None)]


def test_complete_part_needs_no_more_bytes(tmp_path):
    (tmp_path / "f.bin.part").write_bytes(CONTENT)
    mirror = Mirror(FILES)
    with serving(mirror) as urls:
        assert_whole(get(tmp_path, urls))
    assert mirror.sent == 0


def test_error_lists_attempts_and_cure(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}"
        silent = Mirror(FILES, stop_after=0, stall=True)
        with serving(Mirror({}), silent) as urls, pytest.raises(FetchError) as caught:
            get(tmp_path, [*urls, closed])
    message = str(caught.value)
    assert f"{urls[0]}/f.bin (404 Not Found); {urls[1]}/f.bin (no data for 0.3 s); " in message
    assert re.search(rf"{closed}/f.bin \(.*refused.*\)", message)
    assert f"place f.bin in {tmp_path}" in message
    assert "\n" not in message


def test_md5_check(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(CONTENT)
    check_digest(path, "md5", MD5)
    path.write_bytes(CONTENT[1:])
    with pytest.raises(ValueError, match=f"its md5 is [0-9a-f]{{32}}, not {MD5}"):
        check_digest(path, "md5", MD5)


def get_from_hub(folder, hub, monkeypatch, path="data/f.bin", **options):
    check = partial(check_digest, algorithm="sha256", expected=hashlib.sha256(CONTENT).hexdigest())
    with serving(hub) as (url,):
        monkeypatch.setenv("HF_ENDPOINT", url.removesuffix("/data"))
        address = f"hf://datasets/o/pets@{'a' * 40}/{path}"
        return fetch([address], "pets.bin", folder, check, **options)


@pytest.mark.parametrize("damage", [False, True])
def test_hub_file_is_downloaded_and_verified(tmp_path, monkeypatch, damage, capfd):
    headers = {"ETag": f'"{MD5}"', "X-Repo-Commit": "a" * 40}
    hub, seen = Mirror(FILES, damage=damage, headers=headers), []
    folder = tmp_path / "new"
    if damage:
        with pytest.raises(FetchError, match=r"o/pets@a+/data/f.bin \(its sha256 is"):
            get_from_hub(folder, hub, monkeypatch)
        assert list(folder.iterdir()) == []
        return
    path = get_from_hub(folder, hub, monkeypatch, on_progress=lambda *call: seen.append(call))
    assert path.read_bytes() == CONTENT
    assert [file.name for file in folder.iterdir()] == ["pets.bin"]
    size = len(CONTENT)
    assert seen[-2:] == [("pets.bin", size, size), ("verifying pets.bin", 0, None)]
    assert capfd.readouterr().err == ""


def test_file_missing_on_the_hub_is_one_line(tmp_path, monkeypatch):
    with pytest.raises(FetchError, match=r"o/pets@a+/gone.bin \(") as caught:
        get_from_hub(tmp_path, Mirror({}), monkeypatch, "gone.bin")
    assert "\n" not in str(caught.value)
