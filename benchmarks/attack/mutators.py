"""Damages bytes, texts and JSON values. Pure: the generator decides everything."""

import bz2
import gzip
import json
import random
from collections.abc import Callable
from typing import Any

MIB = 1 << 20
# Markers of every markup and quoting that a cleaner knows.
MARKERS = (
    "<b ", "{{a|", "[[a|{{b|", '<b a="', "{{{a|", "<ref>", "<div>a", "[http://a ", "<!-- ", "[[a ",
    "''a ", "'''", "\n== a", "&a", "&amp;", "\n* a", "[", "{", "=", "<", "{|\n| ", "\n|-\n| a || b",
    "}}", "]]", "</ref>", "<nowiki>", "\n: a", "__A__", "----\n", "http://a ", "(", "( ", ", ", " ",
    "\t", " = a = \n", "<doc id=", "</doc>", "<page>", "</page>", "\\u", '\\"', "\r", "\n", "\0",
    "\x85", "\u2028", "*** START OF", "*** END OF", "e\u0301", "\u0301", "- ", "-\n", "...", "a. ",
    "\ufeff", "\ufffd", "。", "“", "1,", "@-@ ", "<unk> ", "A", "Aa1",
)  # fmt: skip
ENCODINGS = ("utf-16", "utf-32", "utf-16-le", "utf-7", "cp1252", "koi8-r", "shift_jis", "utf-8-sig")
# Values in the place of others in JSON and TOML.
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 10**12, 10**400, -(2**63), 1e308, float("nan"), float("inf"), 0.5,
    "", " ", "a", "\0", "\ud800", "../..", "/dev/zero", "/etc/passwd", "é" * 300,
    "<script>x</script>",
    [], {}, [[]], [None], {"a": 1}, {"": {}}, ["a", "a"], "1", "nan",
)  # fmt: skip


def flip(generator: random.Random, data: bytes) -> bytes:
    """Flips some bits."""
    changed = bytearray(data)
    for _ in range(generator.choice((1, 1, 4, 64)) if data else 0):
        changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(changed)


def truncate(generator: random.Random, data: bytes) -> bytes:
    """Cuts off the end."""
    return data[: generator.randrange(len(data) + 1)]


def behead(generator: random.Random, data: bytes) -> bytes:
    """Cuts off the beginning."""
    return data[generator.randrange(len(data) + 1) :]


def insert(generator: random.Random, data: bytes) -> bytes:
    """Inserts random bytes."""
    place = generator.randrange(len(data) + 1)
    return data[:place] + generator.randbytes(generator.choice((1, 3, 100))) + data[place:]


def repeat(generator: random.Random, data: bytes) -> bytes:
    """Writes a slice several times."""
    start, end = sorted(generator.randrange(len(data) + 1) for _ in range(2))
    times = generator.choice((2, 3, 50)) if end - start < MIB // 50 else 2
    return data[:end] + data[start:end] * times + data[end:]


def remove(generator: random.Random, data: bytes) -> bytes:
    """Removes a slice."""
    start, end = sorted(generator.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[end:]


def overwrite(generator: random.Random, data: bytes) -> bytes:
    """Overwrites a slice with one byte."""
    start, end = sorted(generator.randrange(len(data) + 1) for _ in range(2))
    return (
        data[:start]
        + generator.choice((b"\0", b"\xff", b"\n", b'"', b"\t")) * (end - start)
        + data[end:]
    )


def swap_lines(generator: random.Random, data: bytes) -> bytes:
    """Puts the lines in another order."""
    lines = data.splitlines(keepends=True)
    generator.shuffle(lines)
    return b"".join(lines)


def recode(generator: random.Random, data: bytes) -> bytes:
    """Writes the text in another encoding."""
    return data.decode("utf-8", "replace").encode(generator.choice(ENCODINGS), "replace")


def mark(generator: random.Random, data: bytes) -> bytes:
    """Inserts a marker of markup many times."""
    marker = generator.choice(MARKERS).encode()
    size = generator.choice((1, 100, 10_000, MIB))
    place = generator.randrange(len(data) + 1)
    return data[:place] + marker * max(1, size // len(marker)) + data[place:]


def lengthen(generator: random.Random, data: bytes) -> bytes:
    """Inserts a line, a word or a number of a mebibyte."""
    place = generator.randrange(len(data) + 1)
    piece = generator.choice(
        (b"a ", b"a", b"9", "文".encode(), b"\n", b"\r\n", b"\t", b"[", b'{"a":')
    )
    return data[:place] + piece * (MIB // len(piece)) + data[place:]


def nothing(generator: random.Random, data: bytes) -> bytes:
    """Leaves nothing, or almost nothing."""
    return generator.choice((b"", b"\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b" "))


BYTE_MUTATORS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flip, flip, truncate, behead, insert, insert, repeat, remove, overwrite, swap_lines, nothing,
)  # fmt: skip
TEXT_MUTATORS = (*BYTE_MUTATORS, recode, recode, mark, mark, mark, lengthen)


def damage(generator: random.Random, data: bytes, is_text: bool = False) -> tuple[str, bytes]:
    """Returns the names of one to three kinds of damage, and the damaged bytes."""
    names = []
    for _ in range(generator.choice((1, 1, 2, 3))):
        mutator = generator.choice(TEXT_MUTATORS if is_text else BYTE_MUTATORS)
        names.append(mutator.__name__)
        data = mutator(generator, data)[: 8 * MIB]
    return "+".join(names), data


def damage_value(generator: random.Random, value: Any) -> Any:
    """Returns a JSON value in which one value is another one, gone, doubled or nested deeply."""
    if isinstance(value, dict) and value and generator.random() < 0.8:
        name = generator.choice(list(value))
        way = generator.randrange(8)
        if way == 0:
            return {n: v for n, v in value.items() if n != name}
        if way == 1:
            return {f"{n}x" if n == name else n: v for n, v in value.items()}
        if way == 2:
            return value | {"unknown": generator.choice(ODD_VALUES)}
        return value | {name: damage_value(generator, value[name])}
    if isinstance(value, list) and value and generator.random() < 0.8:
        place = generator.randrange(len(value))
        way = generator.randrange(4)
        if way == 0:
            return value[:place] + value[place + 1 :]
        if way == 1:
            return value[:place] + [value[place]] * 3 + value[place:]
        return [*value[:place], damage_value(generator, value[place]), *value[place + 1 :]]
    if generator.random() < 0.1:
        for _ in range(generator.choice((10, 200))):
            value = [value]
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and generator.random() < 0.5:
        # A whole number may be too great for a float.
        other = value + 0.5 if abs(value) < 2**53 else 0.5
        return generator.choice((-value, value + 1, value * 1000, other, str(value)))
    if isinstance(value, str) and generator.random() < 0.3:
        return generator.choice((value[:-1], value * 2, value.upper(), value + "\n", "../" + value))
    return generator.choice(ODD_VALUES)


def damage_json(generator: random.Random, data: bytes) -> tuple[str, bytes]:
    """Damages a JSON file: its values, or its bytes."""
    if generator.random() < 0.35:
        return damage(generator, data, is_text=True)
    value = json.loads(data)
    for _ in range(generator.choice((1, 1, 2))):
        value = damage_value(generator, value)
    return "value", json.dumps(value, indent=1).encode()


def compress(ending: str, data: bytes) -> bytes:
    """Compresses a file as its ending says."""
    if ending == ".gz":
        return gzip.compress(data, 6, mtime=0)
    if ending == ".bz2":
        return bz2.compress(data)
    if ending == ".zst":
        import zstandard

        return zstandard.ZstdCompressor().compress(data)
    return data


def bomb(generator: random.Random, ending: str) -> bytes:
    """Returns a compressed file that grows a thousandfold, to more than a document may have.

    What is no single document stays smaller, since a command works through all of it.
    """
    piece = generator.choice((b"\0", b"a", b"a ", b"a b.\n", b"\n", b"<doc>\n", b'{"text": "a"}\n'))
    block = compress(ending, piece * (MIB // len(piece)))
    return block * (2 if b"\n" in piece else 140)
