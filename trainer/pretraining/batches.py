"""Records folders -> batches. They are deterministic, sharded by host and resumable at any step.

Sequences are dealt to batches so that all batches have nearly equally many tokens. A fixed number
of rows is then enough for the tokens of nearly every batch.
"""

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from beambert.pipelines.records.contract import MASKED_LM_PROB
from beambert.trainer.loop.objectives import fill_up
from beambert.trainer.pretraining.masks import MaskingRules, draw_bits, rates_at, redraw_masks
from beambert.trainer.pretraining.records import Records, open_file, parse_batch

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
    features: dict[str, tf.Tensor],
    batches: int,
    parts: int,
    shares: Sequence[int] = (0,),
    all_shares: int = 1,
) -> dict[str, tf.Tensor]:
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
    lengths = tf.reduce_sum(features["input_mask"], axis=1)
    count = len(shares)
    order = tf.argsort(-tf.transpose(tf.reshape(lengths, [-1, count])), stable=True)
    dealt = _deal(order, batches) * count + tf.range(count)[:, None, None]
    # A batch gets piles of different numbers from the shares, since the first piles of a share have
    # other lengths than the last.
    shifts = tf.constant(list(shares))[:, None] * batches // all_shares
    piles = (tf.range(batches) + shifts) % batches
    dealt = tf.gather(dealt, piles, batch_dims=1)
    rows = tf.reshape(tf.transpose(dealt, [1, 0, 2]), [batches, -1])
    order = tf.argsort(-tf.gather(lengths, rows), stable=True)
    dealt = _deal(tf.gather(rows, order, batch_dims=1), parts)
    return {name: tf.gather(value, dealt) for name, value in features.items()}


def _deal(order: tf.Tensor, piles: int) -> tf.Tensor:
    """Deals [..., rows], longest first, to [..., piles, rows / piles], longest first.

    The direction changes after every round: the first pile of a round is the last of the next.
    """
    rounds = tf.reshape(order, [*order.shape[:-1], -1, piles])
    is_back = tf.range(tf.shape(rounds)[-2])[:, None] % 2 == 1
    return tf.linalg.matrix_transpose(tf.where(is_back, rounds[..., ::-1], rounds))


# This many files are read at once, a record from each in turn, which mixes the shards in a batch.
FILES_AT_ONCE = 16
# Number of bytes that are read from a file at a time.
READ_BUFFER = 1 << 20
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


def _in_turn(names: tf.Tensor, records: Records, shortened_by: int = 0) -> tf.data.Dataset:
    """Returns serialized records, one of each file in turn, for `FILES_AT_ONCE` files at a time.

    Args:
      names: string [files], paths of the files.
      records: folder that they are in.
      shortened_by: number of records to leave out at the start of every file.
    """

    def read_file(name: tf.Tensor) -> tf.data.Dataset:
        # Skipping in a file passes over the records without copying them.
        return open_file(name, records, READ_BUFFER).skip(shortened_by)

    def read_files(names: tf.Tensor) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(names).interleave(
            read_file,
            cycle_length=FILES_AT_ONCE,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )

    return tf.data.Dataset.from_tensor_slices(names).batch(FILES_AT_ONCE).flat_map(read_files)


def _training_stream(records: Records, seed: int, first_record: int) -> tf.data.Dataset:
    """Returns serialized records, epoch after epoch, each with its own order of the files."""
    files = tf.constant(records.files)

    def order_of(epoch: tf.Tensor) -> tf.Tensor:
        seeds = [seed, tf.cast(epoch, tf.int32)]
        return tf.random.experimental.stateless_shuffle(tf.range(len(records.files)), seeds)

    epoch, index = divmod(first_record, records.instances)
    order = order_of(epoch)
    counts = [records.counts[file] for file in order.numpy()]
    first_file, rounds, rest = find_record(counts, index)
    names = tf.gather(files, order)[first_file:]
    current = _in_turn(names[:FILES_AT_ONCE], records, rounds).skip(rest)
    current = current.concatenate(_in_turn(names[FILES_AT_ONCE:], records))
    later = tf.data.Dataset.counter(epoch + 1).flat_map(
        lambda number: _in_turn(tf.gather(files, order_of(number)), records)
    )
    return current.concatenate(later)


# AutoGraph would take long and change nothing, as no `if` depends on a tensor's value.
@tf.autograph.experimental.do_not_convert
def training_batches(
    records: Records,
    batch_size: int,
    seed: int,
    first_step: int = 0,
    context: tf.distribute.InputContext | None = None,
    *,
    gradient_accumulation_steps: int = 1,
    rules: MaskingRules | None = None,
    steps_before: int = 0,
) -> tf.data.Dataset:
    """Returns endless batches, epoch after epoch.

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

    Returns:
      dataset of name -> int32 or float32 [batch_size / replicas, length].
    """
    context = context or tf.distribute.InputContext()
    hosts, host = context.num_input_pipelines, context.input_pipeline_id
    replicas = context.num_replicas_in_sync // hosts
    rows = batch_size // context.num_replicas_in_sync
    steps = steps_dealt(batch_size)
    shares = shares_of(batch_size, hosts)
    first_deal, steps_skipped = divmod(first_step, steps)

    def replica_batches(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        features = parse_batch(serialized, records)
        if rules is not None:
            # Rows take their bits with them to their step, whose rate decides on the masks.
            length = records.max_seq_length
            bits = draw_bits(seed, number, steps * batch_size, length, rules)
            features[_BITS] = bits[host::hosts]
        parts = replicas * gradient_accumulation_steps
        dealt = deal(features, steps, parts, range(host, shares, hosts), shares)
        if rules is not None:
            dealt = {n: tf.reshape(v, [-1, v.shape[-1]]) for n, v in dealt.items()}
            rates = rates_at(rules, steps_before + number * steps + tf.range(steps, dtype=tf.int64))
            rates = tf.repeat(rates, batch_size // hosts)
            dealt = redraw_masks(dealt, dealt.pop(_BITS), rules, rates)
        return {n: tf.reshape(v, [-1, rows, v.shape[-1]]) for n, v in dealt.items()}

    first_record = first_deal * steps * batch_size
    dataset = _training_stream(records, seed, first_record).shard(hosts, host)
    dataset = dataset.batch(steps * batch_size // hosts, drop_remainder=True)
    dataset = dataset.enumerate(first_deal)
    dataset = dataset.map(replica_batches, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return dataset.unbatch().skip(steps_skipped * replicas).prefetch(tf.data.AUTOTUNE)


@tf.autograph.experimental.do_not_convert
def evaluation_batches(
    records: Records,
    batch_size: int,
    max_batches: int | None = None,
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Returns all records once, or the first `max_batches` batches, in the order of the files.

    Records without masks get the paper's: 15 % of the tokens, of which 80 % become [MASK], 10 % a
    random token, and 10 % stay. They follow from a record's position in its folder.

    The last batch is filled up with empty rows, whose `example_weights` [batch] are 0.
    """
    dataset = _in_turn(tf.constant(records.files), records)
    if max_batches is not None:
        dataset = dataset.take(max_batches * batch_size)
    context = context or tf.distribute.InputContext()
    hosts, host = context.num_input_pipelines, context.input_pipeline_id

    def share(batch: tf.Tensor | dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        # The hosts share filled batches, so that all of them have equally many.
        features = parse_batch(batch, records) if records.info.has_masks else batch
        features = fill_up(features, batch_size)
        return {name: value[host::hosts] for name, value in features.items()}

    if not records.info.has_masks:
        dataset = _with_masks(dataset, records)
    dataset = dataset.batch(batch_size).map(share)
    replicas = context.num_replicas_in_sync
    return dataset.rebatch(batch_size // replicas, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def _with_masks(dataset: tf.data.Dataset, records: Records) -> tf.data.Dataset:
    """Returns the features of serialized records without masks, each with its own masks."""
    rules = MaskingRules.of(records)

    def masked(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        length = records.max_seq_length
        bits = draw_bits(EVALUATION_SEED, number, EVALUATION_ROWS, length, rules)
        features = parse_batch(serialized, records)
        return redraw_masks(features, bits[: tf.shape(serialized)[0]], rules, MASKED_LM_PROB)

    return dataset.batch(EVALUATION_ROWS).enumerate().map(masked).unbatch()


# A loss per token compares only encoders of one vocabulary, since the tokens of another one have
# other lengths. A loss per character compares those of all vocabularies.
CHARACTERS, LOSS_PER_CHARACTER = "characters_per_token", "masked_lm_loss_per_character"
# Records that are read at once.
_ROWS_COUNTED = 4096


def predicted_tokens(records: Records) -> np.ndarray:
    """Returns how often each token is to be predicted, int64 [tokens of the vocabulary]."""
    counts = np.zeros(len(records.vocabulary), np.int64)
    for features in evaluation_batches(records, _ROWS_COUNTED):
        ids, weights = features["masked_lm_ids"].numpy(), features["masked_lm_weights"].numpy()
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
