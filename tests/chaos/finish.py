"""A job that goes on without the ranks that are lost (on_rank_loss = "finish"). They start again and return under load."""

import re
import time

from job import FIRST_TAG, Job

CONNECT_MS = 30_000
RETRY_S = 0.2  # a rank that the job has refused is started again
_LEFT_OUT = re.compile(r"contributors (\d+) from round (\d+)(?: without ranks? (.*))?")
_RETURNED = re.compile(r"until (\d+) from (\d+) wrong (\d+)")


def left_out(text: str) -> list:
    """The ranks that a message names: "3", "3 and 5", "3, 5 and 2 more"."""
    return [int(word) for word in re.findall(r"\d+(?! more|\d)", text or "")]


class FinishJob(Job):
    """All operations have one tag and one size, because a rank that returns learns the round from its first operation.

    A rank is present, away (it has no process that could go on), or returning (a new process of it opens the job).
    """

    def start(self) -> None:
        self.faulty = set()       # ranks that have a fault now
        self.may_fail = {}        # by rank that had one: until it has ended so many chunks
        self.must_fail = {}       # by rank that was left out and goes on: until when its session must have ended
        self.lost = set()         # ranks that the others have left out while their processes live
        self.away = {}            # by rank: when its next process starts
        self.returning = {}       # by rank: since when
        self.joining = set()      # returning ranks that have opened the job
        self.first_rounds = [0] * self.options.ranks  # of their sessions
        self.said = [[] for _ in range(self.options.ranks)]  # by rank: its contributors in the chunk that it does
        self.last_rounds = []     # by chunk
        super().start()

    def _start_rank(self, number: int):
        return self.world.start_rank("chaos", number, self.options.ranks, self._count(), CONNECT_MS, "finish")

    # -- faults --------------------------------------------------------------------------------------

    def fault_begins(self, number: int) -> None:
        self.faulty.add(number)

    def fault_ends(self, number: int) -> None:
        if number not in self.faulty:
            return  # an earlier job had the fault
        self.faulty.discard(number)
        self.may_fail[number] = self._begun()
        if number in self.returning:
            self.returning[number] = time.monotonic()
        if number in self.lost:
            self.must_fail[number] = time.monotonic() + self.options.limit

    def _begun(self) -> int:
        """How many chunks a rank may be in."""
        return len(self.chunks)

    def _excused(self, number: int) -> bool:
        return number in self.faulty or number in self.lost or len(self.results[number]) <= self.may_fail.get(number, -1)

    def _fail(self, number: int, text: str, once: bool = False) -> None:
        """A rank that had a fault may fail, and may be refused for a while. The others may not."""
        now = time.monotonic()
        since = self.returning.get(number, now)
        refused = number in self.returning and text.startswith("refused") and now < since + self.options.limit
        if not self.complete or not (refused or self._excused(number)):
            super()._fail(number, text, once)
            return
        if refused and number not in self.faulty:
            self.record.refused.append(f"rank {number}: {text}")
        self.ranks[number].end()
        self.world.keep_output(f"rank {number}", self.ranks[number])
        self.lost.discard(number)
        self.joining.discard(number)
        self.must_fail.pop(number, None)
        if not refused:
            self.returning.pop(number, None)
        self.away[number] = now + (RETRY_S if refused else 0)

    def _bring_back(self, number: int) -> None:
        del self.away[number]
        self.returning.setdefault(number, time.monotonic())
        self.may_fail.pop(number, None)
        self.said[number] = []
        self.ranks[number] = self._start_rank(number)

    # -- what happens --------------------------------------------------------------------------------

    def poll(self) -> None:
        now = time.monotonic()
        for number, at in list(self.away.items()):
            if number not in self.faulty and now >= at and not self.failures:
                self._bring_back(number)
        super().poll()
        for number in self._live():
            if number in self.returning and number not in self.faulty and now > self.returning[number] + self.options.limit:
                Job._fail(self, number, f"does not return within {self.options.limit:g} s", once=True)
            if now > self.must_fail.get(number, now):
                Job._fail(self, number, f"was left out, and its session does not end within {self.options.limit:g} s", once=True)

    @property
    def hangs(self) -> bool:
        """A rank that is stopped does not excuse the others."""
        return not self.failures and time.monotonic() > self.last_progress + self.options.limit

    def _live(self) -> list:
        return [number for number in range(len(self.ranks)) if number not in self.away]

    def _present(self) -> list:
        return [number for number in self._live() if number not in self.returning and number not in self.lost]

    def _take(self, number: int, line: str) -> None:
        if number in self.away or line == "deadline":
            return
        if found := _LEFT_OUT.fullmatch(line.rstrip()):
            self.said[number].append(line)
            self._leave_out(int(found[2]), left_out(found[3]))
        elif found := _RETURNED.fullmatch(line):
            self._has_returned(number, *map(int, found.groups()))
        elif line == "ready" and number in self.returning:
            self._send_deadline(number)
            self._send_chunk()  # the others may be at the end of their last one
            self.ranks[number].send(f"until {FIRST_TAG} {self._count()} {self.last_rounds[-1]} out")
            self.joining.add(number)
        else:
            if line == "ready":
                self._send_deadline(number)
            super()._take(number, line)

    def _add_span(self, number: int, begin: float, end: float) -> None:
        """The time for which a rank with a fault stands still is no stall of the others."""
        if not self._excused(number):
            super()._add_span(number, begin, end)

    def _is_excused(self, number: int, line: str) -> bool:
        return False  # the library copies what is contributed in place

    def _send_deadline(self, number: int) -> None:
        self.ranks[number].send(f"deadline {int(1000 * self.options.deadline)}")

    def _well(self, number: int) -> str:
        """With the contributors: all ranks must have the same ones."""
        said, self.said[number] = self.said[number], []
        return "; ".join(["well", *said])

    def _leave_out(self, first_round: int, ranks: list) -> None:
        for number in ranks:
            if number not in self._present() or first_round < self.first_rounds[number]:
                continue  # known, or told of an earlier process of this rank
            if self._excused(number):
                self.lost.add(number)
                if number not in self.faulty:
                    self.must_fail[number] = time.monotonic() + self.options.limit
            else:
                self._fail(number, f"is left out from round {first_round} on, and had no fault")

    def _has_returned(self, number: int, last: int, first: int, wrong: int) -> None:
        self.record.wrong += wrong
        self.record.returns.append(time.monotonic() - self.returning.pop(number))
        self.joining.discard(number)
        self.first_rounds[number] = first
        self.said[number] = []
        self.results[number] = [None] * (1 + self.last_rounds.index(last))

    # -- what the ranks do ---------------------------------------------------------------------------

    def _send_chunk(self) -> None:
        super()._send_chunk()
        before = self.last_rounds[-1] if self.last_rounds else -1
        self.last_rounds.append(before + self._rounds(len(self.chunks) - 1))

    def _tag(self, name: str) -> int:
        return FIRST_TAG

    def _receivers(self) -> list:
        return [number for number in self._live() if number not in self.returning or number in self.joining]

    # -- the end -------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Waits for the ranks that return before it ends."""
        while (self.away or self.returning or self.must_fail) and not self.failures and not self.hangs:
            self._wait()
        super().finish()
