"""Model inputs without padding, in columns."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from beambert.pipelines.model_inputs.windows import Windows

# Label of tokens that have none: the loss leaves them out.
NO_LABEL = -1


@dataclasses.dataclass(frozen=True)
class TaskFeatures:
    """The sequences of a task's examples; of a choice, those of an example follow each other.

    Attributes:
      input_ids: int32 [tokens], of all sequences end to end.
      segment_ids: int32 [tokens].
      lengths: int64 [sequences], tokens of each.
      targets: by name, an array with a row for each example (`label_ids`, `start_positions`,
        `end_positions`).
      token_targets: by name, an array with a row for each token (`label_ids` of a tagging task).
      choices: sequences of an example.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray
    lengths: np.ndarray
    targets: Mapping[str, np.ndarray]
    token_targets: Mapping[str, np.ndarray]
    choices: int = 1

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.lengths) // self.choices

    @property
    def example_lengths(self) -> np.ndarray:
        """Tokens of each example's longest sequence, int64 [examples]."""
        return self.lengths.reshape(-1, self.choices).max(axis=1)


@dataclasses.dataclass(frozen=True)
class MadeInputs:
    """What some examples became.

    Attributes:
      features: theirs.
      owners: int64 [records], the example that each record of the features is of.
      lost_tokens: sequences that lost tokens; of questions, those whose question did.
      counts: of what else there is, by name.
    """

    features: TaskFeatures
    owners: np.ndarray
    lost_tokens: int
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)


def span_features(windows: Windows) -> TaskFeatures:
    """Returns what the model sees of windows; each counts as an example."""
    targets = {
        "start_positions": windows.start_positions.astype(np.int32),
        "end_positions": windows.end_positions.astype(np.int32),
    }
    return TaskFeatures(windows.input_ids, windows.segment_ids, windows.lengths, targets, {})
