"""Browsing record files by offsets."""

import dataclasses
import pathlib
import shutil

import pytest
from support import record_files

from beambert import storage
from beambert.explore import records
from beambert.explore.material import Material
from beambert.explore.records import Filter, RecordFile


def labelled(count, start=0):
    """Records whose first predicted id tells their number."""
    return [
        record_files.changed(masked_lm_ids={0: 11 + (start + i) % 20}, next_sentence_labels=[i % 2])
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    return [record_files.write(folder / f"{n}.tfrecord", labelled(700, n)) for n in range(2)]


def test_any_record_is_read_by_its_number(files):
    expected = record_files.read(files[0])
    file = RecordFile(files[0])
    assert file.read(650, 3) == expected[650:653]
    assert file.read(3, 2) == expected[3:5]
    assert file.read(698, 10) == expected[698:]
    assert file.read(700, 1) == file.read(10**6, 1) == []


def test_held_out_records_of_each_source_are_folders_of_the_page(folders, tmp_path):
    """`beambert data --source` leaves them in eval/NAME."""
    records = shutil.copytree(folders / "records", tmp_path / "records")
    for name in ("books", "wiki"):
        shutil.copytree(folders / "records", records / "eval" / name)
    found = Material(str(records)).browsers()
    paths = [str(records), *(f"{records}/eval/{name}" for name in ("books", "wiki"))]
    assert sorted(found) == paths
    assert sorted(storage.short_names(paths, "--records")) == ["books", "records", "wiki"]
    for browser, _ in found.values():
        assert len(browser.search(Filter(), (0, 0), 3).records) == 3


def test_a_file_that_shrinks_meanwhile_ends_earlier(tmp_path):
    path = record_files.write(tmp_path / "a", labelled(50))
    file = RecordFile(path)
    assert len(file.read(40, 5)) == 5
    whole = (tmp_path / "a").stat().st_size
    with open(path, "r+b") as opened:
        opened.truncate(whole * 20 // 50)  # all are of one size
    assert file.read(40, 5) == [] and len(file.read(10, 20)) == 10


def test_gzip_and_empty_files(tmp_path):
    path = record_files.write(tmp_path / "a.tfrecord.gz", labelled(40))
    assert len(RecordFile(path).read(30, 20)) == 10
    (tmp_path / "empty.tfrecord").touch()
    assert RecordFile(str(tmp_path / "empty.tfrecord")).read(0, 5) == []


def test_pages_follow_each_other_through_all_files(files, browse):
    browser, at, numbers = browse(*files), (0, 0), []
    while at is not None:
        found = browser.search(Filter(), at, 100)
        numbers += [(record.path, record.number) for record in found.records]
        at = found.then
    assert numbers == [(path, number + 1) for path in files for number in range(700)]


def test_filters(files, browse, vocabulary):
    browser = browse(*files)
    nexts = browser.search(Filter(is_next=True), (0, 0), 4).records
    assert [record.number for record in nexts] == [1, 3, 5, 7]
    assert browser.search(Filter(least=10), (0, 0), 1).records == []
    assert browser.search(Filter(least=9, most=9), (0, 0), 1).records[0].number == 1
    assert browser.search(Filter(has_unknown=True), (0, 0), 1).records == []
    word = vocabulary.tokens[15]
    (found,) = browser.search(Filter(text=word.upper()), (0, 0), 1).records
    assert 15 in [label for _, label in found.predictions] + list(found.ids)


def test_a_search_that_finds_nothing_stops_in_between(files, browse, monkeypatch):
    monkeypatch.setattr(records, "SECONDS_A_SEARCH", 0.0)
    found = browse(*files).search(Filter(text="no such words"), (0, 0), 5)
    assert found.then == (0, 0) and found.looked_at == 0
    monkeypatch.setattr(records, "SECONDS_A_SEARCH", 60.0)
    found = browse(*files).search(Filter(text="no such words"), (0, 0), 5)
    assert (found.then, found.looked_at) == (None, 1400)


def test_damage_is_told_and_passed_over(tmp_path, files, browse):
    damaged = tmp_path / "damaged.tfrecord"
    data = bytearray(pathlib.Path(files[0]).read_bytes())
    data[200] ^= 1
    damaged.write_bytes(data)
    found = browse(damaged, files[1]).search(Filter(), (0, 0), 5)
    assert "damaged" in found.damage and found.then == (1, 0)


def test_records_of_another_shape_are_left_out(tmp_path, browse):
    wrong = record_files.changed(input_ids=[1, 2])
    path = record_files.write(tmp_path / "a", [wrong, *labelled(2), wrong, *labelled(1)])
    found = browse(path).search(Filter(), (0, 0), 9)
    assert [record.number for record in found.records] == [2, 3, 5]


def test_records_without_a_label(tmp_path, browse):
    """They fit any label, and neither of the two."""
    path = record_files.write(tmp_path / "a", [record_files.PACKED] * 3)
    browser = browse(path)
    names = {name: name for name in record_files.PACKED}
    browser.features = dataclasses.replace(browser.features, names=names)
    found = browser.search(Filter(), (0, 0), 9).records
    assert [record.is_next for record in found] == [None] * 3
    for label in (True, False):
        assert browser.search(Filter(is_next=label), (0, 0), 9).records == []


def test_a_large_file_is_not_read_whole(tmp_path, browse):
    """It is a hole behind its first records; walking through it would take minutes."""
    path = record_files.write(tmp_path / "a", labelled(300))
    with open(path, "r+b") as file:
        file.truncate(100 << 30)
    browser = browse(path)
    assert len(browser.search(Filter(), (0, 0), 5).records) == 5
    assert len(browser.files[0]._starts) == 1
