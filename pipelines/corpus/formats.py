"""The formats of a corpus, and how a file's format is recognised. Pure.

To add a format, say EPUB, write a module `epub.py` with a subclass of `format_base.Format`, or of
`LineFormat` if its documents consist of lines:

- `name` is the value of --format;
- `beginning` or `recognises` recognises its files by their first bytes;
- `split` divides a large file among workers (without it, files stay whole);
- `read` yields the documents of a part, or `read_lines` those in some lines.

Then add an instance of the class to `_TRIED`.
"""

from beambert.pipelines.corpus import charsets
from beambert.pipelines.corpus.charsets import NOTHING_ASSUMED, Assumed
from beambert.pipelines.corpus.delimited import Csv, Tsv
from beambert.pipelines.corpus.foreign import FOREIGN, JSON, Foreign
from beambert.pipelines.corpus.format_base import Format
from beambert.pipelines.corpus.jsonl import JsonLines
from beambert.pipelines.corpus.line_reading import has_returns_alone
from beambert.pipelines.corpus.markdown import Markdown
from beambert.pipelines.corpus.mediawiki import MediaWiki
from beambert.pipelines.corpus.parquet import Parquet
from beambert.pipelines.corpus.plain_text import PlainText
from beambert.pipelines.corpus.sentence_lines import SentenceLines
from beambert.pipelines.corpus.wikiextractor import WikiExtractor
from beambert.pipelines.corpus.wikitext import WikiText
from beambert.pipelines.files.compression import plain_name

# The formats in the order in which they are tried on a file. The last one recognises any file.
_TRIED: tuple[Format, ...] = (
    Parquet(),
    WikiExtractor(),
    MediaWiki(),
    WikiText(),
    JSON,
    JsonLines(),
    *FOREIGN,
    Csv(),
    Tsv(),
    Markdown(),
    SentenceLines(),
    PlainText(),
)
# The formats by their names.
FORMATS = {found.name: found for found in _TRIED}
# The values of --format that name one.
CHOICES = [found.name for found in _TRIED if not isinstance(found, Foreign)]
# Formats that are said even if all files have them.
TO_TELL = {"csv", "tsv", *(found.name for found in _TRIED if isinstance(found, Foreign))}
# The value of --format that has each file's format recognised.
AUTO = "auto"


def recognise(sample: bytes, assumed: Assumed = NOTHING_ASSUMED, path: str = "") -> Format:
    """Returns the format of a file.

    Args:
      sample: its first `charsets.SAMPLE_BYTES` bytes; the last character may be cut.
      assumed: encoding of text that isn't UTF-8.
      path: path of the file, whose ending counts where the content shows plain text.
    """
    encoding = charsets.find_mark(sample) or charsets.wide_encoding(sample, assumed)
    if encoding:
        sample = sample.decode(encoding, "ignore").encode()
    if has_returns_alone(sample):
        sample = sample.replace(b"\r", b"\n")
    found = next(found for found in FORMATS.values() if found.recognises(sample))
    name = plain_name(path).lower()
    by_name = (other for other in FORMATS.values() if name.endswith(other.endings))
    return next((other for other in by_name if found.name in other.weaker), found)
