"""Damaged files of tasks of every kind, for `features`."""

import shutil

from benchmarks.attack import mutators
from benchmarks.attack.trials import Family, Trial


def _attempt(trial: Trial) -> str:
    generator = trial.generator
    folder = generator.choice(sorted((trial.material / "tasks").iterdir()))
    own = trial.folder / "task"
    shutil.copytree(folder, own)
    path = generator.choice(sorted(own.iterdir()))
    if path.suffix == ".json":
        _, content = mutators.damage_json(generator, path.read_bytes())
    else:
        _, content = mutators.damage(generator, path.read_bytes(), is_text=True)
    path.write_bytes(content)
    flags = [
        f"--task={folder.name}",
        f"--data_dir={own}",
        f"--vocab_file={trial.material}/vocab.txt",
    ]
    flags += ["--max_seq_length=24", f"--output={trial.folder}/features"]
    if generator.random() < 0.4:
        flags.append("--skip_bad_rows")
    return "used" if trial.call("features", *flags).status == 0 else "refused"


FAMILY = Family("tables", 0.10, _attempt)
