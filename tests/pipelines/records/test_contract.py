"""The vocabulary file and info.json as readers rely on them."""

import hashlib

import pytest

from beambert.errors import InputError
from beambert.pipelines.records.contract import RecordsInfo, shard_name
from beambert.pipelines.tokenizers.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXT = b"".join(f"{token}\n".encode() for token in (*SPECIAL_TOKENS, "the", "##s"))


class TestVocabulary:
    @pytest.mark.parametrize(
        "data", [TEXT, TEXT[:-1], TEXT.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + TEXT]
    )
    def test_parse(self, data):
        vocabulary = Vocabulary.parse(data, "v")
        assert vocabulary.tokens == (*SPECIAL_TOKENS, "the", "##s")
        assert (len(vocabulary), vocabulary.id_of("the")) == (7, 5)
        assert vocabulary.serialize() == TEXT
        assert vocabulary.sha256 == hashlib.sha256(TEXT).hexdigest()

    def test_only_line_feeds_end_tokens(self):
        tokens = ("\u2028", "\x85", "\u3000x", "\x1c")
        vocabulary = Vocabulary.parse(TEXT + "".join(f"{t}\n" for t in tokens).encode(), "v")
        assert vocabulary.tokens[7:] == tokens

    @pytest.mark.parametrize("token", SPECIAL_TOKENS)
    def test_missing_special_token(self, token):
        with pytest.raises(InputError, match=rf"my\.txt: .*lacks \[{token[1:-1]}\]"):
            Vocabulary.parse(TEXT.replace(f"{token}\n".encode(), b""), "my.txt")

    def test_the_last_of_two_lines_counts(self):
        """As in the original's load_vocab; no other id moves."""
        vocabulary = Vocabulary.parse(TEXT + b"the\nlast\n", "my.txt")
        count = TEXT.count(b"\n")
        assert (vocabulary.id_of("the"), vocabulary.id_of("last")) == (count, count + 1)

    def test_not_utf8(self):
        with pytest.raises(InputError, match=r"my\.txt: .*not UTF-8"):
            Vocabulary.parse(TEXT + b"caf\xe9\n", "my.txt")

    def test_case(self, shared_data):
        for name, lower in (("uncased", True), ("cased", False)):
            path = shared_data / "vocab" / f"bert-base-{name}-vocab.txt"
            vocabulary = Vocabulary.parse(path.read_bytes(), path.name)
            vocabulary.check_case(lower)
            with pytest.raises(InputError, match=f"--do_lower_case={lower}"):
                vocabulary.check_case(not lower)

    def test_caseless_vocabularies_go_with_both(self):
        vocabulary = Vocabulary((*SPECIAL_TOKENS, "中", "文", "1"))
        vocabulary.check_case(True)
        vocabulary.check_case(False)


class TestRecordsInfo:
    INFO = RecordsInfo({"max_seq_length": 8}, {"size": 7}, [], [], {"é": 1}, {"python": "3"})

    def test_round_trip(self):
        assert RecordsInfo.from_json(self.INFO.to_json(), "info.json") == self.INFO

    @pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format_version": 1}', "\x00"])
    def test_something_else(self, text):
        with pytest.raises(InputError, match="x/info.json: not the info.json"):
            RecordsInfo.from_json(text, "x/info.json")

    def test_later_format(self):
        text = self.INFO.to_json().replace('"format_version": 1', '"format_version": 2')
        with pytest.raises(InputError, match="has the format 2, not 1"):
            RecordsInfo.from_json(text, "info.json")


def test_shard_names_sort_by_number():
    names = [shard_name(i, 12) for i in range(12)]
    assert names == sorted(names) and names[-1] == "part-00011-of-00012.tfrecord"


@pytest.mark.parametrize(
    ("sources", "passes"),
    [
        ({}, 3),
        ({"wiki/*": {"documents": 2}, "books/*": {"documents": 5}}, 3),
        ({"wiki": {"passes": 0.5}, "books": {"passes": 7.25}}, 8),
    ],
)
def test_passes_over_the_source_that_is_gone_over_most(sources, passes):
    info = RecordsInfo({"dupe_factor": 3}, {}, [], [], {"sources": sources}, {})
    assert info.passes == passes
    assert RecordsInfo({}, {}, [], [], {}, {}).passes is None
