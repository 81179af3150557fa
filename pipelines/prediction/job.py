"""What a prediction is asked for."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class PredictionJob:
    """Texts to answer.

    Attributes:
      model: a folder that `beambert finetune` finished.
      input: patterns of the files to read; none where a pipeline gives the texts.
      output: folder to make; none where a pipeline takes the answers.
      text_columns: columns of tables; None for those that the model was trained on.
    """

    model: str
    input: tuple[str, ...] = ()
    output: str = ""
    text_columns: tuple[str, ...] | None = None
