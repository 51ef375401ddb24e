"""The cache of judges' replies: what is found again, what counts as missing, and whose folder it is."""

import errno
import multiprocessing
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.rewards.judges.cache import Cache

PROMPTS = "a" * 64
MESSAGES = [{"role": "user", "content": "which?"}]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", PROMPTS)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("cache/*/*") if path.is_file())


def test_a_reply_is_found_by_what_was_asked_also_by_a_later_run(cache: Cache, tmp_path: Path) -> None:
    key = cache.key("m", {"temperature": 0.0}, MESSAGES)
    assert cache.get(key) is None
    cache.put(key, "first")
    later = Cache(tmp_path / "cache", PROMPTS)
    assert later.get(later.key("m", {"temperature": 0.0}, MESSAGES)) == "first"
    assert [path.name for path in entries(tmp_path)] == [f"{key}.json"]


@settings(max_examples=30, deadline=None)
@given(text=st.text(st.characters(), max_size=40))  # halves of surrogate pairs as well
def test_any_text_comes_back_as_it_was(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = Cache(tmp_path_factory.mktemp("cache"), PROMPTS)
    key = cache.key("m", {}, [{"role": "user", "content": text}])
    cache.put(key, text)
    assert cache.get(key) == text


def test_the_key_depends_on_prompts_model_parameters_and_texts(tmp_path: Path) -> None:
    one, other = Cache(tmp_path / "one", PROMPTS), Cache(tmp_path / "other", "b" * 64)
    keys = [
        one.key("m", {"a": 1, "b": 2}, MESSAGES),
        other.key("m", {"a": 1, "b": 2}, MESSAGES),
        one.key("n", {"a": 1, "b": 2}, MESSAGES),
        one.key("m", {"a": 1, "b": 3}, MESSAGES),
        one.key("m", {"a": 1, "b": 2}, [*MESSAGES, *MESSAGES]),
    ]
    assert len(set(keys)) == 5
    assert one.key("m", {"b": 2, "a": 1}, MESSAGES) == keys[0]


def test_the_first_reply_under_a_key_stays(cache: Cache) -> None:
    key = cache.key("m", {}, MESSAGES)
    cache.put(key, "first")
    cache.put(key, "second")
    assert cache.get(key) == "first"


@pytest.mark.parametrize("damage", [b"", b'{"key": "', b"[]", b"\xff", b"[" * 100_000, b'{"key": "x", "reply": "y"}'])
def test_a_damaged_entry_counts_as_missing_and_is_written_anew(cache: Cache, tmp_path: Path, damage: bytes) -> None:
    key = cache.key("m", {}, MESSAGES)
    cache.put(key, "first")
    (path,) = entries(tmp_path)
    path.write_bytes(damage)
    assert cache.get(key) is None
    cache.put(key, "again")
    assert cache.get(key) == "again" and entries(tmp_path) == [path]


def test_a_folder_of_other_prompts_is_refused(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"other judge prompts \(a{12}, now b{12}\): name another folder"):
        Cache(tmp_path / "cache", "b" * 64)


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"prompts": 1}'])
def test_a_folder_that_does_not_say_its_prompts_is_refused(cache: Cache, tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "cache" / "cache.json").write_bytes(damage)
    with pytest.raises(ValueError, match=r"cache\.json is damaged: delete"):
        Cache(tmp_path / "cache", PROMPTS)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot hold a cache"):
        Cache(tmp_path / "file", PROMPTS)


def failing_link(number: int) -> Any:
    def link(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    return link


def test_a_full_disk_switches_the_cache_off_with_one_warning(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing_link(errno.ENOSPC))
    with pytest.warns(UserWarning, match="is off from here on: .*No space left"):
        cache.put("ab1", "text")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("ab2", "text")
    assert cache.get("ab1") is None and cache.get("ab2") is None
    assert entries(tmp_path) == []  # no part of one either


def test_a_file_system_without_links_will_do(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing_link(errno.EPERM))
    cache.put("ab1", "text")
    assert cache.get("ab1") == "text"


def write_and_read(folder: Path, mine: str) -> list[str | None]:
    cache, keys = Cache(folder, PROMPTS), [f"ab{number}" for number in range(100)]
    for key in keys:
        cache.put(key, mine)
    return [cache.get(key) for key in keys]


def test_processes_that_share_a_folder_read_the_same_replies(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(3) as pool:
        read = pool.starmap(write_and_read, [(tmp_path / "shared", mine) for mine in "xyz"], chunksize=1)
    assert read[0] == read[1] == read[2] and set(read[0]) <= set("xyz")
