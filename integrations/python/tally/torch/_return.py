"""A rank that returns to a job which has gone on without it: how it gets in step with the others.

Each backward pass averages the buckets, and one more number (kNeeds): how many ranks need the state of the others. A
process that returns goes through these phases, each for one backward pass:

    alone    its buckets stay as they are. DistributedDataParallel has its final buckets after this pass
    joins    it opens the session. The first operations of its tags may belong to two different steps, so it repeats
             those of the earlier step. Its contributions are zeros
    asks     it contributes zeros, and says that it needs the state. All ranks take the minimum of the bytes of their
             state, to which it contributes the largest bytes. So it has the state of the others, who lose none

Then it is a rank like the others.
"""

from typing import Optional, Sequence

import torch

from tally._error import Error

# Tags after those of buckets.
_NEEDS = 1 << 20
_STATE = _NEEDS + 1
_LARGEST = 255


class Entry:
    """What a State with a job's name knows about ranks that return."""

    def __init__(self, returns: bool, wire: Optional[torch.dtype], stats: bool) -> None:
        self._wire, self._stats = wire, stats
        self.phase: Optional[str] = "alone" if returns else None
        self._first_pass: set[int] = set()  # the buckets of the pass before DistributedDataParallel has the final ones
        self._buckets: dict[int, torch.Tensor] = {}  # tensors as large as the buckets of this pass
        self._needs: Optional[torch.futures.Future] = None

    def leave_alone(self, index: int) -> None:
        self._first_pass.add(index)

    def contribution(self, index: int, gradients: torch.Tensor) -> torch.Tensor:
        """Returns what this rank contributes to a bucket."""
        if self.phase is None:
            return gradients
        if index == 0:
            self._buckets.clear()
        return self._buckets.setdefault(index, torch.zeros_like(gradients))

    def end_pass(self, reducer) -> None:
        """Called when the last bucket of a backward pass has been posted."""
        need = torch.tensor([1.0 if self.phase == "asks" else 0.0])
        self._needs = reducer.average(_NEEDS, need, need, False).get_future()

    def synchronize(self, reducer, tensors: Sequence[torch.Tensor]) -> bool:
        """Returns whether the tensors have become the same at all ranks."""
        if self.phase == "alone":
            self.phase = "joins"
            return False
        if self._needs is None:
            return False
        needed = self._needs.wait().item() > 0
        self._needs = None
        if self.phase == "joins":
            self._get_in_step(reducer)
            self.phase = "asks"
            return False
        if needed:
            self._exchange(reducer, tensors)
        return needed

    def _get_in_step(self, reducer) -> None:
        zeros = {_NEEDS: torch.zeros(1)}
        for tag, bucket in self._buckets.items():
            zeros[tag] = bucket if self._wire is None or bucket.dtype != torch.float32 else bucket.to(self._wire)
        # Tags that no rank used in its first pass are a round behind the others.
        rounds = {tag: reducer.presence()[tag][1] + (tag not in self._first_pass and tag != _NEEDS) for tag in zeros}
        while late := [tag for tag in zeros if rounds[tag] < max(rounds.values())]:
            works = [reducer.average(tag, zeros[tag], torch.empty_like(zeros[tag]), self._stats and tag != _NEEDS)
                     for tag in late]
            for tag, work in zip(late, works):
                work.get_future().wait()
                rounds[tag] += 1

    def _exchange(self, reducer, tensors: Sequence[torch.Tensor]) -> None:
        """Gives all ranks the bytes of those that need none."""
        parts = [tensor.detach().cpu().reshape(-1).view(torch.uint8) for tensor in tensors]
        mine = torch.cat(parts)
        if self.phase is not None:
            mine.fill_(_LARGEST)
        result = torch.empty_like(mine)
        reducer.average(_STATE, mine, result, False, minimum=True).get_future().wait()
        if self.phase is None:
            if not torch.equal(mine, result):
                raise Error("the tensors of this rank are not those of the others: a rank that returns needs tensors that "
                            "are the same at all ranks", "mismatch")
            return
        self.phase = None
        self._buckets.clear()
        with torch.no_grad():
            for tensor, part in zip(tensors, result.split([part.numel() for part in parts])):
                tensor.copy_(part.view(tensor.dtype).view(tensor.shape))
