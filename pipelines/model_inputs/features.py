"""Model inputs without padding, in columns."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from beambert.pipelines.model_inputs.windows import Windows

# Label of tokens without a label; the loss leaves these tokens out.
NO_LABEL = -1


@dataclasses.dataclass(frozen=True)
class TaskFeatures:
    """The sequences of a task's examples; the sequences of one example follow each other.

    Attributes:
      input_ids: int32 [tokens], ids of all sequences end to end.
      segment_ids: int32 [tokens], 0 for the first and 1 for the second segment.
      lengths: int64 [sequences], number of tokens in each sequence.
      targets: name -> array with a row for each example (`label_ids`, `start_positions`,
        `end_positions`).
      token_targets: name -> array with a row for each token (`label_ids` of a tagging task).
      choices: number of sequences of an example; 1 except for a choice.
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
        """Number of tokens in each example's longest sequence, int64 [examples]."""
        return self.lengths.reshape(-1, self.choices).max(axis=1)


@dataclasses.dataclass(frozen=True)
class MadeInputs:
    """The features of some examples, with counts.

    Attributes:
      features: features of the examples.
      owners: int64 [records], index of the example that each record belongs to.
      lost_tokens: number of sequences that lost tokens; for windows, only tokens of the question
        count.
      counts: name -> further counts.
    """

    features: TaskFeatures
    owners: np.ndarray
    lost_tokens: int
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)


def span_features(windows: Windows) -> TaskFeatures:
    """Returns the features of windows; each window counts as an example."""
    targets = {
        "start_positions": windows.start_positions.astype(np.int32),
        "end_positions": windows.end_positions.astype(np.int32),
    }
    return TaskFeatures(windows.input_ids, windows.segment_ids, windows.lengths, targets, {})


# The inputs of every signature that takes ids, and the further one of a tagging.
ID_INPUTS = ("input_ids", "input_mask", "segment_ids")
FIRST_PIECES = "first_pieces"
# The signature of a SQuAD model that takes windows.
WINDOWS_SIGNATURE = "windows"
