"""The training loop: draw, differentiate, step, log, validate, save; stops at a limit, a signal or bad numbers."""

import math
import time
from functools import partial

import torch

from headwise.errors import DataError, Diverged, MachineError
from headwise.runs.checkpoints import Checkpoints
from headwise.runs.log import RunLog
from headwise.runs.publish import DATA, publish
from headwise.runs.tensors import TensorFile
from headwise.training import numerics
from headwise.training.filming import Filming
from headwise.training.limits import Budget, Clock, Used
from headwise.training.optimizers import learning_rate, set_learning_rate
from headwise.training.parallel import Engine, Share, share_of_step
from headwise.training.reporter import Reporter
from headwise.training.saving import save_checkpoint, write_at_first
from headwise.training.session import Session, weight_files
from headwise.training.signals import Stopped, StopSignal, stopped_by
from headwise.training.validation import monitored, smaller_is_better, validate

_MOST_SKIPPED_IN_A_ROW = 10


class Loop:
    """Trains a session to its end.

    The state changes only by a whole step or a whole validation, and all of it is in the session; so a checkpoint
    between any two of them continues to the same bits.
    """

    def __init__(self, session: Session, checkpoints: Checkpoints, log: RunLog, stop: StopSignal, clock: Clock) -> None:
        self.session = session
        self._config = session.recipe.training
        self._checkpoints = checkpoints
        self._log = log
        self._stop = stop
        self._budget = Budget(session, clock)
        self._processes = session.processes
        note = log.note if self._config.compile else None
        self._engine = Engine(session.objective, session.kind, session.processes, session.device, note)
        self._parameters = [parameter for parameter in session.model.parameters() if parameter.requires_grad]
        self._device = session.device
        progress = session.progress
        # the state of the latest checkpoint: step and last validated step
        self._saved = (progress.step, progress.validated_step) if progress.step else None
        # the best weights until they are published
        self._best: TensorFile | None = None
        self._without_tokens = 0
        self._report = Reporter(session, log, self._budget)
        self._film = Filming(session, checkpoints, log.note)

    def run(self) -> str:
        """Trains until a limit and says which: max_steps, max_epochs, max_cpu_s, max_minutes or patience.

        Raises: Stopped after a signal, with everything saved; Diverged; MachineError.
        """
        self.session.model.train()
        self._budget.begin()
        progress = self.session.progress
        progress.schedule_from = self._processes.numbers(progress.schedule_from)[0][0]
        self._report.begin()
        self._film.begin()
        try:
            while True:
                used = self._used()
                reason = self._end_reason(used)
                if self._validation_due(at_end=reason is not None):
                    self._validate()
                elif reason is not None:
                    break
                else:
                    self._step(used)
                    self._after_step()
        except Stopped as stopped:
            self.save(retry=False)
            step = self.session.progress.step
            message = f"{stopped} after step {step}; everything is saved: run the same command to resume"
            # all of them raise it, and one says it
            raise Stopped(stopped.signum, message).reported_by(self._processes.first) from None
        self._film.follow(last=True)
        self.save(retry=False)
        return reason

    def save(self, *, retry: bool) -> bool:
        """Commits a checkpoint unless this state is saved; False when the disk refused and it is to be tried again.

        Raises: MachineError when the disk refuses and `retry` is not set.
        """
        progress = self.session.progress
        state = (progress.step, progress.validated_step)
        if self._saved == state:
            return True
        self._budget.clock.save_to(progress)
        self._log.sync()
        protected = progress.protected(entry.step for entry in self._checkpoints.entries())
        files = self.session.files()
        try:
            path = save_checkpoint(self._processes, self._checkpoints, progress.step, files, protected, self._log.note)
        except MachineError as error:
            if not retry:
                raise
            self._log.note(f"checkpoint of step {progress.step} not saved, to be tried again at the next: {error}")
            return False
        self._saved = state
        self._log.emit({"event": "checkpoint", "step": progress.step, "path": str(path)})
        best, self._best = self._best, None
        if best is not None:
            self._publish(best, retry=retry)
        return True

    def _used(self) -> Used:
        """The used limits, by the clock of the first process. Raises: Stopped if a signal came to any process."""
        used = self._budget.used()
        names = list(self._budget.shares())
        shared = self._processes.numbers(self._stop.signum, names.index(used.limit), used.share)
        if signum := int(max(signum for signum, *_ in shared)):
            raise stopped_by(signum)
        _, index, share = shared[0]
        return Used(names[int(index)], share)

    def _end_reason(self, used: Used) -> str | None:
        progress, config = self.session.progress, self._config
        if used.share >= 1.0:
            return used.limit
        if config.patience and progress.since_best >= config.patience:
            return "patience"
        return None

    def _validation_due(self, *, at_end: bool) -> bool:
        progress, source, config = self.session.progress, self.session.source, self._config
        if not self.session.validates or progress.validated_step == progress.step:
            return False
        by_step = bool(config.validate_every) and progress.step % config.validate_every == 0
        between_epochs = source.position == 0 and source.epoch > 0
        by_epoch = bool(config.validate_every_epochs) and source.epoch % max(config.validate_every_epochs, 1) == 0
        return at_end or by_step or (between_epochs and by_epoch)

    def _step(self, used: Used) -> None:
        session, config, start = self.session, self._config, time.perf_counter()
        share = self._budget.done(used)
        batches = min(config.accumulate, session.source.size() - session.source.position)
        drawn = share_of_step(session.source, config.accumulate, self._processes, self._device)
        if not drawn.tokens:
            self._count_without_tokens(batches)
            return
        self._without_tokens = 0
        session.progress.step += 1
        set_learning_rate(session.optimizer, learning_rate(config, session.progress.step, share))
        try:
            loss, gradients = self._differentiate(drawn)
        except RuntimeError as error:
            out_of_memory = numerics.out_of_memory(error, session.progress.step, drawn.tokens, drawn.indices)
            raise (out_of_memory or error) from error
        norm = numerics.global_norm(gradients)
        self._update(*self._engine.reduce(*numerics.read_together(loss, norm)), drawn)
        session.optimizer.zero_grad(set_to_none=True)
        self._report.add_time(time.perf_counter() - start, drawn.tokens)

    def _differentiate(self, drawn: Share) -> tuple[torch.Tensor, list[torch.Tensor]]:
        total = torch.zeros((), device=self._device)
        for index, batch in enumerate(drawn.batches):
            real = index < drawn.real
            with self._engine.passing(last=index + 1 == len(drawn.batches)):
                with torch.autocast(self._device.type, torch.bfloat16, enabled=self._config.precision == "bf16"):
                    loss = self._engine(batch) / drawn.tokens
                # gradients are averaged over the processes; a batch that fills a gap does not count
                (loss if self._processes.world == 1 else loss * self._processes.world * real).backward()
            if real:
                total += loss.detach()
        return total, numerics.gradients(self._parameters)

    def _update(self, loss: float, norm: float, drawn: Share) -> None:
        session, progress = self.session, self.session.progress
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._skip(loss, norm, [row for rows in self._processes.gather(drawn.indices) for row in rows])
            return
        numerics.clip(self._parameters, norm, self._config.clip_norm)
        session.optimizer.step()
        progress.note_loss(loss, norm, drawn.tokens)
        if session.mean is not None:
            session.mean.update(progress.updates)

    def _skip(self, loss: float, norm: float, drawn: list[list[int]]) -> None:
        progress = self.session.progress
        progress.note_skip()
        reason = f"loss {loss:g}, gradient norm {norm:g}"
        self._log.emit({"event": "skipped", "step": progress.step, "reason": reason, "batches": drawn})
        self._log.note(f"step {progress.step} skipped: {reason}; its examples are in metrics.jsonl")
        numerics.check_finite(self.session.model.state_dict(), progress.step, self._processes)
        if progress.skipped_in_row >= _MOST_SKIPPED_IN_A_ROW:
            raise Diverged(
                f"training diverged: {progress.skipped_in_row} steps in a row up to step {progress.step} had no finite "
                f"loss and gradient ({reason}); lower training.learning_rate, raise training.warmup_steps or set "
                "training.precision = 'fp32', then resume from the last checkpoint or start again"
            ).reported_by(self._processes.first)

    def _count_without_tokens(self, batches: int) -> None:
        self._without_tokens += batches
        if self._without_tokens > 2 * self.session.source.size():
            empty = DataError("no example of the training data has a target token; is the target side empty?")
            raise empty.reported_by(self._processes.first)

    def _after_step(self) -> None:
        progress, config = self.session.progress, self._config
        self._film.follow()
        if progress.window_steps and progress.step % config.log_every == 0:
            self._report.steps()
        if self._log.display.due():
            self._report.show()
        self._report.forecast()
        by_step = config.save_every and progress.step and progress.step % config.save_every == 0
        if by_step and not self._validation_due(at_end=False):
            self.save(retry=config.on_disk_full == "retry")

    def _validate(self) -> None:
        progress, config = self.session.progress, self._config
        metrics, samples = validate(self.session, self._stop.breakable)
        value = monitored(config, metrics)
        smaller = smaller_is_better(self.session)
        improved = progress.note_validation(metrics, value, smaller, config.average_last)
        self._report.validation(metrics, samples, improved)
        self._film.validated()
        if improved:
            self._best = self.session.published_weights()
        saved = self.save(retry=config.on_disk_full == "retry")
        if improved and not saved and self._best is not None:
            # published as soon as the disk has room; until then training must not change it
            self._best = self._best.copy()

    def _publish(self, best: TensorFile, *, retry: bool) -> None:
        progress = self.session.progress
        files = {**self.session.model_files(), **weight_files(best)}
        try:
            point = partial(self._checkpoints.point_to_best, progress.best_step, progress.best_value)
            self._processes.once(point)
            facts = {"step": progress.best_step, "metrics": progress.best_metrics, DATA: self.session.digests}
            write_at_first(self._processes, files.values(), partial(publish, self._checkpoints.run, files, facts))
        except MachineError as error:
            if not retry:
                raise
            self._log.note(f"the best model, of step {progress.best_step}, is not published yet: {error}")
            self._best = best.copy()
