"""Damaged configurations, manifests and files of a workspace, for `retrain`."""

import json
import math
import tomllib
from typing import Any

from benchmarks.attack import mutators
from benchmarks.attack.material import RETRAINING
from benchmarks.attack.trials import Family, Trial


def _attempt(trial: Trial) -> str:
    generator, root = trial.generator, trial.folder
    for name in ("vocab.txt", "bert_config.json"):
        (root / name).symlink_to(trial.material / name)
    (root / "task").symlink_to(trial.material / "tasks" / "classification")
    text = root / "text"
    text.mkdir()
    for path in (trial.material / "text").iterdir():
        (text / path.name).write_bytes(path.read_bytes())
    values = {"data": "", "learning_rate": 3e-3, "epochs": 2}
    more = f'manifests = ["{root}/text/*.manifest.json"]\nleast = 0.5'
    config = RETRAINING.format(root=root, more=more, **values).encode()
    run = {
        **{"path": f"{root}/workspace/runs/000001", "new_files": 1, "since": [], "encoder": None},
        **{"records": [f"{root}/workspace/runs/000001/records"], "served": None},
    }
    result = {"outcome": "published", "version": 1, "reasons": ["good"], "finished": "2026-01-01"}
    files = {"run.json": json.dumps(run).encode(), "result.json": json.dumps(result).encode()}
    if generator.random() < 0.5:
        del files["result.json"]
    target = generator.choice(("config", "config", "config", "manifest", "run"))
    if target == "config":
        if generator.random() < 0.4:
            config = mutators.damage(generator, config, is_text=True)[1]
        else:
            value = tomllib.loads(config.decode())
            for _ in range(generator.choice((1, 1, 2))):
                value = mutators.damage_value(generator, value)
            try:
                config = toml(value).encode("utf-8", "replace")
            except RecursionError:  # a damaged value is in very many lists
                config = b"value = " + b"[" * 10_000
    elif target == "manifest":
        path = text / "1.manifest.json"
        path.write_bytes(mutators.damage_json(generator, path.read_bytes())[1])
    else:
        name = generator.choice(list(files))
        files[name] = mutators.damage_json(generator, files[name])[1]
    (root / "retrain.toml").write_bytes(config)
    if target == "run" or generator.random() < 0.3:
        folder = root / "workspace" / "runs" / "000001"
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    how = generator.choice(("--dry_run", "--dry_run", "--step=plan", "--step=serving"))
    ended = trial.call("retrain", f"--config={root}/retrain.toml", how)
    return "planned" if ended.status == 0 else "refused"


def toml(value: Any) -> str:
    """Returns TOML of a table, with None left out."""
    if not isinstance(value, dict):
        return f"value = {_inline(value)}\n"
    return "".join(
        f"{_key(name)} = {_inline(each)}\n" for name, each in value.items() if each is not None
    )


def _inline(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{_key(n)} = {_inline(v)}" for n, v in value.items() if v is not None)
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_inline(each) for each in value if each is not None) + "]"
    return json.dumps(value) if isinstance(value, str) else str(value)


def _key(name: str) -> str:
    return json.dumps(str(name))


FAMILY = Family("retraining", 0.31, _attempt)
