"""Runs commands side by side, each with a time limit, and prints a table of what became of them.

A command that passes its limit is a failure: the stacks of all its processes are printed before they are ended. A command
that ends with 77 was skipped; its lines `skipped: REASON`, or those of pytest, say why. Other commands may print such lines for what they leave out.

scripts/test, scripts/cuda-suites and scripts/run-gpu-tests use it.
"""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from processes import family, is_launcher, kill, parent_of, print_stacks

SKIPPED = 77
# The launcher of Open MPI 4.1 sometimes hangs in its end, in PMIx_server_finalize, after all ranks have ended. After this number of
# seconds without a rank it is ended.
LAUNCHER_LIMIT = 30


@dataclass
class Job:
    """A command, with its limit in seconds, its own variables, and how many cores it keeps busy."""

    name: str
    command: list
    limit: int
    env: dict = field(default_factory=dict)
    cores: int = 1
    # Judges a command that has ended by its exit code and its output: an error, or nothing if it has passed.
    judge: object = None


@dataclass
class Outcome:
    """The result of a job: `passed`, `skipped`, `FAILED`, `HUNG`, `ENDED` or `NOT RUN`, and the times in seconds."""

    job: object
    how: str
    wall: float = 0.0
    cpu: float = 0.0
    reasons: list = field(default_factory=list)

    def is_good(self):
        return self.how in ("passed", "skipped")

    def row(self):
        return f"{self.job.name:<28} {self.how:<8} {self.wall:7.1f} {self.cpu:7.1f}  {'; '.join(self.reasons)}".rstrip()


HEAD = f"{'part':<28} {'result':<8} {'wall s':>7} {'CPU s':>7}  left out"


class Running:
    """A job that has begun. Its processes are a session of their own; ranks of MPI may leave it, and are found by their parents."""

    def __init__(self, job, logs):
        self.job, self.log, self.begun = job, Path(logs) / f"{job.name}.log", time.monotonic()
        # Launchers without ranks, and since when; when they were looked for; those that were ended.
        self.childless, self.looked, self.ended_launchers = {}, self.begun, 0
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.with_suffix(".launcher").unlink(missing_ok=True)
        with open(self.log, "wb") as out:
            # The shell has jobs in the background ignore SIGINT, which some tests send.
            self.process = subprocess.Popen(job.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env={**os.environ, **job.env}, start_new_session=True)

    def poll(self):
        """The outcome, once the command has ended; ends it if it has passed its limit."""
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        wall, code, hung = time.monotonic() - self.begun, None, False
        if pid == 0:
            if wall < self.job.limit:
                self.end_launchers()
                return None
            hung = True
            with open(self.log, "a") as out:
                print(f"\nnot ended within {self.job.limit} s; the stacks of its processes:", file=out, flush=True)
                processes = family(self.process.pid)
                print_stacks(processes, out)
            for process in processes:
                kill(process, signal.SIGTERM)
            time.sleep(1)
            for process in sorted({*processes, *family(self.process.pid)}):
                kill(process, signal.SIGKILL)
            _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = code = os.waitstatus_to_exitcode(status)
        text = self.log.read_text(errors="replace")
        # Of pytest's lines without the place, which differs for each test.
        reasons = list(dict.fromkeys(re.findall(r"^(?:skipped:|SKIPPED \[\d+\] \S+:\d+:) (.*)", text, re.M)))
        if self.ended_launchers:
            reasons.append(f"Open MPI's launcher hung after its ranks had ended, and was ended: {self.ended_launchers} times")
        error = None if self.job.judge is None or hung else self.job.judge(code, text)
        if hung:
            how, reasons = "HUNG", [f"not ended within {self.job.limit} s"]
        elif error:
            how, reasons = "FAILED", [error]
        elif code == SKIPPED and self.job.judge is None:
            how, reasons = "skipped", reasons or (text.strip().splitlines() or ["it does not say why"])[-1:]
        elif code != 0 and self.job.judge is None:
            how, reasons = "FAILED", [f"exit code {code}"]
        else:
            how = "passed"
        return Outcome(self.job, how, wall, usage.ru_utime + usage.ru_stime, reasons)

    def end_launchers(self):
        """Ends launchers of Open MPI that hang though their ranks have ended. A file beside the log says so."""
        now = time.monotonic()
        if now < self.looked + 5:
            return
        self.looked = now
        parents = {parent_of(process) for process in family(self.process.pid)}
        idle = [process for process in family(self.process.pid) if process not in parents and is_launcher(process)]
        self.childless = {process: self.childless.get(process, now) for process in idle}
        for process in [process for process, since in self.childless.items() if now - since > LAUNCHER_LIMIT]:
            with open(self.log, "a") as out:
                print("\na launcher without ranks:", file=out, flush=True)
                print_stacks([process], out)
            self.log.with_suffix(".launcher").touch()
            self.ended_launchers += 1
            kill(process, signal.SIGKILL)

    def end(self):
        """Ends the command and all its processes."""
        for process in family(self.process.pid):
            kill(process, signal.SIGKILL)
        self.process.wait()


def run_jobs(jobs, cores, logs, *, keep_going=True, before=None, told=None):
    """Runs the jobs in their order, as many at once as there are cores for them, and returns their outcomes.

    `before(job)`, asked until it answers, says whether a job can begin: nothing while it is not known, `""` if it can, otherwise
    why it is skipped. `told(outcome)` hears of each outcome. Unless `keep_going`, no job begins after one has failed. An interrupt
    ends what is running.
    """
    waiting, running, outcomes = list(jobs), [], []

    def is_over(outcome):
        outcomes.append(outcome)
        if told is not None:
            told(outcome)

    try:
        while waiting or running:
            if not keep_going and any(not outcome.is_good() for outcome in outcomes):
                for job in waiting:
                    is_over(Outcome(job, "NOT RUN"))
                waiting = []
            free = cores - sum(min(one.job.cores, cores) for one in running)
            for job in list(waiting):
                answer = "" if before is None else before(job)
                if answer:
                    waiting.remove(job)
                    is_over(Outcome(job, "skipped", reasons=[answer]))
                elif answer == "" and min(job.cores, cores) <= free:
                    waiting.remove(job)
                    running.append(Running(job, logs))
                    free -= min(job.cores, cores)
                elif answer == "":
                    # Later jobs do not overtake this one, or it would never get all the cores that it needs.
                    break
            for one in list(running):
                outcome = one.poll()
                if outcome is not None:
                    running.remove(one)
                    is_over(outcome)
            time.sleep(0.02)
    except BaseException:
        for one in running:
            one.end()
            is_over(Outcome(one.job, "ENDED", time.monotonic() - one.begun))
        for job in waiting:
            is_over(Outcome(job, "NOT RUN"))
        raise
    return outcomes


def print_table(outcomes, out=sys.stdout):
    """Prints a line for each outcome, and returns whether all have passed or were skipped."""
    print(HEAD, file=out)
    for outcome in outcomes:
        print(outcome.row(), file=out)
    bad = sum(not outcome.is_good() for outcome in outcomes)
    skipped = sum(outcome.how == "skipped" for outcome in outcomes)
    wall, cpu = (sum(getattr(outcome, name) for outcome in outcomes) for name in ("wall", "cpu"))
    print(f"{len(outcomes) - bad - skipped} passed, {bad} failed, {skipped} skipped; {wall:.0f} s, {cpu:.0f} s of CPU", file=out)
    return bad == 0
