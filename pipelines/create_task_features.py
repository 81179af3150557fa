"""`beambert features`: makes features to fine-tune on of the files of a task, with Apache Beam."""

from collections.abc import Sequence

from beambert.config import add_settings, read_settings
from beambert.flags import FlagParser
from beambert.pipelines.running import BEAM_HELP, beam_options
from beambert.pipelines.task_jobs import FeaturesJob
from beambert.pipelines.tasks.flags import TaskSettings, task_of
from beambert.pipelines.tokenizers.folders import TokenizerSettings
from beambert.process import loading

EXAMPLES = f"""examples:
  # GLUE's SST-2, with the vocabulary of the encoder that is to be fine-tuned
  beambert features --task=sst-2 --data_dir=glue/SST-2 --vocab_file=encoder/vocab.txt \\
      --output=sst-2-features

  # SQuAD, on two processes
  beambert features --task=squad2.0 --data_dir=squad --vocab_file=encoder/vocab.txt \\
      --output=squad-features --direct_num_workers=2 --direct_running_mode=multi_processing

`beambert finetune --features=` takes the output folder. {BEAM_HELP}"""


def build_parser() -> FlagParser:
    """Returns the command's flags."""
    parser = FlagParser(
        prog="beambert features",
        description="Makes the features of a task: TFRecords of train, dev and the test files that "
        "exist, with a schema.",
        examples=EXAMPLES,
    )
    add_settings(parser, TaskSettings)
    add_settings(parser, TokenizerSettings)
    add_settings(parser, FeaturesJob)
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag, a file or the output folder cannot be used.
    """
    parser = build_parser()
    flags, beam_flags = parser.parse_known_args(argv)
    job = read_settings(FeaturesJob, flags, task=task_of(flags))
    with loading():
        options = beam_options(beam_flags, parser.flags)
        from beambert.pipelines.features import create_task_features
    create_task_features(job, options)
