"""Finds persons, places and the like, which no rule tells, with presidio and a model of spaCy's.

presidio-analyzer (MIT) joins the named entities of the model with patterns, sums of digits and
words of context, such as those of social security numbers. Its entities have names in capitals;
here they are in small letters, so that PERSON is `person` and US_SSN is `us_ssn`. Nothing is
fetched: the model must be there.
"""

import functools
import hashlib
import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beambert.errors import InputError

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine
    from spacy.language import Language

# The entities of presidio that rules of `scrubbing` find, by the name of the rule.
RULES = {
    "url": "url",
    "email_address": "email",
    "iban_code": "iban",
    "credit_card": "card",
    "ip_address": "ip",
    "phone_number": "phone",
}
# Least score of what is replaced: that which presidio gives a weak pattern beside a word of its
# context (min_score_with_context_similarity of its LemmaContextAwareEnhancer). Names have 0.85.
LEAST_SCORE = 0.4
# Labels of spaCy's models that presidio's own table lacks; they are those of its conf/spacy.yaml.
_MORE_LABELS = {"FAC": "LOCATION", "ORGANIZATION": "ORGANIZATION"}
# Number of characters that are looked at in one go. The memory of a model grows with it.
PIECE_CHARACTERS = 10_000
# Components of which nothing depends that is asked for. They take a quarter of the time.
_NEEDLESS = ("parser", "senter")

Span = tuple[int, int]


def check_recognition(names: Sequence[str], model: str) -> None:
    """Refuses names that nothing finds, and models that cannot be used.

    Args:
      names: names of presidio's entities, in small letters.
      model: name of an installed package of spaCy's models, or path of the folder of one.

    Raises:
      InputError: there is one, or a package is missing.
    """
    for name in names:
        if name in RULES:
            raise InputError(f"--scrub={name}: is a rule of its own; write {RULES[name]}")
    engine, language = _engine(model)
    known = sorted(
        {entity.lower() for entity in engine.get_supported_entities(language)} - {*RULES}
    )
    for name in names:
        if name not in known:
            raise InputError(
                f"--scrub={name}: neither a rule nor --scrub_model={model} finds it; this model "
                f"and presidio have {', '.join(known)}"
            )


def describe_model(model: str) -> dict[str, str]:
    """Returns name, version and SHA-256 of a model, which `check_recognition` takes.

    The checksum is that of the names and contents of all its files.
    """
    language = _language(model)
    checksum = hashlib.sha256()
    for path in sorted(language.path.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            checksum.update(f"{path.relative_to(language.path)} {content}\n".encode())
    meta = language.meta
    return {
        "name": f"{meta['lang']}_{meta['name']}",
        "version": meta["version"],
        "sha256": checksum.hexdigest(),
    }


def recognize(text: str, names: Sequence[str], model: str) -> list[tuple[Span, str]]:
    """Returns the places of what is found in a text, with their names, in their order.

    Places that overlap become one, of the name with the greatest score, so that nothing that was
    found stays.

    Args:
      text: a document.
      names, model: what `check_recognition` takes.
    """
    engine, language = _engine(model)
    entities = [name.upper() for name in names]
    found: list[tuple[Span, str]] = []
    for start, end in pieces(text):
        results = engine.analyze(
            text[start:end], language, entities=entities, score_threshold=LEAST_SCORE
        )
        of_piece = [
            ((result.start, result.end), result.score, result.entity_type.lower())
            for result in results
        ]
        found += [((start + a, start + b), name) for (a, b), name in joined(of_piece)]
    return found


def joined(found: Sequence[tuple[Span, float, str]]) -> list[tuple[Span, str]]:
    """Returns places that don't overlap, of places with scores and names that may.

    Args:
      found: place, score and name of each.
    """
    groups: list[list[tuple[Span, float, str]]] = []
    end = -1
    for one in sorted(found):
        if one[0][0] >= end:
            groups.append([])
        groups[-1].append(one)
        end = max(end, one[0][1])
    result = []
    for group in groups:
        span = group[0][0][0], max(each[0][1] for each in group)
        best = max(group, key=lambda each: (each[1], each[0][1] - each[0][0], each[2]))
        result.append((span, best[2]))
    return result


def pieces(text: str, most: int = PIECE_CHARACTERS) -> Iterator[Span]:
    """Yields the places of the parts of a text: whole lines, or whole words of a long line.

    Args:
      text: a document.
      most: greatest number of characters of a part.
    """
    start = 0
    while len(text) - start > most:
        window = text[start : start + most]
        cut = max(window.rfind("\n"), 0) or max(window.rfind(" "), 0) or most
        yield start, start + cut
        start += cut
    if start < len(text):
        yield start, len(text)


def resolved(model: str) -> str:
    """Returns the absolute path of a model's folder, for workers; a package's name as it is."""
    path = pathlib.Path(model)
    return str(path.resolve()) if model and path.is_dir() else model


@functools.cache
def _language(model: str) -> "Language":
    """Returns a model of spaCy's, with the components that are needed.

    Raises:
      InputError: it is not there, cannot be loaded, or finds no names; or a package is missing.
    """
    try:
        import spacy
    except ImportError as error:
        raise _missing() from error
    is_folder = pathlib.Path(model).is_dir()
    if not is_folder and not spacy.util.is_package(model):
        raise InputError(
            f"--scrub_model={model}: no model of spaCy's is installed under that name, nor is "
            "there such a folder; install one, as with `python -m spacy download en_core_web_sm`"
        )
    try:
        return spacy.load(pathlib.Path(model) if is_folder else model, exclude=_NEEDLESS)
    except Exception as error:  # whatever the model's own code raises
        raise InputError(
            f"--scrub_model={model}: cannot be loaded by spaCy {spacy.__version__} ({error}); "
            "take a model of that version"
        ) from error


@functools.cache
def _engine(model: str) -> tuple["AnalyzerEngine", str]:
    """Returns presidio's engine on a model, and the code of the model's language.

    Raises:
      InputError: see `_language`; or the model finds no names.
    """
    nlp = _language(model)
    try:
        from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
        from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
    except ImportError as error:
        raise _missing() from error
    # It tells at length which recognizers other languages would have.
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
    labels = {
        label
        for component in nlp.pipe_names
        if "doc.ents" in nlp.get_pipe_meta(component).assigns
        for label in nlp.pipe_labels.get(component, ())
    }
    usual: Mapping[str, Any] = NerModelConfiguration().model_to_presidio_entity_mapping
    entities = {name: each for name, each in {**usual, **_MORE_LABELS}.items() if name in labels}
    if not entities:
        raise InputError(
            f"--scrub_model={model}: finds no names of persons or places; take a model with a "
            "component such as ner"
        )
    configuration = NerModelConfiguration(
        model_to_presidio_entity_mapping=entities, labels_to_ignore=sorted(labels - {*entities})
    )
    # Given a name alone, the engine would fetch the model.
    engine = SpacyNlpEngine([{"lang_code": nlp.lang, "model_name": model}], configuration)
    engine.nlp = {nlp.lang: nlp}
    registry = RecognizerRegistry(supported_languages=[nlp.lang])
    registry.load_predefined_recognizers(languages=[nlp.lang], nlp_engine=engine)
    analyzer = AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[nlp.lang])
    return analyzer, nlp.lang


def _missing() -> InputError:
    return InputError(
        "--scrub_model: needs the package presidio-analyzer; install it with "
        "`pip install 'beambert[recognizer]'`, also for workers elsewhere"
    )
