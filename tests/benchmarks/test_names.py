"""What the benchmark of names reads of annotated trees, and what it counts."""

import pytest

from beambert.pipelines.text import scrubbing
from benchmarks import filters, names


def tree(text: str, rows: str) -> str:
    """Rows "number word part-of-speech MISC" as a tree."""
    made = [f"# text = {text}"]
    for row in rows.strip().split("\n"):
        number, word, part, misc = row.split()
        made.append("\t".join([number, word, "_", part, *"_" * 5, misc]))
    return "\n".join(made) + "\n\n"


CONTENT = (
    "# newdoc id = one\n"
    + tree(
        "Dr. Ann Lee saw her in Leeds.",
        """1 Dr. PROPN Entity=(4-person-new-nnnnn-cf2-1,2-coref
2 Ann PROPN _
3 Lee PROPN Entity=4)
4 saw VERB _
5 her PRON Entity=(5-person-giv-nnnnn-cf2-1-ana)
6 in ADP _
7 Leeds PROPN Entity=(6-place-new-nnnnn-cf5-1-coref-Leeds)|SpaceAfter=No
8 . PUNCT _""",
    )
    + tree(
        "They don't like Leeds Town.",
        """1 They PRON Entity=(7-person-giv-nnnnn-cf1-1-ana)
2-3 don't _ _
2 do AUX _
3 n't PART _
4 like VERB _
5 Leeds PROPN Entity=(8-organization-new-nnnnn-cf5-1-coref(6-place-giv-nnnnn-cf5-1-coref-Leeds)
6 Town PROPN Entity=8)|SpaceAfter=No
7 . PUNCT _""",
    )
    + "# newdoc id = two\n"
    + tree("Yes.", "1 Yes INTJ SpaceAfter=No\n2 . PUNCT _")
)


def test_names_of_trees():
    one, two = names.read_documents(CONTENT)
    assert one.text == "Dr. Ann Lee saw her in Leeds.\nThey don't like Leeds Town.\n"
    found = [
        (name.type, one.text[name.start : name.end], one.text[name.last : name.end])
        for name in one.names
    ]
    assert found == [
        ("person", "Dr. Ann Lee", "Lee"),
        ("place", "Leeds", "Leeds"),
        ("place", "Leeds", "Leeds"),
        ("organization", "Leeds Town", "Town"),
    ]
    words = [one.text[start:end] for start, end in one.proper_nouns]
    assert words == ["Dr.", "Ann", "Lee", "Leeds", "Leeds", "Town"]
    assert two.text == "Yes.\n" and not two.names


def test_what_is_hidden(monkeypatch):
    def stand_in(text, asked, model):
        spans = [(text.find(word), word, name) for word, name in told.items() if word in text]
        return sorted(((at, at + len(word)), name) for at, word, name in spans)

    told = {"Ann Lee": "person", "Leeds Town": "location", "They": "person"}
    monkeypatch.setattr(scrubbing, "recognize", stand_in)
    found = names.measure([*names.read_documents(CONTENT)], "m")
    assert found["names"] == {
        "person": {"number": 1, "hidden": 0.0, "last_word_hidden": 1.0},
        "place": {"number": 2, "hidden": 0.5, "last_word_hidden": 0.5},
        "organization": {"number": 1, "hidden": 1.0, "last_word_hidden": 1.0},
    }
    assert found["replaced"] == {
        "location": {"number": 1, "without_a_proper_noun": 0.0},
        "person": {"number": 2, "without_a_proper_noun": 0.5},
    }


@pytest.mark.parametrize(
    "text, rows, expected",
    [
        ("She left.", "1 She PRON 2 nsubj\n2 left VERB 0 root\n3 . PUNCT 2 punct", True),
        ("She left", "1 She PRON 2 nsubj\n2 left VERB 0 root", False),
        ("It is late.)", "1 It PRON 3 nsubj\n2 is AUX 3 cop\n3 late ADJ 0 root", True),
        ("Chapter One.", "1 Chapter NOUN 0 root\n2 One NUM 1 nummod\n3 . PUNCT 1 punct", False),
    ],
)
def test_whole_sentences(text, rows, expected):
    made = [f"# text = {text}"]
    for number, word, part, head, relation in map(str.split, rows.split("\n")):
        made.append("\t".join([number, word, "_", part, "_", "_", head, relation, "_", "_"]))
    assert filters.is_whole("\n".join(made)) is expected
