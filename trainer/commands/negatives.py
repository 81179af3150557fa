"""The command `beambert negatives`."""

import dataclasses
import functools
from collections.abc import Sequence

from beambert.config import check_settings, read_settings, setting, settings_parser
from beambert.console import counted
from beambert.errors import InputError
from beambert.pipelines.tasks.declarations import find_task
from beambert.pipelines.tasks.reading import split_path
from beambert.pipelines.tasks.task import EMBEDDING, TRAIN
from beambert.process import loading
from beambert.storage import check_folder
from beambert.trainer.weights.given_path import check_weights

EXAMPLES = """examples:
  # learn from pairs; index the passages by what was learnt; learn from its mistakes
  beambert finetune --task=embedding --data_dir=pairs --init=encoder --model_dir=embedder
  beambert embed --model=embedder --input=passages.jsonl --output=embeddings
  beambert index --embeddings=embeddings --output=index
  beambert negatives --data_dir=pairs --index=index --model=embedder --output=harder-pairs
  beambert finetune --task=embedding --data_dir=harder-pairs --init=embedder --model_dir=better

The output has the train file of --data_dir as train.jsonl, with the columns negative_1, negative_2
and so on, and copies of the dev and test files. Of the 100 passages that are nearest to a query,
those are no negatives that it must find in any pair, that contain such a text or are part of it,
and whose cosine is more than 0.95 of the right text's, which may be right as well. Where too few
are left, others are drawn at random, and counted.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HardNegatives:
    """The settings of `negatives`."""

    data_dir: str = setting(metavar="DIR", help="folder of the pairs: train, dev, test")
    index: str = setting(metavar="DIR", help="folder that `beambert index` finished")
    model: str = setting(metavar="DIR", help="model that made the index")
    output: str = setting(metavar="DIR", help="folder to make")
    hard_negatives: int = setting(
        1, minimum=1, metavar="N", help="number of negatives for each pair"
    )
    text_columns: tuple[str, ...] | None = setting(
        None,
        metavar="A,B",
        parse=lambda text: tuple(text.split(",")),
        help="columns of the query and of the text that it must find (default: text,text_b)",
    )
    prefix: str | None = setting(
        None, help="what is put before each query (default: what was put before the texts)"
    )

    def __post_init__(self) -> None:
        """Checks the values."""
        check_settings(self)
        if self.text_columns and len(self.text_columns) != 2:
            columns = ",".join(self.text_columns)
            raise InputError(f"--text_columns={columns}: must name two columns")


build_parser = functools.partial(
    settings_parser,
    HardNegatives,
    "negatives",
    "Adds hard negatives to pairs: passages that a model mistakes for answers.",
    EXAMPLES,
)


def main(argv: Sequence[str]) -> None:
    """Runs `negatives`.

    Raises:
      InputError: a flag, the model, the index or a file cannot be used.
    """
    flags = read_settings(HardNegatives, build_parser().parse_args(list(argv)))
    task = find_task(EMBEDDING)
    if flags.text_columns:
        task = dataclasses.replace(task, text_columns=flags.text_columns)
    split_path(task, flags.data_dir, TRAIN)
    check_folder(flags.index, f"--index={flags.index}")
    check_weights(flags.model, "--model")
    with loading():
        from beambert.trainer.commands.texts import show_progress
        from beambert.trainer.embedding.embedder import open_embedder
        from beambert.trainer.retrieval.negatives import add_negatives
        from beambert.trainer.retrieval.searching import open_index
    index = open_index(flags.index)
    if index.bm25 is None:
        raise InputError(
            f"--index={flags.index}: has no texts, which the negatives are; embed its passages "
            "with --keep_text=True"
        )
    output = flags.output.rstrip("/")
    found = add_negatives(
        index,
        open_embedder(flags.model),
        task,
        flags.data_dir,
        output,
        flags.hard_negatives,
        flags.prefix,
        show_progress("texts"),
    )
    if found is None:
        print(f"{output}: already finished by the same command, nothing to do")
        return
    total = len(found.negatives) * flags.hard_negatives
    drawn = f", of which {found.drawn:,} were drawn at random" if found.drawn else ""
    pairs = counted(len(found.negatives), "pair")
    print(f"{output}: {counted(total, 'negative')} for {pairs}{drawn}")
