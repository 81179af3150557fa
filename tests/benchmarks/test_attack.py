"""The campaign's own judgement: it notices each kind of fault and repeats an attempt exactly."""

import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from beambert.pipelines.corpus import formats
from benchmarks.attack import __main__ as campaign
from benchmarks.attack import corpora, material, mutators, pages, trials, workers
from benchmarks.attack.trials import Ended, Family, FoundError

ROOT = pathlib.Path(__file__).parents[2]


def test_the_generator_decides_the_damage():
    data = b'{"a": [1, "two"], "b": {"c": null}}\n' * 3
    for function in (mutators.damage, mutators.bomb, mutators.damage_json):
        arguments = {mutators.bomb: ".gz", mutators.damage_json: data.splitlines()[0]}
        argument = arguments.get(function, data)
        found = {repr(function(random.Random(seed), argument)) for seed in (1, 1)}
        assert len(found) == 1
    changed = [mutators.damage(random.Random(seed), data)[1] != data for seed in range(50)]
    assert sum(changed) > 40


@pytest.mark.parametrize(
    ("page", "is_found"),
    [
        ("<p title='&lt;attack-er&gt;'>&lt;attack-er></p>", False),
        ("<p><attack-er></p>", True),
        ('<p title="a" onattack="1">', True),
        ("<script>var a = '</script><attack-er>'</script>", True),
    ],
)
def test_a_foreign_element(page, is_found):
    assert bool(pages.foreign_element(page)) == is_found


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (2, "beambert data: --input=x: is a folder; name its files\n", None),
        (2, "beambert data: two\nlines\n", "no sentence"),
        (2, "", "no sentence"),
        (2, f"beambert data: a.tsv: has no column {'x' * 9999}\n", "long sentence"),
        (1, "", "status"),
        (0, "Traceback (most recent call last):\n", "traceback"),
        (0, "", None),
    ],
)
def test_how_a_command_may_end(status, error, kind):
    ended = Ended(["data"], status, "", error)
    if kind is None:
        assert trials.judged(ended) is ended
        return
    with pytest.raises(FoundError) as found:
        trials.judged(ended)
    assert found.value.kind == kind


def attempt(trial):
    """One attempt of each kind; the number stands in the name of the folder."""
    number = int(trial.folder.name.rpartition("-")[2])
    if number == 1:
        time.sleep(60)
    elif number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    elif number == 3:
        much = b"a" * workers.MOST_BYTES
        time.sleep(60 + len(much))
    elif number == 4:
        (trial.folder / "_tmp-1").write_text("left")
    elif number == 5:
        raise FoundError("injection", "<attack-er>")
    return "refused"


@pytest.mark.slow
def test_every_fault_is_seen_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "MOST_BYTES", workers._peak("self") + (100 << 20))
    family = Family("plain", 1.0, attempt)
    found = list(workers.run(family, [0, *range(2, 8)], 2, 0, (tmp_path, tmp_path / "kept")))
    outcomes = {result.number: result.outcome for result in found}
    assert outcomes == {
        **{0: "refused", 2: "died", 3: "memory", 4: "leftovers", 5: "injection"},
        **{6: "refused", 7: "refused"},
    }
    assert {result.number for result in found if result.is_fault} == {2, 3, 4, 5}
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert kept == {f"plain-{number}" for number in (2, 3, 4, 5)}


def test_an_attempt_that_waits_for_ever_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "MOST_SECONDS", 0.5)
    family = Family("plain", 1.0, attempt)
    (found,) = workers.run(family, [1], 1, 0, (tmp_path, tmp_path / "kept"))
    assert (found.outcome, found.is_fault) == ("hang", True)


def test_the_summary_tells_why_commands_refused():
    result = workers.Result("plain", 0, "refused", False, "", 0.5, 1 << 20)
    said = [(f"beambert data: --format={n}: choose one of a, b",) for n in ("x", "y")]
    results = [dataclasses.replace(result, refusals=refusals) for refusals in said]
    used = dataclasses.replace(result, outcome="used")
    found = campaign._summary([*results, used])
    assert found["refusals"] == {"beambert data: --format_ choose one of a, b": 2}
    assert found["percent"] == {"refused": 67, "used": 33}


def test_each_sound_corpus_is_recognised():
    """Otherwise a file would be refused whatever its damage is."""
    found = material.corpora(random.Random(0))
    assert found.keys() == corpora.OWN.keys()
    for name, content in found.items():
        assert formats.recognise(content, path=name).name == corpora.OWN[name]
    assert set(corpora.OWN.values()) <= set(formats.CHOICES)


@pytest.mark.release
def test_a_small_campaign(tmp_path):
    """The commands themselves, with what each family gives them."""
    for family, attempts in (("flags", 8), ("corpora", 3), ("retraining", 4)):
        flags = [f"--only={family}", f"--attempts={attempts}", f"--keep={tmp_path / 'kept'}"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.attack", *flags],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["result"]["attempts"] == attempts
    assert not list((tmp_path / "kept").iterdir())
