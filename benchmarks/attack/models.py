"""Damaged folders of models, for the commands that read them, and odd texts, for `predict`."""

import os
import shutil

from benchmarks.attack import mutators
from benchmarks.attack.trials import Family, Trial


def _attempt(trial: Trial) -> str:
    generator = trial.generator
    if generator.random() < 0.3:
        return _odd_texts(trial)
    kind = generator.choice(("encoder", "classifier", "classifier"))
    model = trial.folder / kind
    shutil.copytree(trial.material / kind, model)
    files = sorted(p for p in model.rglob("*") if p.is_file() and "tensorboard" not in p.parts)
    path = generator.choice([p for p in files if "checkpoints" not in p.parts])
    if generator.random() < 0.08:
        path.unlink()
    elif path.suffix == ".json" or path.name == "_SUCCESS":
        path.write_bytes(mutators.damage_json(generator, path.read_bytes())[1])
    else:
        is_text = path.suffix in (".txt", ".jsonl")
        path.write_bytes(mutators.damage(generator, path.read_bytes(), is_text)[1])
    output = f"--output={trial.folder}/output"
    (trial.folder / "texts.txt").write_text("a river\nan old song\n")
    command = {
        "predict": ["predict", f"--model={model}", f"--input={trial.folder}/texts.txt", output],
        "export": ["export", f"--model={model}", output],
        "compare": ["compare", model, trial.material / kind, output],
        "finetune": [
            *("finetune", "--task=classification", f"--init={model}"),
            *(f"--data_dir={trial.folder}/missing", f"--model_dir={trial.folder}/output"),
        ],
    }
    names = ["compare", "export", "finetune"] + (["predict"] * 2 if kind == "classifier" else [])
    return "used" if trial.call(*command[generator.choice(names)]).status == 0 else "refused"


def _odd_texts(trial: Trial) -> str:
    """Gives texts that are damaged, or no regular file, to a sound model."""
    generator = trial.generator
    name, content = generator.choice(
        (
            ("texts.txt", b"a river\nan old song\n"),
            ("texts.jsonl", b'{"text": "a river"}\n{"text": "an old song"}\n'),
            ("texts.csv", b'text,id\n"a river",1\nan old song,2\n'),
        )
    )
    ending = generator.choice(("", "", ".gz", ".bz2", ".zst"))
    path = trial.folder / f"{name}{ending}"
    way = generator.random()
    if way < 0.1:
        os.mkfifo(path)
    elif way < 0.2:
        path.symlink_to(generator.choice(("/dev/zero", "/dev/urandom", path, trial.folder)))
    elif way < 0.6:
        _, content = mutators.damage(generator, content, is_text=True)
        path.write_bytes(mutators.compress(ending, content))
    else:
        content = mutators.compress(ending, content)
        path.write_bytes(mutators.damage(generator, content, is_text=True)[1])
    flags = [f"--model={trial.material}/classifier", f"--input={path}"]
    flags.append(f"--output={trial.folder}/output")
    return "answered" if trial.call("predict", *flags).status == 0 else "refused"


FAMILY = Family("models", 0.03, _attempt)
