"""Questions, and what the original's code makes of some."""

import json
import pathlib

from beambert.pipelines.tasks.squad import Answer, Question

GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "squad.json").read_text())


def write(folder: pathlib.Path, content, mark: bytes = b"") -> pathlib.Path:
    path = folder / "dev.json"
    path.write_bytes(mark + json.dumps(content).encode())
    return path


def ask(context: str, *answers: tuple[str, int], question: str = "which river") -> Question:
    found = tuple(Answer(text, start) for text, start in answers)
    return Question(f"{len(context)}", question, context, found, not answers)
