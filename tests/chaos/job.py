"""A job whose ranks sum without a pause, and check every element."""

import re
import time
from collections import Counter
from dataclasses import dataclass, field

# How the operations of a chunk are posted (fault-rank): the word for it, the share of the elements, the rounds.
WORKLOADS = {
    "out": ("out", 1.0, 8),
    "preserve": ("preserve", 1.0, 8),
    "small": ("in-place", 0.0, 50),      # of 4 KiB: the library keeps a copy
    "overwrite": ("in-place", 1.0, 8),   # in place without a copy: fails when a node is lost, and the job goes on
}
SMALL = 1024  # elements
FIRST_TAG = 7
QUEUED_S = 1.0  # ranks know what to do for about so long
LEAST_QUEUED = 4
SETTLE_S = 1.0  # after the first failure: the other ranks report theirs
_TIMED = re.compile(r"timed (\d+) wrong (\d+) longest (\d+) at (\d+) repairs (\d+)")
_SLOW = re.compile(r"slow (\d+) (\d+)")
_LOST_IN_PLACE = re.compile(r"\d+ node lost -?\d+ 1 \|")


@dataclass
class Record:
    """What all jobs of a run have done."""
    operations: int = 0
    wrong: int = 0        # elements
    excused: int = 0      # operations in place without a copy that failed for the loss of a node
    repairs: int = 0      # of jobs that are over
    jobs: int = 0         # that were started
    spans: list = field(default_factory=list)   # the slow operations, and the longest one of each chunk
    outages: list = field(default_factory=list)  # from the last operation of a job to the first of the next
    progress: list = field(default_factory=list)  # when operations have ended, and how many
    returns: list = field(default_factory=list)  # seconds, from the start of a rank's process until it takes part again
    refused: list = field(default_factory=list)  # why ranks could not return at once
    curve: dict = field(default_factory=dict)    # of a training: its loss


class Job:
    def __init__(self, world, record: Record, options, paused):
        """paused: returns the ranks that a fault has stopped."""
        self.world, self.record, self.options, self.paused = world, record, options, paused
        self.ranks = []
        self.last_progress = self.outage_since = time.monotonic()
        self.start()

    def start(self) -> None:
        """The ranks of a new job of the same name. Those of the last one must have ended."""
        self.ranks = [self._start_rank(rank) for rank in range(self.options.ranks)]
        self.ready = set()
        self.chunks = []                          # names of workloads, in the order in which they were sent
        self.results = [[] for _ in self.ranks]   # by rank and chunk: "well" or "excused"
        self.complete = 0                         # chunks that all ranks have ended
        self.chunk_s = 0.1                        # how long one takes, about
        self.last_progress = time.monotonic()
        self.repairs = 0
        self.failures = []                        # lines, with their ranks
        self.failed_at = 0.0
        self.draining = False
        self.record.jobs += 1

    def _start_rank(self, number: int):
        return self.world.start_rank("chaos", number, self.options.ranks, self._count())

    def _count(self) -> int:
        """The elements of the region of a rank."""
        return max(self.options.elements, SMALL)

    # -- faults of ranks -----------------------------------------------------------------------------

    def fault_begins(self, number: int) -> None:
        pass

    def fault_ends(self, number: int) -> None:
        """Where a rank was killed, the whole job starts anew."""

    # -- what happens --------------------------------------------------------------------------------

    def poll(self) -> None:
        for number in self._live():
            rank = self.ranks[number]
            while rank.has_line():
                self._take(number, rank.line())
            if rank.poll() is not None and not rank.has_line():
                self._fail(number, f"ended with {rank.poll()}", once=True)
        if self.failures:
            return
        self._complete_chunks()
        if len(self.ready) == len(self.ranks) and not self.draining:
            self._send_chunks()

    @property
    def over(self) -> bool:
        """Whether the job has failed, and every rank has said so or had the time for it."""
        told = {failure.split(":")[0] for failure in self.failures}
        return bool(told) and (len(told) == len(self.ranks) or time.monotonic() > self.failed_at + SETTLE_S)

    @property
    def hangs(self) -> bool:
        """Whether nothing has ended for the limit, while every rank could."""
        return not self.failures and not self.paused() and time.monotonic() > self.last_progress + self.options.limit

    def _live(self) -> list:
        """The ranks that have a process."""
        return list(range(len(self.ranks)))

    def _present(self) -> list:
        """The ranks whose contributions operations need."""
        return self._live()

    def _take(self, number: int, line: str) -> None:
        if slow := _SLOW.fullmatch(line):
            begin, lasts = (int(word) / 1e6 for word in slow.groups())
            self._add_span(number, begin, begin + lasts)
        elif timed := _TIMED.fullmatch(line):
            rounds, wrong, longest, begin, repairs = map(int, timed.groups())
            self.record.wrong += wrong
            self._add_span(number, begin / 1e6, (begin + longest) / 1e6)
            self.repairs = max(self.repairs, repairs)
            self.results[number].append(self._well(number))
        elif line == "ready" and number not in self.ready:
            self.ready.add(number)
            self.last_progress = time.monotonic()
        elif self._is_excused(number, line):
            self.results[number].append("excused")
        else:
            self._fail(number, line)

    def _add_span(self, _number: int, begin: float, end: float) -> None:
        self.record.spans.append((begin, end))

    def _well(self, _number: int) -> str:
        return "well"

    def _is_excused(self, number: int, line: str) -> bool:
        chunk = len(self.results[number])
        return chunk < len(self.chunks) and self.chunks[chunk] == "overwrite" and bool(_LOST_IN_PLACE.match(line))

    def _fail(self, number: int, text: str, once: bool = False) -> None:
        said = f"rank {number}: {text}"
        if once and any(failure.startswith(f"rank {number}: ") for failure in self.failures):
            return
        self.failed_at = self.failed_at or time.monotonic()
        if len(self.failures) < 4 * len(self.ranks):  # the chunks that are queued fail too
            self.failures.append(said)

    def _fail_all(self, text: str) -> None:
        """A failure of the whole job, which no fault of a rank excuses."""
        Job._fail(self, 0, text)

    def _complete_chunks(self) -> None:
        while all(len(self.results[number]) > self.complete for number in self._present()):
            now = time.monotonic()
            results = {self.results[number][self.complete] for number in self._present()} - {None}
            if len(results) > 1:
                self._fail_all(f"the ranks disagree on how chunk {self.complete} ended: {Counter(results)}")
            if "excused" in results:
                self.record.excused += 1
            else:
                self.record.operations += self._rounds(self.complete)
                self.record.progress.append((now, self._rounds(self.complete)))
            for begin, end in self._progress(now):
                self.chunk_s += 0.1 * (end - begin - self.chunk_s)
            self.complete += 1

    def _progress(self, now: float) -> list:
        """Returns the span since the last progress; none after an outage, which ends."""
        span = (self.last_progress, now)
        self.last_progress = now
        if not self.outage_since:
            return [span]
        self.record.outages.append((self.outage_since, now))
        self.outage_since = 0.0
        return []

    # -- what the ranks do ---------------------------------------------------------------------------

    def _rounds(self, chunk: int) -> int:
        return 1 if chunk == 0 else WORKLOADS[self.chunks[chunk]][2]  # the first one tells soon that the job is there

    def _send_chunks(self) -> None:
        while len(self.chunks) < self.complete + max(LEAST_QUEUED, QUEUED_S / max(self.chunk_s, 0.001)):
            self._send_chunk()

    def _send_chunk(self) -> None:
        name = self.options.mix[len(self.chunks) % len(self.options.mix)]
        self.chunks.append(name)
        where, share, _ = WORKLOADS[name]
        count = max(SMALL, int(share * self.options.elements))
        rounds = self._rounds(len(self.chunks) - 1)
        for number in self._receivers():
            self.ranks[number].send(f"timed {self._tag(name)} {count} {rounds} {self.options.slow_ms * 1000} {where}")

    def _tag(self, name: str) -> int:
        return FIRST_TAG + list(WORKLOADS).index(name)

    def _receivers(self) -> list:
        return self._live()

    # -- the end -------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Kills the ranks. From the last operation on there is an outage."""
        self.outage_since = self.outage_since or self.last_progress
        self.record.repairs += self.repairs
        for number, rank in enumerate(self.ranks):
            rank.end()
            self.world.keep_output(f"rank {number}", rank)
        self.ranks = []

    def finish(self) -> None:
        """Lets the ranks do what they still have to, and close their sessions. Failures and hangs are then set."""
        self.draining = True
        while self.complete < len(self.chunks) and not self.failures and not self.hangs:
            self._wait()
        if self.failures or self.complete < len(self.chunks):
            return
        self.record.repairs += self.repairs
        for rank in self.ranks:
            rank.send("close")
        for number, rank in enumerate(self.ranks):
            if (line := rank.line(self.options.limit)) != "closed":
                self._fail(number, line)
            rank.send("exit")
            if status := rank.wait(self.options.limit):
                self._fail(number, f"ended with {status}")

    def _wait(self) -> None:
        self.poll()
        time.sleep(0.005)
