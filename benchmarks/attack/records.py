"""Damaged records, markers and info.json, for `verify` and `pretrain`."""

import shutil

from benchmarks.attack import mutators
from benchmarks.attack.trials import Family, FoundError, Trial


def _attempt(trial: Trial) -> str:
    generator = trial.generator
    records = trial.folder / "records"
    shutil.copytree(trial.material / "records", records)
    path = generator.choice([*sorted(records.glob("*")), *records.glob("*.tfrecord")])
    before = path.read_bytes()
    if path.suffix == ".tfrecord":
        way = generator.randrange(4)
        if way == 0:
            path.write_bytes(mutators.damage(generator, path.read_bytes())[1])
        elif way == 1:
            path.unlink()
        else:
            _damage_examples(trial, path)
    elif generator.random() < 0.1:
        path.unlink()
    elif path.name in ("info.json", "_SUCCESS"):
        path.write_bytes(mutators.damage_json(generator, path.read_bytes())[1])
    else:
        path.write_bytes(mutators.damage(generator, path.read_bytes(), is_text=True)[1])
    if generator.random() < 0.05:
        flags = ["--recipe=tiny", "--train_batch_size=8", "--num_train_steps=1"]
        flags += [
            f"--model={trial.material}/bert_config.json",
            f"--model_dir={trial.folder}/encoder",
        ]
        ended = trial.call("pretrain", f"--data={records}", *flags)
        return "trained on" if ended.status == 0 else "refused"
    target = records if generator.random() < 0.8 else f"{records}/*.tfrecord"
    flags = [f"--output={trial.folder}/verification"]
    if target != records or generator.random() < 0.3:
        flags.append(f"--vocab_file={trial.material}/vocab.txt")
    status = trial.call("verify", target, *flags).status
    is_changed = not path.exists() or path.read_bytes() != before
    if status == 0 and is_changed and path.suffix == ".tfrecord" and target == records:
        raise FoundError("silent loss", f"{path.name} is another one, and nothing is said")
    return {0: "sound", 1: "faults named", 2: "refused"}[status]


def _damage_examples(trial: Trial, path) -> None:
    """Writes records again, some of them damaged, all with the right checksums."""
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    generator = trial.generator
    found = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    for _ in range(generator.choice((1, 3, len(found)))):
        place = generator.randrange(len(found))
        if generator.random() < 0.4:
            found[place] = mutators.damage(generator, found[place])[1]
            continue
        try:
            example = tf.train.Example.FromString(found[place])
        except DecodeError:  # damaged before
            continue
        features = example.features.feature
        if not features:
            continue
        name = generator.choice(sorted(features))
        way = generator.randrange(4)
        if way == 0:
            del features[name]
        elif way == 1:
            features[name].bytes_list.value.append(generator.randbytes(9))
        elif way == 2:
            features[name].float_list.value.append(float(generator.choice(("nan", "inf", "1e30"))))
        else:
            values = list(features[name].int64_list.value) or [0]
            odd = generator.choice((-1, 2**31, 2**63 - 1, -(2**63), 129, 3))
            values[generator.randrange(len(values))] = odd
            features[name].int64_list.value[:] = values * generator.choice((1, 1, 2, 500))
        found[place] = example.SerializeToString()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in found:
            writer.write(record)


FAMILY = Family("records", 0.05, _attempt)
