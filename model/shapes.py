"""The shapes of the variables of a pre-training model."""

import dataclasses
import functools

from beambert.model.config import EncoderConfig
from beambert.model.families.table import family_of
from beambert.model.objectives import RTD
from beambert.model.pretrainer import BertPretrainer
from beambert.model.replaced_tokens import ReplacedTokenHead

# Sizes of a small model. All differ, so that a shape shows which size is in it.
_SMALL = {
    "vocab_size": 101,
    "hidden_size": 14,
    "intermediate_size": 103,
    "max_position_embeddings": 107,
    "type_vocab_size": 109,
    "embedding_size": 11,
    "position_buckets": 113,
}


@functools.cache
def variable_shapes(config: EncoderConfig) -> dict[str, tuple[int, ...]]:
    """Returns the paths of all variables of a pre-training model with their shapes.

    The model has the heads of the family's first objective; that of ELECTRA has the masked-LM head
    of a generator, too.
    """
    # A small model has the same variables. Its second layer represents all further ones.
    names = {field.name for field in dataclasses.fields(config)} & _SMALL.keys()
    small = dataclasses.replace(
        config,
        **{name: _SMALL[name] for name in names},
        num_hidden_layers=min(config.num_hidden_layers, 2),
        num_attention_heads=1,
        **({"pad_token_id": 0} if hasattr(config, "pad_token_id") else {}),
    )
    if config.embedding_width == config.hidden_size and not config.projects_embeddings:
        small, names = _as_wide(small), names - {"embedding_size"}
    sizes = {getattr(small, name): getattr(config, name) for name in names}
    # Some variables are side by side in one array.
    sizes |= {3 * small.hidden_size: 3 * config.hidden_size}
    sizes |= {2 * small.intermediate_size: 2 * config.intermediate_size}
    if "position_buckets" in names:
        # There are buckets to both sides.
        sizes |= {2 * small.position_buckets: 2 * config.position_buckets}
    shapes = {}
    for path, shape in _shapes(small).items():
        shape = tuple(sizes.get(size, size) for size in shape)
        shapes[path] = shape
        if "/layer_1/" in path:
            further = range(2, config.num_hidden_layers)
            shapes |= {path.replace("/layer_1/", f"/layer_{index}/"): shape for index in further}
    return shapes


def _as_wide(config: EncoderConfig) -> EncoderConfig:
    """Returns a configuration whose embeddings are as wide as its layers."""
    if not hasattr(config, "embedding_size"):
        return config
    return dataclasses.replace(config, embedding_size=config.hidden_size)


def _shapes(config: EncoderConfig) -> dict[str, tuple[int, ...]]:
    objectives = family_of(config).objectives
    model = BertPretrainer(config, objective=next(name for name in objectives if name != RTD))
    variables = list(model.variables)
    if objectives[0] == RTD:
        head = ReplacedTokenHead(config, seed=0)
        head.build()
        variables += head.variables
    return {variable.path: tuple(variable.shape) for variable in variables}
