"""Damaged folders of models, for the commands that read them."""

import shutil

from benchmarks.attack import mutators
from benchmarks.attack.trials import Family, Trial


def _attempt(trial: Trial) -> str:
    generator = trial.generator
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


FAMILY = Family("models", 0.02, _attempt)
