"""Words and tags of files of columns, CoNLL-U among them."""

import pathlib

import pytest

from beambert.pipelines.tasks.tables import BadRow
from beambert.pipelines.tasks.tagging import TaggedExample, Tagging, sentences_of

# The example of universaldependencies.org, "CoNLL-U Format", with the marks of its other sections.
TREES = """# sent_id = 1
# text = They buy and sell books.
1\tThey\tthey\tPRON\tPRP\tCase=Nom|Number=Plur\t2\tnsubj\t2:nsubj|4:nsubj\t_
2\tbuy\tbuy\tVERB\tVBP\tNumber=Plur\t0\troot\t0:root\t_
2.1\tand\tand\tCCONJ\tCC\t_\t_\t_\t4:cc\t_
3\t#\tsell\tVERB\tVBP\t_\t2\tconj\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t2:punct\t_

1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
"""


def read(text):
    return list(sentences_of(pathlib.Path("a"), text, None))


@pytest.mark.parametrize("before", ["", "\n \n", "# global.columns = ID\n"])
def test_words_and_parts_of_speech_of_trees(before):
    (_, first), (line, second) = read(before + TREES)
    assert first.words == ("They", "buy", "#", ".")
    assert first.tags == ("PRON", "VERB", "VERB", "PUNCT")
    assert (second.words, second.tags) == (("vamos", "nos"), ("VERB", "PRON"))
    assert line == before.count("\n") + 10


def test_a_damaged_line_of_a_tree_is_bad():
    lines = TREES.split("\n")
    (_, bad), (_, second) = read("\n".join([*lines[:3], "2 buy", *lines[4:]]))
    assert isinstance(bad, BadRow) and "line 4: needs 10 columns but has 2" in str(bad)
    assert second.tags == ("VERB", "PRON")


def test_other_columns_are_the_first_and_the_last():
    ((_, sentence),) = read("1\tB-NUM\n# O\n2\tO\n")
    assert (sentence.words, sentence.tags) == (("1", "#", "2"), ("B-NUM", "O", "O"))


def test_mistakes_of_words_count_wrong_tags():
    """Tags other than O, B-type and I-type form no entities."""
    example = TaggedExample(("a", "river", "ends"), ("DET", "NOUN", "VERB"))
    found = Tagging.mistake({"predicted_tags": [b"DET", b"NOUN", b"NOUN"]}, example)
    assert (found.expected, found.predicted, found.weight) == ("ends (VERB)", "ends (NOUN)", 1.0)
    assert not Tagging.mistake({"predicted_tags": [b"DET", b"NOUN", b"VERB"]}, example).weight
