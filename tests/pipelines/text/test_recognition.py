"""Names that presidio finds: what is done with its answers, and presidio itself if it is there.

`make test-recognizer` installs it.
"""

import dataclasses
import json
import random

import pytest
from support import data_command
from support.data_command import data, info

from beambert.errors import InputError
from beambert.pipelines.text import scrubbing
from beambert.pipelines.text.scrubbing import check_scrubbing, joined, pieces, scrub

corpus, vocab_file = data_command.corpus, data_command.vocab_file
US = ("US",)


@dataclasses.dataclass
class Result:
    """What presidio's RecognizerResult has."""

    entity_type: str
    start: int
    end: int
    score: float


class StandIn:
    """Finds given words, as presidio's AnalyzerEngine answers."""

    def __init__(self, words: dict[str, tuple[str, float]]):
        self.words, self.texts = words, []

    def get_supported_entities(self, language):
        return ["PERSON", "LOCATION", "US_SSN", "EMAIL_ADDRESS"]

    def analyze(self, text, language, entities=None, score_threshold=None):
        self.texts.append(text)
        found = [
            Result(entity, at, at + len(word), score)
            for word, (entity, score) in self.words.items()
            for at in range(len(text))
            if text.startswith(word, at) and entity in entities and score >= score_threshold
        ]
        return random.Random(1).sample(found, len(found))  # Their order is not defined.


@pytest.fixture
def stand_in(monkeypatch):
    def make(**words):
        engine = StandIn({word.replace("_", " "): one_word for word, one_word in words.items()})
        monkeypatch.setattr(scrubbing, "_engine", lambda model: (engine, "en"))
        return engine

    return make


def test_names_become_placeholders(stand_in):
    stand_in(Ann_Lee=("PERSON", 0.85), Leeds=("LOCATION", 0.85), weak=("PERSON", 0.3))
    text = "Ann Lee of Leeds, ann@example.org, is weak. Ann Lee!"
    found, counts = scrub(text, ("email", "person"), US, "m")
    assert found == "[person] of Leeds, [email], is weak. [person]!"
    assert counts == {"email": 1, "person": 2}
    found, counts = scrub(text, ("person", "location"), US, "m")
    assert found == "[person] of [location], ann@example.org, is weak. [person]!"
    assert counts == {"location": 1, "person": 2}


def test_a_placeholder_has_words(stand_in):
    stand_in(**{"219-09-9999": ("US_SSN", 0.5)})
    assert scrub("It is 219-09-9999.", ("us_ssn",), US, "m")[0] == "It is [us ssn]."


@pytest.mark.parametrize(
    "text, word, expected",
    [
        ("Ann me@x.org Lee came", "Ann [email] Lee", "[person] [email] [person] came"),
        ("Write me@x.org Lee", "email] Lee", "Write [email] [person]"),
        ("Write me@x.org now", "email", "Write [email] now"),
        ("Ann Lee\n\nBob went", "Ann Lee\n\nBob", "[person]\n\n[person] went"),
        ("Ann ( me@x.org", "Ann ( [email]", "[person] [email]"),
    ],
)
def test_placeholders_and_lines_stay(stand_in, text, word, expected):
    stand_in(**{word: ("PERSON", 0.85)})
    assert scrub(text, ("email", "person"), US, "m")[0] == expected


def test_overlapping_places_become_one():
    found = [
        ((0, 10), 0.4, "us_ssn"),
        ((5, 20), 0.85, "person"),
        ((20, 25), 0.85, "location"),
        ((30, 40), 0.85, "date_time"),
        ((32, 34), 0.9, "person"),
    ]
    expected = [((0, 20), "person"), ((20, 25), "location"), ((30, 40), "person")]
    for seed in range(5):
        assert joined(random.Random(seed).sample(found, len(found))) == expected
    assert joined([((0, 4), 0.85, "person"), ((0, 9), 0.85, "location")]) == [((0, 9), "location")]


def test_pieces_are_whole_lines_and_words():
    text = "one two\nthree four five six\n" + 14 * "x" + " y"
    found = [text[start:end] for start, end in pieces(text, 12)]
    assert found == ["one two", "\nthree four", " five six", "\nxxxxxxxxxxx", "xxx y"]
    assert [*pieces("", 5)] == []


def test_places_in_later_pieces(stand_in):
    engine = stand_in(Ann=("PERSON", 0.85))
    text = "\n".join(f"Line {n}, said Ann to all who were there." for n in range(1000))
    found, counts = scrub(text, ("person",), US, "m")
    assert found == text.replace("Ann", "[person]") and counts == {"person": 1000}
    assert len(engine.texts) > 3 and "".join(engine.texts) == text
    assert max(map(len, engine.texts)) <= scrubbing.PIECE_CHARACTERS


@pytest.mark.parametrize(
    "names, model, message",
    [
        (("person",), "", "name a model of spaCy with --scrub_model"),
        (("email",), "m", "--scrub_model=m: has no effect without a name such as person"),
        (("PERSON",), "m", "have location, person, us_ssn"),
    ],
)
def test_what_nothing_finds_is_refused(stand_in, names, model, message):
    stand_in()
    with pytest.raises(InputError) as error:
        check_scrubbing(names, US, model)
    assert message in str(error.value)
    check_scrubbing(("email", "person"), US, "m")


# What the model is taught; it needs no more to tell these names in other sentences.
_SENTENCES = ("{} went to {} by train.", "Did {} ever see {}?", "In the end {} left {} again.")
_PERSONS = ("Ann Lee", "Bob Stone", "Carol Reed", "Daniel Hill")
_PLACES = ("Leeds", "Madrid", "Oslo", "New York")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A spaCy model of a few kilobytes that was trained on some names."""
    pytest.importorskip("presidio_analyzer", reason="not installed (the extra recognizer)")
    spacy = pytest.importorskip("spacy")
    from spacy.training import Example

    spacy.util.fix_random_seed(1)
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = []
    for sentence in _SENTENCES:
        for person in _PERSONS:
            for place in _PLACES:
                text = sentence.format(person, place)
                spans = [(text.index(person), "PERSON", person), (text.index(place), "GPE", place)]
                entities = [(at, at + len(word), label) for at, label, word in spans]
                doc = nlp.make_doc(text)
                examples.append(Example.from_dict(doc, {"entities": entities}))
    for text in ("It was house number 12.", "Her social security number is 12-34.", "It was long."):
        examples += 8 * [Example.from_dict(nlp.make_doc(text), {"entities": []})]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(25):
        nlp.update(examples, sgd=optimizer)
    folder = tmp_path_factory.mktemp("model") / "names"
    nlp.to_disk(folder)
    return str(folder)


def test_presidio_with_a_trained_model(model):
    check_scrubbing(("person", "location", "us_ssn"), US, model)
    text = "Did Carol Reed ever see Oslo? Her social security number is 219-09-9999."
    found, counts = scrub(text, ("person", "location", "us_ssn"), US, model)
    assert found == "Did [person] ever see [location]? Her social security number is [us ssn]."
    assert counts == {"person": 1, "location": 1, "us_ssn": 1}


def test_the_command_counts_names(model, capsys, tmp_path, vocab_file):
    texts = [f"In the end Ann Lee left Leeds again. It was house number {n}." for n in range(20)]
    path = tmp_path / "text.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    flags = [f"--input={path}", "--scrub=person,location", f"--scrub_model={model}"]
    told = "replaced: location 20, person 20"
    status, printed, error = data(capsys, vocab_file, tmp_path / "out", *flags, "--dry_run")
    assert status == 0 and told in printed + error
    status, printed, error = data(capsys, vocab_file, tmp_path / "out", *flags)
    assert status == 0 and told in printed + error
    of_job = info(tmp_path / "out")
    assert of_job["counts"]["documents"]["scrubbed"] == {"location": 20, "person": 20}
    of_model = of_job["parameters"]["scrub_model"]
    assert of_model["name"] == "en_pipeline" and len(of_model["sha256"]) == 64
    assert "presidio-analyzer" in of_job["versions"]
