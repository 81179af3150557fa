"""The inner loops of pairs, rows, masks and near duplicates, see `compiled`.

Plain Python on numpy arrays.
"""

import zlib

import numpy as np

from beambert.pipelines.records.compiled import compiled
from beambert.pipelines.records.contract import IS_NEXT, RANDOM_NEXT

# Draws.
#
# Python's random.Random is a Mersenne Twister (Matsumoto and Nishimura 1998, mt19937ar.c), whose
# state is 624 words of 32 bits and the index of the next one. `state` is int64 [625], as
# `Random.getstate()[1]` returns it; every draw advances it.

_WORDS, _SHIFT, _ALL_BITS = 624, 397, 0xFFFFFFFF


@compiled
def _word(state: np.ndarray) -> int:
    """Returns the next 32 random bits."""
    if state[_WORDS] >= _WORDS:
        for index in range(_WORDS):
            bits = (state[index] & 0x80000000) | (state[(index + 1) % _WORDS] & 0x7FFFFFFF)
            mixed = state[(index + _SHIFT) % _WORDS] ^ (bits >> 1)
            state[index] = mixed ^ 0x9908B0DF if bits & 1 else mixed
        state[_WORDS] = 0
    bits = state[state[_WORDS]]
    state[_WORDS] += 1
    bits ^= bits >> 11
    bits ^= (bits << 7) & 0x9D2C5680
    bits ^= (bits << 15) & 0xEFC60000
    return bits ^ (bits >> 18)


@compiled
def draw(state: np.ndarray) -> float:
    """Returns what `Random.random()` does, a float in [0, 1) of 53 bits."""
    high = _word(state) >> 5
    return (high * 67108864.0 + (_word(state) >> 6)) * (1.0 / 9007199254740992.0)


@compiled
def draw_below(state: np.ndarray, end: int) -> int:
    """Returns a random integer from 0 to `end` - 1."""
    return int(draw(state) * end)


@compiled
def draw_heads(state: np.ndarray, coins: int) -> int:
    """Returns what `Random.getrandbits(coins).bit_count()` does, the heads of so many coins."""
    heads = 0
    while coins > 0:
        word = _word(state) >> max(0, 32 - coins)
        while word:
            word &= word - 1
            heads += 1
        coins -= 32
    return heads


# Pairs, see the module `pairs`. `starts` has the offset of each sentence and the end of the last,
# `firsts` the first sentence of each document and the number of all. `partners` is int64
# [documents, 4], see `instances.find_partners`.

# The original draws a short target of at least 2 tokens (one for A, one for B).
_SHORTEST_TARGET = 2
# The coin's bias restores the balance of the labels over at least so many chunks. They are enough
# that a chunk's label tells nothing about the next one's, and few enough for a shard of a few
# thousand.
BALANCE_HORIZON = 100
# The original draws another document for B so many times before it takes A's own.
REFERENCE_DRAWS = 10


@compiled
def _draw_target(state: np.ndarray, limit: int, short_seq_prob: float) -> int:
    """Returns the number of tokens that a document's pairs aim at in a pass."""
    if draw(state) < short_seq_prob:
        return _SHORTEST_TARGET + draw_below(state, limit - _SHORTEST_TARGET + 1)
    return limit


@compiled
def _partners_of(partners: np.ndarray, document: int) -> int:
    """Returns the number of documents that a random B may come from."""
    of = partners[document]
    return (of[1] - of[0]) - (of[3] - of[2])


@compiled
def _draw_partner(state: np.ndarray, partners: np.ndarray, document: int) -> int:
    """Returns a random document of those that a random B may come from; there is one."""
    first, own_first, own_end = partners[document, 0], partners[document, 2], partners[document, 3]
    other = first + draw_below(state, _partners_of(partners, document))
    return other if other < own_first else other + own_end - own_first


@compiled
def draw_as_the_original(state: np.ndarray, partners: np.ndarray, document: int) -> int:
    """Returns a random document: nearly always another one than A's own."""
    first, end, own_first, own_end = (
        partners[document, 0],
        partners[document, 1],
        partners[document, 2],
        partners[document, 3],
    )
    other = own_first
    for _ in range(REFERENCE_DRAWS):
        other = first + draw_below(state, end - first)
        if not own_first <= other < own_end:
            break
    return other


@compiled
def _first_from(starts: np.ndarray, offset: int, index: int, end: int) -> int:
    """Returns the first index, from `index` on, whose start is at least `offset`; `end` if none."""
    while index < end and starts[index] < offset:
        index += 1
    return index


@compiled
def truncate(state: np.ndarray, bounds: np.ndarray, excess: int) -> None:
    """Cuts `excess` tokens off, one at a time from the longer of A and B.

    A coin decides at which end. This is the original's truncate_seq_pair in closed form. B is cut
    when the lengths are equal. `bounds` are start and end of A, and start and end of B.
    """
    a, b = bounds[1] - bounds[0], bounds[3] - bounds[2]
    from_longer = min(excess, abs(a - b))
    from_a = (from_longer if a > b else 0) + (excess - from_longer) // 2
    from_b = excess - from_a
    a_front, b_front = draw_heads(state, from_a), draw_heads(state, from_b)
    bounds[0] += a_front
    bounds[1] -= from_a - a_front
    bounds[2] += b_front
    bounds[3] -= from_b - b_front


@compiled
def pair(
    starts: np.ndarray,
    firsts: np.ndarray,
    partners: np.ndarray,
    walked: int,
    limit: int,
    short_seq_prob: float,
    is_reference: bool,
    swaps: bool,
    balance: np.ndarray,
    counts: np.ndarray,
    state: np.ndarray,
) -> np.ndarray:
    """Goes over the documents once and pairs their sentences, see `pairs.build_pairs`.

    Args:
      limit: tokens of A and B together.
      balance: int64 [3], `pairs.Balance`, changed here.
      counts: int64 [3], the numbers of chunks without a partner, of forced "random next" pairs and
        of truncated tokens, filled in here.

    Returns:
      int32 [pairs, 5].
    """
    forced, free, ahead = balance[0], balance[1], balance[2]
    targets, is_steady = np.empty(walked, np.int64), np.ones(walked, np.bool_)
    if not is_reference:
        for document in range(walked):
            targets[document] = _draw_target(state, limit, short_seq_prob)
            sentences = firsts[document + 1] - firsts[document]
            is_steady[document] = targets[document] == limit or sentences <= BALANCE_HORIZON
    order = np.concatenate((np.flatnonzero(~is_steady), np.flatnonzero(is_steady)))
    tokens_left = starts[firsts[walked]]
    # Every pair begins with another sentence.
    rows = np.empty((firsts[walked], 5), np.int32)
    bounds = np.empty(4, np.int64)
    made = 0
    for document in order:
        if is_reference:
            targets[document] = _draw_target(state, limit, short_seq_prob)
        target, counts_for_rate = targets[document], is_steady[document]
        sentence, end = firsts[document], firsts[document + 1]
        is_alone = _partners_of(partners, document) == 0
        tokens_left -= starts[end] - starts[sentence]
        # The coin will decide about so many more chunks.
        horizon = max(BALANCE_HORIZON, tokens_left * free // (limit * (free + forced)))
        while sentence < end:
            chunk_end = _first_from(starts, starts[sentence] + target, sentence + 1, end)
            sentences = chunk_end - sentence
            a_last = sentence + 1
            if sentences > 1:
                a_last += draw_below(state, sentences - 1)
            bounds[0], bounds[1] = starts[sentence], starts[a_last]
            if sentences > 1 and is_reference:
                is_next = draw(state) >= 0.5
            elif sentences > 1:
                free += counts_for_rate
                share = 0.5 * (1 + forced / free) + 0.5 * ahead / horizon
                is_next = draw(state) < share or (is_alone and not swaps)
            elif is_alone and not is_reference:
                counts[0] += 1
                sentence = chunk_end
                continue
            else:
                counts[1] += 1
                forced += counts_for_rate
                is_next = False

            if is_next:
                ahead -= 1
                bounds[2], bounds[3] = starts[a_last], starts[chunk_end]
                sentence = chunk_end
            elif swaps and sentences > 1:
                ahead += 1
                bounds[2], bounds[3] = bounds[0], bounds[1]
                bounds[0], bounds[1] = starts[a_last], starts[chunk_end]
                sentence = chunk_end
            else:
                ahead += 1
                if is_reference:
                    other = draw_as_the_original(state, partners, document)
                else:
                    other = _draw_partner(state, partners, document)
                b_first = firsts[other] + draw_below(state, firsts[other + 1] - firsts[other])
                wanted = target - (bounds[1] - bounds[0])
                b_last = _first_from(
                    starts, starts[b_first] + wanted, b_first + 1, firsts[other + 1]
                )
                bounds[2], bounds[3] = starts[b_first], starts[b_last]
                sentence = a_last  # the next chunk begins with the sentences that are not used

            excess = (bounds[1] - bounds[0]) + (bounds[3] - bounds[2]) - limit
            if excess > 0:
                counts[2] += excess
                truncate(state, bounds, excess)
            rows[made, :4] = bounds
            rows[made, 4] = IS_NEXT if is_next else RANDOM_NEXT
            made += 1
    balance[0], balance[1], balance[2] = forced, free, ahead
    return rows[:made].copy()


@compiled
def pair_copies(
    starts: np.ndarray,
    firsts: np.ndarray,
    partners: np.ndarray,
    walked: int,
    limit: int,
    short_seq_prob: float,
    state: np.ndarray,
) -> np.ndarray:
    """Goes over the documents once and pairs segments, int32 [n, 5], see `pairs.build_copies`."""
    most = limit // 2
    # A part ends with a sentence, or is as long as may be.
    rows = np.empty((firsts[walked] + starts[firsts[walked]] // max(most, 1) + walked, 5), np.int32)
    made = 0
    for document in range(walked):
        target = min(_draw_target(state, limit, short_seq_prob), most)
        has_other = _partners_of(partners, document) > 0
        sentence, end = firsts[document], firsts[document + 1]
        a_start = starts[sentence]
        while a_start < starts[end]:
            # The sentences that reach the target, unless they are too many; a sentence that is
            # too long by itself is divided.
            while starts[sentence] <= a_start:
                sentence += 1
            reached = _first_from(starts, a_start + target, sentence, end)
            while reached >= sentence and starts[reached] > a_start + most:
                reached -= 1
            a_end = starts[reached] if reached >= sentence else a_start + most
            b_start, b_end, label = a_start, a_end, IS_NEXT
            if draw(state) < 0.5 and has_other:
                other = _draw_partner(state, partners, document)
                b_start = starts[
                    firsts[other] + draw_below(state, firsts[other + 1] - firsts[other])
                ]
                b_end = min(b_start + a_end - a_start, starts[firsts[other + 1]])
                label = RANDOM_NEXT
            rows[made, 0], rows[made, 1] = a_start, a_end
            rows[made, 2], rows[made, 3], rows[made, 4] = b_start, b_end, label
            made += 1
            a_start = a_end
    return rows[:made].copy()


# Rows and their masks. Legend: N rows, L max_seq_length, S prediction slots.


@compiled
def assemble(
    tokens: np.ndarray,
    pairs: np.ndarray,
    length: int,
    classify: int,
    separate: int,
    padding: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lays pairs out, see `masks.assemble_rows`; returns ids, mask and segments."""
    input_ids = np.full((len(pairs), length), padding, np.int32)
    input_mask = np.zeros((len(pairs), length), np.uint8)
    segment_ids = np.zeros((len(pairs), length), np.uint8)
    for row in range(len(pairs)):
        a_start, a_end, b_start, b_end = pairs[row, 0], pairs[row, 1], pairs[row, 2], pairs[row, 3]
        ids = input_ids[row]
        ids[0] = classify
        place = 1
        for token in range(a_start, a_end):
            ids[place] = tokens[token]
            place += 1
        ids[place] = separate
        place += 1
        second = place
        for token in range(b_start, b_end):
            ids[place] = tokens[token]
            place += 1
        ids[place] = separate
        place += 1
        input_mask[row, :place] = 1
        segment_ids[row, second:place] = 1
    return input_ids, input_mask, segment_ids


@compiled
def find_fixed(input_ids: np.ndarray, is_fixed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns which tokens may not be chosen, bool [N, L], and the number of others, int64 [N]."""
    fixed, free = np.empty(input_ids.shape, np.bool_), np.empty(len(input_ids), np.int64)
    for row in range(len(input_ids)):
        count = 0
        for place in range(input_ids.shape[1]):
            fixed[row, place] = is_fixed[input_ids[row, place]]
            count += not fixed[row, place]
        free[row] = count
    return fixed, free


# Number of buckets of keys, and of bits behind those that decide it.
_BUCKETS, _BUCKET_SHIFT = 256, 24


@compiled
def choose_tokens(keys: np.ndarray, fixed: np.ndarray, wanted: np.ndarray, most: int) -> np.ndarray:
    """Chooses the tokens with the smallest keys: a uniform choice without replacement.

    Args:
      keys: uint32 [N, L], random; the keys of a row all differ.
      fixed: bool [N, L], true for tokens that may not be chosen.
      wanted: int64 [N], number of tokens to choose: at most S, and no more than may be chosen.
      most: S.

    Returns:
      int64 [N, S], the chosen positions in ascending order, filled up with L.
    """
    rows, length = keys.shape
    positions = np.full((rows, most), length, np.int64)
    counts, found = np.empty(_BUCKETS + 1, np.int64), np.empty(length, np.int64)
    buckets = np.empty(length, np.int64)
    for row in np.flatnonzero(wanted):
        # The last bucket is that of fixed tokens, the others follow from a key's highest bits.
        counts[:] = 0
        for place in range(length):
            buckets[place] = _BUCKETS if fixed[row, place] else keys[row, place] >> _BUCKET_SHIFT
            counts[buckets[place]] += 1
        last, count = 0, counts[0]
        while count < wanted[row]:
            last += 1
            count += counts[last]
        # The tokens of the first buckets, without a branch; a few of the last one are too many.
        count = 0
        for place in range(length):
            found[count] = place
            count += buckets[place] <= last
        while count > wanted[row]:
            worst = 0
            for index in range(count):
                if keys[row, found[index]] > keys[row, found[worst]]:
                    worst = index
            count -= 1
            for index in range(worst, count):
                found[index] = found[index + 1]
        positions[row, :count] = found[:count]
    return positions


@compiled
def choose_words(
    keys: np.ndarray, starts: np.ndarray, fixed: np.ndarray, wanted: np.ndarray, most: int
) -> np.ndarray:
    """Chooses whole words in the order of their first token's key.

    A word that does not fit is skipped. The rules are those of the original's
    create_masked_lm_predictions with do_whole_word_mask.

    Args:
      keys: uint32 [N, L], random; the keys of a row all differ.
      starts: bool [N, L], true where a word starts; a row's first word need not be marked.
      fixed: bool [N, L], true for tokens that may not be chosen and belong to no word.
      wanted: int64 [N], largest number of tokens to choose.
      most: S, largest value that `wanted` can have.

    Returns:
      int64 [N, S], the chosen positions in ascending order, filled up with L.
    """
    rows, length = keys.shape
    positions = np.full((rows, most), length, np.int64)
    first_keys, sizes = np.empty(length, np.uint32), np.empty(length, np.int64)
    word_of, chosen = np.empty(length, np.int64), np.empty(length, np.bool_)
    for row in range(rows):
        words = 0
        for place in range(length):
            if fixed[row, place]:
                continue
            if starts[row, place] or words == 0:
                first_keys[words], sizes[words], chosen[words] = keys[row, place], 0, False
                words += 1
            sizes[words - 1] += 1
            word_of[place] = words - 1
        left = wanted[row]
        for word in np.argsort(first_keys[:words]):
            if left == 0:
                break
            if sizes[word] <= left:
                chosen[word] = True
                left -= sizes[word]
        slot = 0
        for place in range(length):
            if not fixed[row, place] and chosen[word_of[place]]:
                positions[row, slot] = place
                slot += 1
    return positions


@compiled
def hide(
    input_ids: np.ndarray,
    positions: np.ndarray,
    rolls: np.ndarray,
    replacements: np.ndarray,
    mask: int,
    mask_share: float,
    changed_share: float,
    slots: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Hides the chosen tokens of rows.

    Args:
      input_ids: int32 [N, L].
      positions: int64 [N, S], see `choose_tokens`.
      rolls: float32 [N, S], draws in [0, 1) that decide how each token is hidden.
      replacements: int32 [N, S], random tokens.
      mask: id of [MASK].
      mask_share: float32, share of the tokens that become [MASK].
      changed_share: float32, share of those that become [MASK] or a random token.
      slots: P, at least S.

    Returns:
      the masked ids, int32 [N, L]; positions and labels, int32 [N, P]; weights, float32 [N, P].
    """
    rows, length = input_ids.shape
    masked = input_ids.copy()
    places, labels = np.zeros((rows, slots), np.int32), np.zeros((rows, slots), np.int32)
    weights = np.zeros((rows, slots), np.float32)
    for row in range(rows):
        for slot in range(positions.shape[1]):
            place = positions[row, slot]
            if place == length:
                break
            places[row, slot], labels[row, slot] = place, input_ids[row, place]
            weights[row, slot] = 1
            if rolls[row, slot] < mask_share:
                masked[row, place] = mask
            elif rolls[row, slot] < changed_share:
                masked[row, place] = replacements[row, slot]
    return masked, places, labels, weights


# Near duplicates, see the module `duplicates`.

# What a character is: it stands between words, it begins or continues one, or it is one.
BETWEEN_WORDS, IN_WORD, WHOLE_WORD = range(3)
# The table of CRC-32, taken from zlib, which inverts all bits before and after.
_CRCS = np.array([zlib.crc32(bytes([each ^ 255])) ^ 0xFF000000 for each in range(256)], np.int64)


@compiled
def _add_byte(crc: int, byte: int) -> int:
    """Returns the inverted CRC-32 with one more byte."""
    return _CRCS[(crc ^ byte) & 255] ^ (crc >> 8)


@compiled
def word_checksums(codes: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Returns the CRC-32 of each word in UTF-8, uint64 [words].

    Args:
      codes: uint32 [characters], the code points of a text.
      kinds: uint8 [0x110000], what each character is.
    """
    found, words, crc, last = np.empty(len(codes), np.uint64), 0, _ALL_BITS, BETWEEN_WORDS
    for code in codes.astype(np.int64):
        kind = kinds[code]
        if last != BETWEEN_WORDS and not last == kind == IN_WORD:
            found[words] = crc ^ _ALL_BITS
            words, crc = words + 1, _ALL_BITS
        last = kind
        if kind == BETWEEN_WORDS:
            continue
        if code < 0x80:
            crc = _add_byte(crc, code)
        else:
            if code < 0x800:
                crc = _add_byte(crc, 0xC0 | code >> 6)
            else:
                if code < 0x10000:
                    crc = _add_byte(crc, 0xE0 | code >> 12)
                else:
                    crc = _add_byte(crc, 0xF0 | code >> 18)
                    crc = _add_byte(crc, 0x80 | (code >> 12) & 63)
                crc = _add_byte(crc, 0x80 | (code >> 6) & 63)
            crc = _add_byte(crc, 0x80 | code & 63)
    if last != BETWEEN_WORDS:
        found[words] = crc ^ _ALL_BITS
        words += 1
    return found[:words].copy()


@compiled
def least_hashes(values: np.ndarray, factors: np.ndarray, summands: np.ndarray) -> np.ndarray:
    """Returns the least of each hash over values, uint32 [hashes].

    Hash i of a value is `factors[i] * mixed + summands[i]`, mixed as MurmurHash3 finishes.

    Args:
      values: uint32 [n].
      factors, summands: uint32 [hashes].
    """
    least = np.full(len(factors), _ALL_BITS, np.uint32)
    for value in values:
        mixed = np.uint32(value ^ (value >> 16))
        mixed = np.uint32(mixed * 0x85EBCA6B)
        mixed = np.uint32(mixed ^ (mixed >> 13))
        mixed = np.uint32(mixed * 0xC2B2AE35)
        mixed = np.uint32(mixed ^ (mixed >> 16))
        for i in range(len(factors)):
            least[i] = min(least[i], np.uint32(factors[i] * mixed + summands[i]))
    return least
