"""Stand-ins for the commands of a retraining, which write only what the next step looks for."""

import json
import pathlib

from beambert.cli import COMMANDS
from beambert.errors import InputError
from beambert.pipelines.corpus.sources import parse_sources
from beambert.pipelines.input_files import match_inputs, match_sources
from beambert.pipelines.pretraining.plan import new_inputs
from beambert.pipelines.records.contract import RecordsInfo


class KilledError(BaseException):
    """The process is gone: nothing after it runs."""


class Commands:
    """Stands in for the commands; each writes what the real one leaves on disk.

    Attributes:
      accuracies: of the classifier that a run's folder name ends with.
      ran: (step, arguments) of all that ran to their end.
      kill: a step that is killed, once, and how; or "between lengths" of the records.
    """

    def __init__(self):
        self.accuracies = {}
        self.ran = []
        self.kill = None
        self.fail = None

    def __call__(self, step, arguments):
        flags, _ = COMMANDS[arguments[0]].build_parser().parse_known_args(arguments[1:])
        if step == self.fail:
            raise InputError(f"the step {step} failed")
        output = pathlib.Path(getattr(flags, "output", None) or flags.model_dir)
        (output if step != "serving" else output / "_tmp-0-0").mkdir(parents=True, exist_ok=True)
        if (step, "half-way") == self.kill:
            self._die()
        getattr(self, f"_{arguments[0]}")(flags, output)
        self.ran.append((step, flags))
        if (step, "after") == self.kill:
            self._die()

    def _die(self):
        self.kill = None
        raise KilledError

    def _data(self, flags, output):
        sources = parse_sources(flags.source)
        inputs = match_sources(sources) if sources else match_inputs(flags.input)
        if flags.leave_out:
            named = pathlib.Path(flags.leave_out).read_text().splitlines()
            inputs = [file for file in inputs if file.path not in named]
        if flags.since:
            inputs = new_inputs(inputs, flags.since, flags.output)
        info = RecordsInfo({}, {}, [vars(file) for file in inputs], [], {}, {})
        lengths = flags.max_seq_length
        for folder in [output] if len(lengths) == 1 else [output / str(n) for n in lengths]:
            folder.mkdir(exist_ok=True)
            (folder / "info.json").write_text(info.to_json())
            (folder / "_SUCCESS").write_text("{}")
            if self.kill == "between lengths":
                self._die()

    def _pretrain(self, flags, output):
        for records in filter(None, (flags.data, flags.long_data)):
            assert pathlib.Path(records, "_SUCCESS").exists()
        self._finetune(flags, output)

    def _finetune(self, flags, output):
        (output / "checkpoints" / "ckpt-000001").mkdir(parents=True, exist_ok=True)
        (output / "_SUCCESS").write_text("{}")

    def _evaluate(self, flags, output):
        accuracy = self.accuracies[pathlib.Path(flags.model).parent.name]
        is_blessed = accuracy >= (flags.threshold[0] if flags.threshold else 0.5)
        if flags.baseline:
            served = json.loads(pathlib.Path(flags.baseline, "metrics.json").read_text())
            is_blessed &= accuracy >= served["overall"]["accuracy"] + flags.min_change
        metrics = {"overall": {"accuracy": accuracy}, "examples": 100}
        (output / "metrics.json").write_text(json.dumps(metrics))
        marker = output / ("BLESSED" if is_blessed else "NOT_BLESSED")
        marker.write_text(f"accuracy {accuracy}\n")
        (output / "_SUCCESS").write_text("{}")

    def _export(self, flags, output):
        (output / "_tmp-0-0").rmdir()
        version = output / str(flags.version)
        version.mkdir()
        (version / "model").write_text(flags.model)
        (version / "saved_model.pb").write_text("")


def served(config) -> dict[str, str]:
    """Returns the model of each served version."""
    folder = pathlib.Path(config.workspace, "serving")
    return {path.name: (path / "model").read_text() for path in folder.glob("[0-9]*")}


def taken(config, number: int) -> list[str]:
    """Returns the names of the files that a run took."""
    path = pathlib.Path(config.workspace, "runs", f"{number:06d}", "records", "info.json")
    return [
        pathlib.Path(one_input["path"]).name for one_input in json.loads(path.read_text())["inputs"]
    ]
