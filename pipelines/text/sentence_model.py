"""Sentences that a SaT model finds: Segment any Text (Frohmann et al. 2024, arXiv 2406.16678).

The model runs by the package wtpsplit-lite, on the CPU. It needs no marks at the ends of sentences.
"""

import dataclasses
import functools
import hashlib
import mmap
import os
from typing import Any

from beambert import io
from beambert.errors import InputError
from beambert.process import needs

# Files of a model's folder that decide the sentences. Those at Hugging Face lack the tokenizer,
# which is XLM-R's.
_CONFIG_FILE, _TOKENIZER_FILE = "config.json", "tokenizer.json"
FILES = ("model_optimized.onnx", _CONFIG_FILE, _TOKENIZER_FILE)
# Number of tokens from one of the model's windows of 510 to the next. With half a window, two of
# them see each token; with the package's default, 64, eight do, in four times the time.
_STRIDE = 256
# How a graph begins to name a file that has weights, which no hash here would cover.
_NAMES_FILE = b"\x08location\x12"


@dataclasses.dataclass(frozen=True)
class SentenceModel:
    """A model that finds sentences.

    Attributes:
      path: its folder, which all workers can read.
      sha256: hash of its `FILES`.
      threshold: probability from which on a token ends a sentence.
    """

    path: str
    sha256: str
    threshold: float

    @classmethod
    def of(cls, path: str) -> "SentenceModel":
        """Returns the model in a folder, which has split a sentence.

        Raises:
          InputError: the package or a file is missing, or it is not such a model.
        """
        if missing := [name for name in FILES if not io.exists(f"{path}/{name}")]:
            raise InputError(
                f"--sentence_model={path}: has no {', '.join(missing)}; name a folder with "
                f"{' and '.join(FILES[:2])} of a SaT model, such as segment-any-text/sat-3l-sm at "
                f"Hugging Face, and {_TOKENIZER_FILE} of FacebookAI/xlm-roberta-base"
            )
        try:
            config = io.parse_object(io.read_bytes(f"{path}/{_CONFIG_FILE}"))
            model = cls(io.absolute(path), _sha256(path), _threshold(config))
            model.split("One sentence. Another one.")
        except InputError:
            raise
        except Exception as error:  # The libraries of models and tokenizers raise all kinds.
            raise InputError(
                f"--sentence_model={path}: is not a SaT model that can be run ({error}); copy it "
                "again"
            ) from error
        return model

    def split(self, text: str) -> list[str]:
        """Returns the sentences of paragraphs, of which none goes on over a line's end.

        Each document has calls of its own: in a batch with others, a last digit of its
        probabilities would depend on their lengths.
        """
        # The tokenizer takes no half of a surrogate pair, which broken JSON may have.
        known = text.encode("utf-8", "replace").decode()
        parts = [known]
        # Without a letter or digit there may be no token, which the package does not expect.
        if any(map(str.isalnum, known)):
            parts = _load(self).split(known, threshold=self.threshold, stride=_STRIDE)
        sentences: list[str] = []
        start = 0
        for part in parts:
            found = text[start : start + len(part)]
            start += len(part)
            sentences += filter(None, map(str.strip, found.split("\n")))
        return sentences

    def to_json(self) -> dict[str, Any]:
        """Returns what decides the sentences, for info.json."""
        return {"sha256": self.sha256, "threshold": self.threshold}


def _threshold(config: dict[str, Any]) -> float:
    """Returns wtpsplit's default threshold for a model, which it takes from the model's name.

    The models sat-…-sm have one label, the others one for each mark besides; those without limited
    lookahead have none in their configuration.
    """
    if config.get("model_type") != "xlm-token" or not config.get("id2label"):
        raise ValueError(f"{_CONFIG_FILE} has no model_type xlm-token with id2label")
    if len(config["id2label"]) == 1:
        return 0.25
    return 0.025 if config.get("lookahead") else 0.01


def _sha256(folder: str) -> str:
    found = "".join(io.sha256_of(f"{folder}/{name}") for name in FILES)
    return hashlib.sha256(found.encode()).hexdigest()


@functools.lru_cache(1)
def _load(model: SentenceModel) -> Any:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    with needs("--sentences=sat", "wtpsplit-lite", "sat"):
        import onnxruntime
        from wtpsplit_lite import SaT
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1  # There is a worker for each core.
    left_out = set(io.list_folder(model.path)) - set(FILES)
    with io.local_copy(model.path, left_out) as folder:
        if _sha256(folder) != model.sha256:
            raise InputError(
                f"--sentence_model={model.path}: was changed while the job ran; wait until nothing "
                "writes to it, then give the command again"
            )
        with (
            open(f"{folder}/{FILES[0]}", "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as graph,
        ):
            if graph.find(_NAMES_FILE) >= 0:
                raise InputError(
                    f"--sentence_model={model.path}: {FILES[0]} has weights in other files; save "
                    "it as one"
                )
        return SaT(
            folder,
            folder,
            ort_providers=["CPUExecutionProvider"],
            ort_kwargs={"sess_options": settings},
        )
