"""`beambert explore`: a local page on records, models and how BERT reads a text."""

from collections.abc import Sequence

from beambert.errors import InputError
from beambert.explore.material import Material
from beambert.flags import FlagParser

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 7860

EXAMPLES = """examples:
  # the three playgrounds, with a vocabulary alone
  beambert explore --vocab_file=vocab.txt

  # all of it: records, an encoder, a fine-tuned model and its errors
  beambert explore --records=records/128 --model encoder sentiment --corpus 'books/*.txt' \
    --evaluation evaluation

  # records, an example and curves as one file to send
  beambert explore --records=records/128 --model encoder --output=page.html

The page is on this machine alone unless --host says otherwise. It sends nothing elsewhere, and
reads only what the flags name. Ctrl-C ends it.
"""


def build_parser() -> FlagParser:
    """Returns the command's flags."""
    parser = FlagParser(
        prog="beambert explore",
        description="Shows on a local page what the data job does with a text, what is in records, "
        "and what models make of it.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--records",
        metavar="DIR",
        help="records folder, or a pattern of record files, on this machine",
    )
    parser.add_argument(
        "--model",
        nargs="+",
        action="extend",
        default=[],
        metavar="DIR",
        help="model folders of `beambert pretrain` or `finetune`",
    )
    parser.add_argument(
        "--vocab_file", help="vocabulary (default: that of the first model, else of the records)"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="PATH",
        help="tokenizer.json, or its folder, in place of --vocab_file",
    )
    parser.add_argument(
        "--corpus",
        nargs="+",
        action="extend",
        default=[],
        metavar="GLOB",
        help="text files, from which documents are drawn",
    )
    parser.add_argument(
        "--evaluation",
        nargs="+",
        action="extend",
        default=[],
        metavar="DIR",
        help="output folders of `beambert evaluate`, whose errors are shown by slice",
    )
    parser.add_argument(
        "--host", default=DEFAULT_HOST, help=f"address to listen on (default: {DEFAULT_HOST})"
    )
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"port of the page (default: {DEFAULT_PORT})"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file that gets what the page shows, without a server; the command then ends",
    )
    return parser


def main(argv: Sequence[str]) -> None:
    """Runs the command.

    Raises:
      InputError: a flag or a path cannot be used, or the page's library is missing.
    """
    flags = build_parser().parse_args(list(argv))
    if not 1 <= flags.port <= 65535:
        raise InputError(f"--port={flags.port}: is no port; name one from 1 to 65535")
    if not flags.host:
        raise InputError("--host=: is empty; name an address of this machine")
    for pattern in flags.corpus:
        if not pattern:
            raise InputError("--corpus=: is empty; name the files to read")
    material = Material(
        flags.records,
        flags.model,
        flags.vocab_file,
        flags.corpus,
        flags.evaluation,
        flags.tokenizer,
    )
    if flags.output is not None:
        from beambert.explore.report import write_report

        write_report(material, flags.output)
        return
    from beambert.explore.server import serve

    serve(material, flags.host, flags.port)
