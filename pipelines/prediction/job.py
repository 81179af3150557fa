"""The parameters of a prediction."""

import dataclasses

from beambert.job_fields import settle_fields

# What a text of a plain text file is.
LINE, FILE = "line", "file"


@dataclasses.dataclass(frozen=True)
class PredictionJob:
    """The texts to answer and the model.

    Attributes:
      model: folder that `beambert finetune` finished.
      input: patterns of the files to read; empty if a pipeline provides the texts.
      output: folder to make; empty if a pipeline takes the answers.
      text_columns: columns of the texts in tables; None for those that the model was trained on.
      encoding: encodings of the files, see `corpus.encodings.parse_encodings`.
      unit: `LINE` if each line of a plain text file is a text, `FILE` if the whole file is one.
      trust_model: whether the model's graph may do anything, see `storage.known_graphs`.
    """

    model: str
    input: tuple[str, ...] = ()
    output: str = ""
    text_columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    unit: str = LINE
    trust_model: bool = False

    def __post_init__(self) -> None:
        """Takes single values and paths."""
        settle_fields(self)
