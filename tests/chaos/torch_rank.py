"""A rank that sums with torch's all_reduce, and takes the commands of fault-rank that a chaos run sends.

usage: torch_rank.py STORE RANK RANKS ELEMENTS DEADLINE

STORE is a file that the ranks of one job share. The nodes are at $TALLY_ADDRESS.
"""

import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

PERIOD = 1021  # of the values, so that sums of float32 are exact


class Rank:
    def __init__(self, store: str, rank: int, ranks: int, elements: int, deadline: float):
        self._own = rank
        self._sum_of_ranks = ranks * (ranks - 1) // 2
        dist.init_process_group("tally", init_method=f"file://{store}", rank=rank, world_size=ranks,
                                timeout=timedelta(seconds=deadline))
        self._pattern = (torch.arange(elements) % PERIOD).float()
        self._expected = ranks * self._pattern + self._sum_of_ranks
        self._data = torch.empty(elements)

    def sum(self, count: int) -> int:
        """Sums in place. Returns how many elements are wrong."""
        data = self._data[:count]
        torch.add(self._pattern[:count], self._own, out=data)
        dist.all_reduce(data)
        expected = self._expected[:count]
        return 0 if torch.equal(data, expected) else int((data != expected).sum())

    def timed(self, count: int, rounds: int, slow_us: int) -> str:
        wrong = longest = longest_begin = 0
        for _ in range(rounds):
            begin = time.monotonic_ns() // 1000
            wrong += self.sum(count)
            lasts = time.monotonic_ns() // 1000 - begin
            if lasts >= slow_us:
                print(f"slow {begin} {lasts}", flush=True)
            if lasts > longest:
                longest, longest_begin = lasts, begin
        return f"timed {rounds} wrong {wrong} longest {longest} at {longest_begin} repairs 0"


def main() -> None:
    torch.set_num_threads(1)
    store, rank, ranks, elements, deadline = sys.argv[1:]
    one = Rank(store, int(rank), int(ranks), int(elements), float(deadline))
    print("ready", flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        if command == "timed":
            _tag, count, rounds, slow_us, _where = words
            try:
                print(one.timed(int(count), int(rounds), int(slow_us)), flush=True)
            except RuntimeError as error:
                print("failed", *str(error).split(), flush=True)
        elif command == "close":
            dist.destroy_process_group()
            print("closed", flush=True)
        elif command == "exit":
            return


if __name__ == "__main__":
    main()
