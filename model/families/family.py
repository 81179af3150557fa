"""The base class of the families of encoders, which describes BERT.

A family is described without Keras; its methods load the network when they are called.
"""

import dataclasses
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from beambert.model.checkpoint_names import hugging_face_name
from beambert.model.config import BERT_SIZES, BertConfig, EncoderConfig
from beambert.model.objectives import BERT, COPY, GENERATOR_SIZE, MLM, OBJECTIVES, RTD, SOP

# Width of an attention head of the generator (`get_generator_config` of the original).
_HEAD_WIDTH = 64


def generator_config(config: EncoderConfig, size: float) -> EncoderConfig:
    """Returns the configuration of the generator: as many layers, narrower ones.

    The embeddings are the discriminator's; only the layers have the generator's width
    (`get_generator_config` of the original's run_pretraining.py).

    Args:
      config: configuration of the discriminator.
      size: width of the generator as a share of the discriminator's.

    Raises:
      ValueError: no generator has that size.
    """
    width = round(config.hidden_size * size)
    return dataclasses.replace(
        config,
        hidden_size=width,
        intermediate_size=4 * width,
        num_attention_heads=max(1, width // _HEAD_WIDTH),
    )


# Endings of the names of Hugging Face's classes.
PRE_TRAINING, MASKED_LM = "ForPreTraining", "ForMaskedLM"
SEQUENCE_CLASSIFICATION, MULTIPLE_CHOICE = "ForSequenceClassification", "ForMultipleChoice"
TOKEN_CLASSIFICATION, QUESTION_ANSWERING = "ForTokenClassification", "ForQuestionAnswering"
ENCODER = "Model"

# A pattern of a name of `hugging_face_name` -> its replacement; None leaves the variable out.
Names = Mapping[str, str | None]


def without_pooler(family: str) -> dict[str, Names]:
    """Returns the `task_names` of the classes that read single tokens, and so have no pooler."""
    no_pooler = {rf"{family}\.pooler\.": None}
    return {
        TOKEN_CLASSIFICATION: no_pooler,
        QUESTION_ANSWERING: no_pooler | {r"classifier\.": "qa_outputs."},
    }


class Family:
    """A family of encoders.

    Attributes:
      title: name for sentences.
      config: class of its configurations.
      objectives: objectives of pre-training that its model can learn by; the first has most heads.
      sizes: name of a size -> the values of its configuration.
      encoder_class, head_class: module of `model` and name of the classes of its encoder and of its
        masked-LM head, which are loaded when they are used.
      class_prefix: beginning of the names of its classes of `transformers`.
      pretraining_classes: objective -> ending of the name of the class with its heads.
      model_prefix: beginning of the names of the encoder's variables there.
      names: how its variables are called there, where it isn't as in BERT; the first pattern that
        matches the beginning of a name counts.
      task_names: ending of the name of a class -> the same for its variables; these come first.
      generator_size: usual size of a generator of replaced token detection, see `generator_config`.
      discriminator_class: name of the class of `transformers` of a discriminator.
      detection_head: paths of the head of replaced token detection, where `variable_shapes` doesn't
        have it.
    """

    title: ClassVar[str] = "BERT"
    config: ClassVar[type[EncoderConfig]] = BertConfig
    sizes: ClassVar[Mapping[str, Mapping[str, int]]] = BERT_SIZES
    encoder_class: ClassVar[tuple[str, str]] = ("encoder", "BertEncoder")
    head_class: ClassVar[tuple[str, str]] = ("pretrainer", "MaskedLMHead")
    objectives: ClassVar[tuple[str, ...]] = OBJECTIVES
    class_prefix: ClassVar[str] = "Bert"
    pretraining_classes: ClassVar[Mapping[str, str]] = {
        BERT: PRE_TRAINING,
        MLM: MASKED_LM,
        # Their heads of two labels have the same form.
        SOP: PRE_TRAINING,
        COPY: PRE_TRAINING,
        RTD: PRE_TRAINING,
    }
    model_prefix: ClassVar[str] = "bert."
    names: ClassVar[Names] = {}
    task_names: ClassVar[Mapping[str, Names]] = without_pooler("bert")
    generator_size: ClassVar[float] = GENERATOR_SIZE
    # A BERT that detects replaced tokens is an ELECTRA to `transformers`.
    discriminator_class: ClassVar[str] = "ElectraForPreTraining"
    detection_head: ClassVar[tuple[str, ...]] = ()
    generator_config = staticmethod(generator_config)

    def sized(self, name: str, vocab_size: int, padding: int) -> Any:
        """Returns the configuration of a size.

        Args:
          name: one of `sizes`.
          vocab_size: number of tokens.
          padding: id of the padding token.
        """
        return self.config(vocab_size, **self.sizes[name])

    def encoder(self, config: Any, seed: int = 0, has_pooler: bool = True) -> Any:
        """Returns an encoder with initial weights, see `BertEncoder`."""
        return _load(self.encoder_class)(config, seed, has_pooler)

    def masked_lm_head(self, config: Any, seed: int) -> Any:
        """Returns the masked-LM head without its variables, see `MaskedLMHead`."""
        return _load(self.head_class)(config, seed)

    def discriminator_name(self, path: str) -> tuple[str, bool] | None:
        """Returns a variable's name in the exported discriminator, see `namer`."""
        if named := self.namer(PRE_TRAINING)(path):
            return re.sub(r"^bert\.", "electra.", named[0]), named[1]
        return None

    def namer(self, class_ending: str) -> Callable[[str], tuple[str, bool] | None]:
        """Returns what names this package's variables as a class of `transformers` does.

        Args:
          class_ending: ending of the name of the class.

        Returns:
          function from a path to its name there and whether to transpose the array, or to None for
          a variable that the class doesn't have.
        """
        rules = [*self.task_names.get(class_ending, {}).items(), *self.names.items()]
        # A class of the encoder alone names its variables without the prefix.
        prefix = self.model_prefix if class_ending == ENCODER else ""

        def name_of(path: str) -> tuple[str, bool] | None:
            if path.startswith("generator"):  # It only trains a discriminator.
                return None
            name, is_transposed = hugging_face_name(path)
            for pattern, replacement in rules:
                if found := re.match(pattern, name):
                    if replacement is None:
                        return None
                    name = found.expand(replacement) + name[found.end() :]
                    break
            return (name.removeprefix(prefix), is_transposed) if name.startswith(prefix) else None

        return name_of


def _load(place: tuple[str, str]) -> Any:
    module, name = place
    return getattr(importlib.import_module(f"beambert.model.{module}"), name)
