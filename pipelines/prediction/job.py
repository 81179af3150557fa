"""The parameters of a prediction."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class PredictionJob:
    """The texts to answer and the model.

    Attributes:
      model: folder that `beambert finetune` finished.
      input: patterns of the files to read; empty if a pipeline provides the texts.
      output: folder to make; empty if a pipeline takes the answers.
      text_columns: columns of the texts in tables; None for those that the model was trained on.
    """

    model: str
    input: tuple[str, ...] = ()
    output: str = ""
    text_columns: tuple[str, ...] | None = None
