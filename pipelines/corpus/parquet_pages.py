"""What the pages of a Parquet column take, read from the pages' own headers.

A page is decompressed as a whole, to the size in its header. The footer has sums of these sizes,
but nothing makes a file's footer right. The headers are structs in Thrift's compact protocol:
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

import dataclasses
from typing import TYPE_CHECKING, Any, BinaryIO

from beambert.pipelines.files.compression import CorruptFileError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# A header takes some dozens of bytes, or some thousands with the least and the greatest text.
_HEADER_BYTES, _MOST_HEADER_BYTES = 1 << 12, 1 << 24
# Bytes that old writers leave out of a column's size (PARQUET-816); Arrow allows for as many.
_UNTOLD_BYTES = 100
# Kinds of values in Thrift's compact protocol.
_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG = range(1, 7)
_DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(7, 13)
_MOST_DEPTH = 8
# Numbers of a page header's fields, and of the fields in the headers of the kinds of pages.
_KIND, _GROWN, _STORED = ((_INT, number) for number in (1, 2, 3))
_DATA, _DATA_2 = (_STRUCT, 5), (_STRUCT, 8)
_VALUES, _ENCODING, _ENCODING_2 = (_INT, 1), (_INT, 2), (_INT, 4)
_DICTIONARY_PAGE, _DELTA_BYTE_ARRAY = 2, 7


@dataclasses.dataclass(frozen=True)
class Pages:
    """The sizes of some pages.

    Attributes:
      stored: their bytes as stored.
      grown: their bytes once they are decompressed.
      largest: the greatest number of decompressed bytes of a page.
      a_value: the greatest number of decompressed bytes of a page for each of its values.
      has_dictionary: whether one of them is a dictionary, whose values others name by number.
      has_prefixes: whether one of them may name the beginning that a value shares with the last.
    """

    stored: int = 0
    grown: int = 0
    largest: int = 0
    a_value: int = 0
    has_dictionary: bool = False
    has_prefixes: bool = False

    def __add__(self, other: "Pages") -> "Pages":
        """Returns the sizes of both."""
        return Pages(
            self.stored + other.stored,
            self.grown + other.grown,
            max(self.largest, other.largest),
            max(self.a_value, other.a_value),
            self.has_dictionary or other.has_dictionary,
            self.has_prefixes or other.has_prefixes,
        )


def pages_of(file: BinaryIO, column: "pq.ColumnChunkMetaData") -> Pages:
    """Returns the sizes of a column's pages in one row group, see `Pages`.

    Raises:
      CorruptFileError: a page's header cannot be read.
    """
    place = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < place:
        place = column.dictionary_page_offset
    end = place + column.total_compressed_size + _UNTOLD_BYTES
    found, values = Pages(), 0
    while values < column.num_values and place < end:
        header, size = _header(file, place)
        grown, stored = header.get(_GROWN, -1), header.get(_STORED, -1)
        if min(grown, stored) < 0:
            raise CorruptFileError(f"the page at byte {place:,} has no size")
        data, data_2 = header.get(_DATA, {}), header.get(_DATA_2, {})
        encodings = data.get(_ENCODING), data_2.get(_ENCODING_2)
        held = max(each.get(_VALUES, 0) for each in (data, data_2))
        found += Pages(
            stored,
            grown,
            grown,
            grown // max(held, 1) if data or data_2 else 0,
            header.get(_KIND) == _DICTIONARY_PAGE,
            _DELTA_BYTE_ARRAY in encodings,
        )
        values += max(held, 0)
        place += size + stored
    return found


def _header(file: BinaryIO, place: int) -> tuple[dict, int]:
    """Returns the header of the page at a place in a file, and the bytes that it takes."""
    count = _HEADER_BYTES
    while count <= _MOST_HEADER_BYTES:
        file.seek(place)
        data = file.read(count)
        try:
            return _struct(data, 0)
        except IndexError:
            if len(data) < count:
                break
            count *= 4
    raise CorruptFileError(f"the header of the page at byte {place:,} cannot be read")


def _struct(data: bytes, place: int, depth: int = 0) -> tuple[dict, int]:
    """Returns a struct's integers and structs by kind and number, and the place after it.

    Raises:
      IndexError: the data ends before the struct.
      CorruptFileError: it is none.
    """
    fields: dict[tuple[int, int], Any] = {}
    number = 0
    while byte := data[place]:
        place += 1
        kind = byte & 15
        if byte >> 4:
            number += byte >> 4
        else:
            number, place = _signed(data, place)
        value, place = _value(data, place, kind, depth)
        fields[kind, number] = value
    return fields, place + 1


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > _MOST_DEPTH:
        raise CorruptFileError("a page's header is nested too deeply")
    if kind in (_TRUE, _FALSE):
        return None, place
    if kind in (_SHORT, _INT, _LONG):
        return _signed(data, place)
    if kind == _STRUCT:
        return _struct(data, place, depth + 1)
    if kind == _BINARY:
        size, place = _unsigned(data, place)
        return None, place + size
    if kind in (_BYTE, _DOUBLE):
        return None, place + (1 if kind == _BYTE else 8)
    if kind in (_LIST, _SET):
        size, kind_of_each = data[place] >> 4, data[place] & 15
        place += 1
        if size == 15:
            size, place = _unsigned(data, place)
        kinds = [kind_of_each]
    elif kind == _MAP:
        size, place = _unsigned(data, place)
        kinds = [data[place] >> 4, data[place] & 15] if size else []
        place += bool(size)
    else:
        raise CorruptFileError("a page's header has a value of an unknown kind")
    for _ in range(size):
        for one_kind in kinds:
            # Outside of structs a truth value has a byte of its own.
            is_byte = one_kind in (_TRUE, _FALSE)
            _, place = _value(data, place, _BYTE if is_byte else one_kind, depth + 1)
            if place > len(data):
                raise IndexError
    return None, place


def _signed(data: bytes, place: int) -> tuple[int, int]:
    value, place = _unsigned(data, place)
    return (value >> 1) ^ -(value & 1), place


def _unsigned(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise CorruptFileError("a page's header has a number that is too long")
