"""`make setup` installs a TensorBoard that reads what the trainer writes."""

import json

import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.program import TensorBoard

from beambert.trainer.loop.config import TrainingFolders
from beambert.trainer.loop.trackers import open_trackers


def test_tensorboard_reads_the_events_of_a_training(tmp_path):
    with open_trackers(TrainingFolders(str(tmp_path)), None) as trackers:
        trackers.start({}, 0)
        for step, loss in ((10, 3.5), (20, 2.25)):
            trackers.log(step, "train", {"loss": loss})
        trackers.save()
    events = EventAccumulator(str(tmp_path / "tensorboard" / "train")).Reload()
    scalars = [(e.step, float(tf.make_ndarray(e.tensor_proto))) for e in events.Tensors("loss")]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert scalars == [(row["step"], row["loss"]) for row in rows] == [(10, 3.5), (20, 2.25)]


def test_its_server_starts(tmp_path):
    program = TensorBoard()
    program.configure(argv=["", f"--logdir={tmp_path}", "--port=0", "--load_fast=false"])
    assert program.launch().startswith("http://")
