"""A program that makes records by the parts of the data job: DATA OUTPUT FLAGS-OF-BEAM.

The folder DATA has `vocab.txt` and texts, `text_*`.
"""

import os
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import beambert

JOB = {"max_seq_length": (32, 64), "dupe_factor": 2, "num_shards": 5, "eval_fraction": 0.1}


def main(data: str, output: str, *flags: str) -> None:
    """Runs the parts in one pipeline, with a shuffle between some of them."""
    vocab_file = os.path.join(data, "vocab.txt")
    job = beambert.PretrainingDataJob(vocab_file=vocab_file, output=output, **JOB)
    with beam.Pipeline(options=PipelineOptions(list(flags))) as pipeline:
        (
            (pipeline | beambert.ReadDocuments(os.path.join(data, "text_*"))).documents
            | "SpreadDocuments" >> beam.Reshuffle()
            | beambert.SplitSentences()
            | beambert.Deduplicate()
            | beambert.Tokenize(vocab_file)
            | "SpreadTokens" >> beam.Reshuffle()
            | beambert.MakeBertInstances(job)
            | beambert.WriteRecords(job)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
