"""The formats of a corpus, and which of them a file has. Pure.

To add a format, say EPUB, write a module `epub.py` with a subclass of `format_base.Format` (of
`LineFormat`, if its documents are lines). `name` is the value of --format; `beginning` or
`recognises` tells its files by their first bytes; `split` says where a reader may start, so that a
large file is divided among workers (left out, files stay whole); `read` yields the documents of a
part, or `read_lines` those of its lines. Then put an object of it into `_TRIED`: one line.
"""

from beambert.pipelines.corpus.format_base import Format
from beambert.pipelines.corpus.jsonl import JsonLines
from beambert.pipelines.corpus.mediawiki import MediaWiki
from beambert.pipelines.corpus.parquet import Parquet
from beambert.pipelines.corpus.plain_text import PlainText
from beambert.pipelines.corpus.sentence_lines import SentenceLines
from beambert.pipelines.corpus.wikiextractor import WikiExtractor
from beambert.pipelines.corpus.wikitext import WikiText

# In the order in which they are tried on a file; the last takes any.
_TRIED: tuple[Format, ...] = (
    Parquet(),
    WikiExtractor(),
    MediaWiki(),
    WikiText(),
    JsonLines(),
    SentenceLines(),
    PlainText(),
)
# By the value of --format.
FORMATS = {found.name: found for found in _TRIED}
# The value of --format for a file to be recognised.
AUTO = "auto"
# Enough to tell the formats apart; read before the file is read.
SAMPLE_BYTES = 1 << 16


def recognise(sample: bytes) -> Format:
    """Returns the format of a file by its first `SAMPLE_BYTES`."""
    return next(found for found in FORMATS.values() if found.recognises(sample))
