"""`beambert verify`: finished records -> figures, faults and warnings, with Apache Beam."""

import functools
from collections.abc import Sequence

from beambert.config import read_settings, settings_parser
from beambert.pipelines.running import BEAM_HELP, beam_options
from beambert.pipelines.verification.job import OUTPUT_ENDING, VerificationJob
from beambert.process import loading

STATUS_OF_FAULTS = 1

EXAMPLES = f"""examples:
  # a records folder with its held-out records; the report goes to records{OUTPUT_ENDING}
  beambert verify records

  # records of the original script, Model Garden or keras-hub
  beambert verify --vocab_file=vocab.txt --output=report 'bert/tf_examples.tfrecord*'

exit status: 0 no faults, perhaps warnings; 1 faults; 2 nothing could be verified
"""


build_parser = functools.partial(
    settings_parser,
    VerificationJob,
    "verify",
    "Reads finished pre-training records, whoever made them, and reports figures, faults that make "
    "them unusable, and warnings of common mistakes.",
    EXAMPLES + "\n" + BEAM_HELP,
)


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: an input or the output cannot be used.
      SystemExit: the records have faults; its status is 1.
    """
    parser = build_parser()
    flags, beam_flags = parser.parse_known_args(argv)
    job = read_settings(VerificationJob, flags)
    with loading():
        options = beam_options(beam_flags, parser.flags)
        from beambert.pipelines.verification.run import verify_records
    if verify_records(job, options)["faults"]:
        raise SystemExit(STATUS_OF_FAULTS)
