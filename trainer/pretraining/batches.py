"""Records folders -> batches. They are deterministic, sharded by host and resumable at any step.

Sequences are dealt to batches so that all batches have nearly equally many tokens. A fixed number
of rows is then enough for the tokens of nearly every batch.
"""

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from beambert.pipelines.records.contract import MASKED_LM_PROB
from beambert.trainer.loop.engine import ONE_HOST, InputContext
from beambert.trainer.pretraining.masks import MaskingRules, draw_bits, rates_at, redraw_masks
from beambert.trainer.pretraining.random_bits import shuffled
from beambert.trainer.pretraining.records import Records, parse_batch, read_file

# Number of sequences that are dealt to batches at a time, over all hosts. Their mean length differs
# from the mean of all sequences by a few tokens at most.
SEQUENCES_DEALT = 4096
# A share gives a batch at least this many rows. With fewer, batches would differ too much in
# tokens.
LEAST_ROWS = 4
# Largest number of shares, a power of two. Up to this many hosts can read a share each.
MOST_SHARES = 16


def steps_dealt(sequences_a_step: int) -> int:
    """Returns the number of steps whose sequences are dealt together."""
    return math.ceil(SEQUENCES_DEALT / sequences_a_step)


def shares_of(batch_size: int, hosts: int) -> int:
    """Returns the number of shares of the sequences. Each share is dealt by itself.

    A host reads one or more shares. Their number does not depend on the hosts (except for unusual
    numbers of hosts), so a batch has the same sequences on any number of hosts.
    """
    shares = math.gcd(batch_size, max(batch_size // LEAST_ROWS, 1), MOST_SHARES)
    return shares if shares % hosts == 0 else hosts


def deal(
    features: Mapping[str, np.ndarray],
    batches: int,
    parts: int,
    shares: Sequence[int] = (0,),
    all_shares: int = 1,
) -> dict[str, np.ndarray]:
    """Divides rows into batches, and those into parts, of nearly equally many tokens each.

    Args:
      features: name -> [rows, …]. The number of rows must be a multiple of batches * parts and of
        batches * len(shares). The rows belong to the shares in turn.
      batches: number of batches to make.
      parts: number of parts of a batch; the rows of a batch do not depend on it.
      shares: numbers of this host's shares; each gives a batch equally many rows.
      all_shares: number of shares of all hosts.

    Returns:
      name -> [batches, parts, rows / batches / parts, …].
    """
    lengths = features["input_mask"].sum(axis=1)
    count = len(shares)
    order = np.argsort(-lengths.reshape(-1, count).T, axis=1, kind="stable")
    dealt = _deal(order, batches) * count + np.arange(count)[:, None, None]
    # A batch gets piles of different numbers from the shares, since the first piles of a share have
    # other lengths than the last.
    shifts = np.array(shares)[:, None] * batches // all_shares
    piles = (np.arange(batches) + shifts) % batches
    dealt = np.take_along_axis(dealt, piles[:, :, None], axis=1)
    rows = dealt.transpose(1, 0, 2).reshape(batches, -1)
    order = np.argsort(-lengths[rows], axis=1, kind="stable")
    dealt = _deal(np.take_along_axis(rows, order, axis=1), parts)
    return {name: value[dealt] for name, value in features.items()}


def _deal(order: np.ndarray, piles: int) -> np.ndarray:
    """Deals [..., rows], longest first, to [..., piles, rows / piles], longest first.

    The direction changes after every round: the first pile of a round is the last of the next.
    """
    rounds = order.reshape(*order.shape[:-1], -1, piles).copy()
    rounds[..., 1::2, :] = rounds[..., 1::2, ::-1]
    return rounds.swapaxes(-1, -2)


# This many files are read at once, a record from each in turn, which mixes the shards in a batch.
FILES_AT_ONCE = 16
# The masks of held-out records without masks are drawn for this many at once, and with this seed in
# all trainings, so that their losses compare.
EVALUATION_ROWS, EVALUATION_SEED = 1024, 0
# The random bits of a row, among its features.
_BITS = "random_bits"


def find_record(counts: Sequence[int], index: int) -> tuple[int, int, int]:
    """Finds a record in the order of `_in_turn`, from the files' numbers of records alone.

    Args:
      counts: number of records in each file, in the order in which the files are read.
      index: index of the record, less than the sum of the counts.

    Returns:
      three numbers: of files to leave out; of records to leave out at the start of each of the next
      `FILES_AT_ONCE` files; and of records to skip in the order of the rest.
    """
    for first_file in range(0, len(counts), FILES_AT_ONCE):
        at_once = counts[first_file : first_file + FILES_AT_ONCE]
        if index < sum(at_once):
            break
        index -= sum(at_once)

    def records_in(rounds: int) -> int:
        return sum(min(count, rounds) for count in at_once)

    rounds = bisect.bisect_right(range(max(at_once)), index, key=records_in) - 1
    return first_file, rounds, index - records_in(rounds)


def _in_turn(names: Sequence[str], passed_over: int = 0, rest: int = 0) -> Iterator[bytes]:
    """Yields serialized records, one of each file in turn, for `FILES_AT_ONCE` files at a time.

    Args:
      names: paths of the files.
      passed_over: number of records to leave out at the start of each of the first files.
      rest: number of records to leave out of those that are left.
    """
    for first in range(0, len(names), FILES_AT_ONCE):
        skipped = 0 if first else passed_over
        open_files = [read_file(name, skipped) for name in names[first : first + FILES_AT_ONCE]]
        while open_files:
            for file in tuple(open_files):
                record = next(file, None)
                if record is None:
                    open_files.remove(file)
                elif rest:
                    rest -= 1
                else:
                    yield record


def _training_stream(records: Records, seed: int, first_record: int) -> Iterator[bytes]:
    """Yields serialized records, epoch after epoch, each with its own order of the files."""
    epoch, index = divmod(first_record, records.instances)
    files, counts = records.files, records.counts
    while True:
        order = shuffled(len(files), (seed, epoch))
        first_file, *skipped = find_record([counts[file] for file in order], index)
        yield from _in_turn([files[file] for file in order[first_file:]], *skipped)
        epoch, index = epoch + 1, 0


def training_batches(
    records: Records,
    batch_size: int,
    seed: int,
    first_step: int = 0,
    context: InputContext = ONE_HOST,
    *,
    gradient_accumulation_steps: int = 1,
    rules: MaskingRules | None = None,
    steps_before: int = 0,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields endless batches, epoch after epoch.

    The records in a file are shuffled already, and every epoch reads the files in another order.
    The records of several steps are dealt to the batches of these steps so that all batches have
    nearly equally many tokens, see `deal`. Position and masks follow from the step alone, so
    resuming needs no iterator state. To find a position, only the files that are open there are
    read.

    Args:
      records: records to read.
      batch_size: number of sequences in a batch, over all hosts.
      seed: seed of the files' order and of dynamic masks.
      first_step: number of batches that are done already.
      context: number of this host h among n hosts; it takes the records h, h + n, ….
      gradient_accumulation_steps: number of parts in which a replica computes its batch.
      rules: rules by which masks are drawn anew in every epoch; None for those of the records.
      steps_before: number of the training's step that takes the first batch. The rate of the masks
        follows from a step's number in the whole training.

    Yields:
      name -> int32 or float32 [batch_size / replicas, length], a batch for each of the host's
      replicas in turn.
    """
    hosts, host = context.num_input_pipelines, context.input_pipeline_id
    replicas = context.num_replicas_in_sync // hosts
    rows = batch_size // context.num_replicas_in_sync
    steps = steps_dealt(batch_size)
    shares = shares_of(batch_size, hosts)
    parts = replicas * gradient_accumulation_steps
    first_deal, steps_skipped = divmod(first_step, steps)
    stream = _training_stream(records, seed, first_deal * steps * batch_size)
    mine = itertools.islice(stream, host, None, hosts)
    skipped = steps_skipped * replicas
    for number in itertools.count(first_deal):
        serialized = list(itertools.islice(mine, steps * batch_size // hosts))
        features = parse_batch(serialized, records)
        if rules is not None:
            # Rows take their bits with them to their step, whose rate decides on the masks.
            length = records.max_seq_length
            bits = draw_bits(seed, number, steps * batch_size, length, rules)
            features[_BITS] = bits[host::hosts]
        dealt = deal(features, steps, parts, range(host, shares, hosts), shares)
        dealt = {name: value.reshape(-1, value.shape[-1]) for name, value in dealt.items()}
        if rules is not None:
            rates = rates_at(rules, steps_before + number * steps + np.arange(steps))
            rates = np.repeat(rates, batch_size // hosts)
            dealt = redraw_masks(dealt, dealt.pop(_BITS), rules, rates)
        for start in range(skipped * rows, len(dealt["input_ids"]), rows):
            yield {name: value[start : start + rows] for name, value in dealt.items()}
        skipped = 0


def evaluation_batches(
    records: Records,
    batch_size: int,
    max_batches: int | None = None,
    context: InputContext = ONE_HOST,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields all records once, or the first `max_batches` batches, in the order of the files.

    Records without masks get the paper's: 15 % of the tokens, of which 80 % become [MASK], 10 % a
    random token, and 10 % stay. They follow from a record's position in its folder.

    The last batch is filled up with empty rows, whose `example_weights` [batch] are 0.
    """
    hosts, host = context.num_input_pipelines, context.input_pipeline_id
    rows = batch_size // context.num_replicas_in_sync
    count = records.instances
    if max_batches is not None:
        count = min(count, max_batches * batch_size)
    stream = itertools.islice(_in_turn(records.files), count)
    for features in _whole_batches(_parsed(stream, records), batch_size):
        # The hosts share filled batches, so that all of them have equally many.
        mine = {name: value[host::hosts] for name, value in features.items()}
        for start in range(0, batch_size // hosts, rows):
            yield {name: value[start : start + rows] for name, value in mine.items()}


def _parsed(stream: Iterator[bytes], records: Records) -> Iterator[dict[str, np.ndarray]]:
    """Yields the features of many serialized records at a time; all have masks."""
    rules = None if records.info.has_masks else MaskingRules.of(records)
    for number in itertools.count():
        serialized = list(itertools.islice(stream, EVALUATION_ROWS))
        if not serialized:
            return
        features = parse_batch(serialized, records)
        if rules is not None:
            length = records.max_seq_length
            bits = draw_bits(EVALUATION_SEED, number, EVALUATION_ROWS, length, rules)
            features = redraw_masks(features, bits[: len(serialized)], rules, MASKED_LM_PROB)
        yield features


def _whole_batches(
    chunks: Iterator[dict[str, np.ndarray]], batch_size: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches with `example_weights`, which are 0 for the rows that fill up the last one."""
    left: dict[str, np.ndarray] = {}
    for chunk in itertools.chain(chunks, [None]):
        if chunk is None:
            missing = -len(left.get("input_ids", ())) % batch_size
            left = {
                name: np.pad(value, [[0, missing], *([[0, 0]] * (value.ndim - 1))])
                for name, value in left.items()
            }
        else:
            chunk["example_weights"] = np.ones(len(chunk["input_ids"]), np.float32)
            left = {n: np.concatenate([left[n], v]) if left else v for n, v in chunk.items()}
        while len(left.get("input_ids", ())) >= batch_size:
            yield {name: value[:batch_size] for name, value in left.items()}
            left = {name: value[batch_size:] for name, value in left.items()}


# A loss per token compares only encoders of one vocabulary, since the tokens of another one have
# other lengths. A loss per character compares those of all vocabularies.
CHARACTERS, LOSS_PER_CHARACTER = "characters_per_token", "masked_lm_loss_per_character"
# Records that are read at once.
_ROWS_COUNTED = 4096


def predicted_tokens(records: Records) -> np.ndarray:
    """Returns how often each token is to be predicted, int64 [tokens of the vocabulary]."""
    counts = np.zeros(len(records.vocabulary), np.int64)
    for features in evaluation_batches(records, _ROWS_COUNTED):
        ids, weights = features["masked_lm_ids"], features["masked_lm_weights"]
        counts += np.bincount(ids[weights > 0], minlength=len(counts))
    return counts


def commonest_token_accuracy(predicted: Mapping[str, np.ndarray]) -> float:
    """Returns the share of the predictions whose label is the commonest one.

    It is the best accuracy without reading the input, so a masked LM has to beat it.

    Args:
      predicted: name of the source -> see `predicted_tokens`.
    """
    counts = sum(predicted.values())
    return float(counts.max() / max(counts.sum(), 1))


def losses_per_character(
    results: Mapping[str, float], predicted: Mapping[str, np.ndarray], characters: np.ndarray
) -> dict[str, float]:
    """Returns the masked LM losses in nats for each character, and the characters of a token.

    The sum of the losses of all predictions is divided by the characters of their tokens.

    Args:
      results: metrics of the held-out data; those of a source as "NAME/metric".
      predicted: name of the source -> see `predicted_tokens`; "" is the name of all text.
      characters: number of characters of each token, int [tokens].
    """
    found = {}
    named = {f"{name}/": counts for name, counts in predicted.items() if name}
    for prefix, counts in {"": sum(predicted.values()), **named}.items():
        of_all = int(counts @ characters)
        if not of_all:
            continue
        found[prefix + CHARACTERS] = of_all / int(counts.sum())
        loss = results[f"{prefix}masked_lm_loss"]
        found[prefix + LOSS_PER_CHARACTER] = loss / found[prefix + CHARACTERS]
    return found


def describe_characters(results: Mapping[str, float], names: Iterable[str]) -> str:
    """Returns the line about the losses per character of all held-out data and each source.

    Args:
      results: see `losses_per_character`.
      names: names of the sources.
    """

    def describe(prefix: str) -> str:
        return (
            f"{results[prefix + LOSS_PER_CHARACTER]:.3f} "
            f"({results[prefix + CHARACTERS]:.2f} characters a token)"
        )

    if CHARACTERS not in results:
        return "masked lm loss per character: none, as no token that is predicted has one"
    parts = [
        f"{name} {describe(name + '/')}" for name in names if f"{name}/{CHARACTERS}" in results
    ]
    return "; ".join([f"masked lm loss per character: {describe('')}", *parts])
