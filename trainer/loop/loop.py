"""The training loop: several updates in one graph call, then log, evaluate and save."""

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from beambert import process
from beambert.console import show_progress
from beambert.errors import InputError
from beambert.trainer.loop.checkpoints import Checkpoints, best_step, is_over
from beambert.trainer.loop.config import LoopConfig, TrainingFolders
from beambert.trainer.loop.engine import agree, check_same_step
from beambert.trainer.loop.progress import Meter, describe_metrics, describe_name
from beambert.trainer.loop.steps import NotFinite, Phase, Trainer
from beambert.trainer.loop.trackers import TrainingLog, rounded


class Interrupted(SystemExit):
    """Training was asked to stop and has saved its state."""


class _Stop:
    """A context manager that catches SIGTERM, Ctrl-C, and SIGHUP unless that is ignored.

    The loop then saves and ends after the graph call that is running. A second Ctrl-C interrupts at
    once. Python gives signals to the main thread only, so in another thread nothing is caught.
    """

    def __init__(self):
        self._received: int | None = None

    def __enter__(self) -> "_Stop":
        is_main = threading.current_thread() is threading.main_thread()
        numbers = [signal.SIGTERM, signal.SIGINT] if is_main else []
        if is_main and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        self._previous = {number: signal.signal(number, self._receive) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _: object) -> None:
        self._received = number
        if number == signal.SIGHUP:
            process.leave_terminal()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # The signal may have interrupted a `print`, which cannot be called again then.
            os.write(2, b"will save and stop; Ctrl-C again interrupts at once\n")

    @property
    def requested(self) -> bool:
        """Whether a signal has asked the loop to end."""
        return self._received is not None

    @property
    def exit_status(self) -> int:
        """Exit status of a process that the signal ended; other workers take that of SIGTERM."""
        return 128 + (self._received or signal.SIGTERM)


def train(
    trainer: Trainer,
    phases: Sequence[Phase],
    config: LoopConfig,
    output: TrainingFolders,
    configuration: Mapping[str, Any] | None = None,
    check_lock: Callable[[], None] = lambda: None,
    evaluates_first: bool = False,
) -> dict[str, float]:
    """Trains to the last step, from the newest checkpoint in the folder if there is one.

    With `config.patience` it may stop earlier, and the model gets the best weights at the end.

    Args:
      trainer: trainer that has not done any step.
      phases: phases of the training, in their order.
      config: parameters of the loop.
      output: folders for checkpoints, `metrics.jsonl` and TensorBoard's events.
      configuration: content of training.json, for a tracker; None for nothing.
      check_lock: called before anything is saved; raises an `InputError` if another process has
        taken the folders.
      evaluates_first: whether the weights are evaluated before the first step, too.

    Returns:
      the metrics of the model on all held-out data of the last phase; empty if there are none.

    Raises:
      InputError: no checkpoint can be read or written, the loss is not finite, or another process
        has taken the folders.
      Interrupted: a signal ended the training, and everything is saved.
    """
    run = _Training(trainer, phases, config, output, check_lock)
    run.log.start(configuration or {}, trainer.steps_done)
    with _batches_released(), run.log, run.checkpoints:
        with _Stop() as stop:
            if evaluates_first:
                run.evaluate_at_the_beginning()
            run.train_to_last_step(stop)
        # Everything is saved now. If the evaluation is interrupted, the same command repeats it.
        return run.evaluate_at_the_end()


@contextlib.contextmanager
def _batches_released() -> Iterator[None]:
    """Deletes what the functions of an error's traceback hold.

    A thread of TensorFlow that still makes batches would keep Python from ending.
    """
    try:
        yield
    except BaseException as error:
        found: BaseException | None = error
        while found:
            traceback.clear_frames(found.__traceback__)
            found = found.__context__
        raise


class _Training:
    """The state of one call of `train`."""

    def __init__(
        self,
        trainer: Trainer,
        phases: Sequence[Phase],
        config: LoopConfig,
        output: TrainingFolders,
        check_lock: Callable[[], None],
    ):
        """Restores the newest checkpoint."""
        self._trainer = trainer
        self._phases = phases
        self._config = config
        self._output = output
        self._check_lock = check_lock
        self.checkpoints = Checkpoints(output, config.keep_checkpoints)
        # All hosts know them, since they decide together when to stop.
        self._evaluations: dict[int, dict[str, float]] = {}
        if found := self.checkpoints.restore_newest(trainer.restore):
            path, self._evaluations = found
            print(f"continuing from step {trainer.steps_done:,} ({path})", flush=True)
        check_same_step(trainer.engine, trainer.steps_done)
        self._chief = trainer.engine.is_chief
        self.log = TrainingLog(output, config.tracker, writes=self._chief)

    def train_to_last_step(self, stop: _Stop) -> None:
        """Trains, evaluates and saves; ends early if a signal asks for it."""
        phase = iterator = None
        if self._config.keep_checkpoints is None and self._chief and not self._trainer.steps_done:
            self._save(0)
        while True:
            step = self._trainer.steps_done
            if step < self._last and phase is not self._phase_at(step):
                phase = self._phase_at(step)
                iterator, self._meter = None, self._meter_of(phase)
            # If workers ran different numbers of steps, they would wait for each other for ever.
            steps_a_call = self._meter.steps_a_call() if phase else 1
            steps_a_call, stops = agree(self._trainer.engine, steps_a_call, stop.requested)
            if stops:
                self._interrupt(step, stop.exit_status)
            if step >= self._last or self._stops_early(step):
                return
            iterator = iterator or iter(phase.batches_from(step))
            steps = min(steps_a_call, self._next_boundary(step, phase) - step)
            self._train_steps(iterator, step, steps)
            self._evaluate_and_save(step + steps, phase)

    def evaluate_at_the_beginning(self) -> None:
        """Evaluates the initial weights, unless that is done or the training has begun."""
        phase = self._phases[0]
        if phase.evaluation and self._trainer.steps_done == 0 and 0 not in self._evaluations:
            self._evaluate(0, phase)

    def evaluate_at_the_end(self) -> dict[str, float]:
        """Returns the metrics on all held-out data; sets the best weights if they are kept."""
        phase, step = self._phases[-1], self._trainer.steps_done
        metrics, read = {}, 0
        show = show_progress("batches evaluated", self._print, phase.evaluation_seconds)

        def report(done: int) -> None:
            nonlocal read
            read = done
            if done > 1:  # The first one compiles.
                show(done, phase.evaluation_batches)

        if phase.evaluation:
            metrics = self._trainer.evaluate(
                phase.evaluation(None), report, phase.score, phase.evaluation_seconds
            )
        if metrics:
            self._log_evaluation(step, metrics)
            self._print(f"held out at the end: {describe_metrics(metrics)}")
        if read < phase.evaluation_batches:
            share = read / phase.evaluation_batches
            self._print(f"these are of {share:.0%} of what is held out, as the budget is short")
        if self._chief:
            self._check_lock()
        self.log.save()
        if metrics and self._config.patience is not None:
            metrics = self._take_best(step, metrics)
        return metrics

    def _take_best(self, step: int, metrics: dict[str, float]) -> dict[str, float]:
        """Sets the best weights, and returns their metrics."""
        best = best_step(self._evaluations, self._config.best_metric)
        if best == step:
            return metrics
        self._trainer.set_weights(self.checkpoints.read_best(best))
        phase = self._phases[-1]
        found = self._trainer.evaluate(phase.evaluation(None), score=phase.score)
        name = describe_name(self._config.best_metric)
        self._print(f"best {name} on held-out data: step {best:,}, {describe_metrics(found)}")
        return found

    def _is_over(self) -> bool:
        """Returns whether the last evaluations were no better than one before them."""
        patience, metric = self._config.patience, self._config.best_metric
        return patience is not None and is_over(self._evaluations, metric, patience)

    def _stops_early(self, step: int) -> bool:
        """Prints and returns whether the training is over before its last step."""
        if not self._is_over():
            return False
        metric = self._config.best_metric
        self._print(
            f"stopped early at step {step:,} of {self._last:,}: none of the "
            f"{self._config.patience} evaluations after step "
            f"{best_step(self._evaluations, metric):,} has a better {describe_name(metric)}"
        )
        return True

    @property
    def _last(self) -> int:
        return self._phases[-1].last_step

    def _phase_at(self, step: int) -> Phase:
        return next(phase for phase in self._phases if step < phase.last_step)

    def _meter_of(self, phase: Phase) -> Meter:
        later = self._phases[self._phases.index(phase) + 1 :]
        firsts = [phase.last_step, *(other.last_step for other in later)]
        tokens_later = sum(
            (other.last_step - first) * other.tokens_a_step
            for other, first in zip(later, firsts, strict=False)
        )
        return Meter(self._last, phase, tokens_later)

    def _print(self, line: str) -> None:
        if self._chief:
            print(line, flush=True)

    def _next_boundary(self, step: int, phase: Phase) -> int:
        boundaries = [
            phase.last_step,
            _next_multiple(step, self._config.save_checkpoints_steps),
        ]
        if phase.evaluation:
            boundaries.append(_next_multiple(step, self._config.eval_steps))
        return min(boundaries)

    def _interrupt(self, step: int, exit_status: int) -> NoReturn:
        if self._chief:
            self._save(step)
        self._print(
            f"stopped at step {step:,} of {self._last:,} and saved in {self._output.model_dir}; "
            "the same command continues"
        )
        raise Interrupted(exit_status)

    def _train_steps(self, iterator: Any, step: int, steps: int) -> None:
        """Runs one graph call from a step on and logs its metrics."""
        if not self._meter.has_compiled:
            self._print("compiling the training step …")
        self._meter.restart()
        try:
            metrics = self._trainer.train_steps(iterator, steps)
        except NotFinite as error:
            raise self._not_finite(*error.args) from error
        step += steps
        rate = self._trainer.learning_rate(step - 1)
        speed = self._meter.update(step, steps)
        self.log.log(step, "train", metrics | {"learning_rate": rate} | speed)
        if self._chief and (self._meter.is_due() or step == self._last):
            print(self._meter.line(step, metrics, rate), flush=True)

    def _not_finite(self, step: int, metrics: Mapping[str, float]) -> InputError:
        first = begun = 0
        for phase in self._phases:
            end = min(phase.last_step, step)
            first += (end - begun) * phase.sequences_a_step
            begun = end
        batch = self._phase_at(step).sequences_a_step
        return InputError(
            f"{self._output.model_dir}: since step {step} the loss is {metrics['loss']} and "
            f"the gradient's norm is {metrics['gradient_norm']} (the batch of that step has the "
            f"sequences {first} to {first + batch - 1}, seed {self._config.random_seed}); "
            "lower --learning_rate, or delete the newest checkpoints in "
            f"{self._output.checkpoint_dir} to start from an earlier one"
        )

    def _evaluate_and_save(self, step: int, phase: Phase) -> None:
        config = self._config
        is_saved = step % config.save_checkpoints_steps == 0 or step == self._last
        if phase.evaluation and step % config.eval_steps == 0 and step < self._last:
            self._evaluate(step, phase)
            if config.patience is not None and self._chief:
                self._keep_if_best(step)
            # A run that is resumed then has nothing left but the evaluation at the end.
            is_saved |= self._is_over()
        if self._chief and is_saved:
            self._save(step)

    def _evaluate(self, step: int, phase: Phase) -> None:
        """Evaluates on some of a phase's held-out data, and logs the metrics."""
        batches = phase.evaluation(self._config.max_eval_batches)
        held_out = self._trainer.evaluate(
            batches, score=phase.score, seconds=phase.evaluation_seconds
        )
        self._log_evaluation(step, held_out)
        self._print(f"held out at step {step:,}: {describe_metrics(held_out)}")

    def _keep_if_best(self, step: int) -> None:
        metric = self._config.best_metric
        if best_step(self._evaluations, metric) == step:
            self.checkpoints.wait()
            self._check_lock()
            weights = self._trainer.weights()
            self.checkpoints.save_best(step, weights, self._evaluations, metric)

    def _log_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        self.log.log(step, "eval", metrics)
        self._evaluations[step] = rounded(metrics)

    def _save(self, step: int) -> None:
        self.checkpoints.wait()
        self._check_lock()
        self.log.save()
        self.checkpoints.save(step, self._trainer.state(), self._evaluations)


def _next_multiple(step: int, interval: int) -> int:
    return (step // interval + 1) * interval
