"""One rank of a training whose model and buckets are older than the import of tally.torch."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(5)
model = torch.nn.Linear(2000, 700)
# With unused parameters torch makes its buckets once.
ddp = DistributedDataParallel(model, find_unused_parameters=True, bucket_cap_mb=25)

import tally.torch  # noqa: E402

state = tally.torch.State()
ddp.register_comm_hook(state, tally.torch.allreduce_hook)
rank, ranks = dist.get_rank(), dist.get_world_size()
STEPS = 4
for step in range(STEPS):
    ddp.zero_grad()
    ddp(torch.full((1, 2000), float(rank + step))).sum().backward()
    assert (model.weight.grad == (ranks - 1) / 2 + step).all(), model.weight.grad
assert state.copied_bytes < STEPS * 4 * 4096, f"{state.copied_bytes} bytes were copied"
state.close()
del ddp  # before gloo's group (docs/pytorch.md)
dist.destroy_process_group()
