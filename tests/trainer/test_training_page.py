"""The page of `beambert train`, of a small encoder."""

import html
import json
import re
import shutil

import pytest

from beambert.training import TrainJob
from beambert.training_page import MASKS_SHOWN, Text, make_page


@pytest.fixture(scope="module")
def page(tmp_path_factory, encoder_folder, records_folder) -> str:
    output = tmp_path_factory.mktemp("trained")
    (output / "encoder").symlink_to(encoder_folder)
    shutil.copytree(records_folder, output / "records")
    info = json.loads((output / "records" / "info.json").read_text())
    documents = {"read": 1234, "in_other_split": 14, "dropped": {"short": 3}, "rejected": {}}
    info["counts"] |= {"documents": documents, "sentences": 99, "tokens": 999, "unknown_tokens": 1}
    (output / "records" / "info.json").write_text(json.dumps(info))
    sentences = [f"the river {word} the old city in the north" for word in "abcdefgh"]
    text = Text(3, 2_000_000, ["lines: paragraphs"], ["a.txt: 2 sentences"], sentences)
    steps = {"pre-training": {"line": "beambert pretrain <x>", "seconds": 75.0}}
    job = TrainJob(input=("a.txt",), output=str(output))
    made, summary = make_page(job, text, steps)
    assert "1 min 15 s" in summary
    return made


def rows_of(page: str, title: str) -> list[list[str]]:
    """The cells of the table in a section, as text."""
    body = page[page.index(f"<h2>{title}</h2>") :]
    body = body[: body.index("</table>")]
    rows = re.findall(r"<tr>(.*?)</tr>", body[body.index("<tbody>") :])
    strip = re.compile(r"<[^>]+>")
    return [
        [html.unescape(strip.sub("", cell)) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in rows
    ]


def test_a_page_says_what_was_read_and_how_it_was_made(page):
    read = dict(rows_of(page, "What was read"))
    assert read["documents read"] == "1,234" and read["dropped: short"] == "3"
    assert ["beambert pretrain <x>", "1 min 15 s"] in rows_of(page, "How it was made")
    assert "lines: paragraphs" in page and "<svg" in page


def test_hidden_pieces_are_those_of_the_records(page, records_folder, read_rows):
    tokens = (records_folder / "vocab.txt").read_text().splitlines()
    shown = rows_of(page, "Hidden pieces of held-out text")
    records = read_rows(records_folder / "eval")
    chosen = [records[int(n * max(1, len(records) / MASKS_SHOWN))] for n in range(len(shown))]
    assert [row[1] for row in shown] == [tokens[row["masked_lm_ids"][0]] for row in chosen]
    for _, _, answers in shown:
        shares = [int(share) for share in re.findall(r"(\d+)%", answers)]
        assert len(shares) == 3 and shares == sorted(shares, reverse=True)


def test_the_nearest_of_a_sentence_are_others(page):
    for sentence, nearest in rows_of(page, "Sentences and their nearest"):
        assert len(nearest.splitlines()) == 3 and sentence not in nearest.splitlines()
