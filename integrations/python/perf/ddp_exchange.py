"""What the exchange of gradients costs a training step: tally's hook, the tally and gloo backends.

A model of ResNet-50's size (25.6 million parameters, their real shapes) with next to nothing to
compute. The exchange time is a step's time less that of a step that exchanges nothing: with a hook that
returns the bucket untouched, and, for backends, also with a backend that does nothing. Without a hook
DistributedDataParallel divides the gradients before it calls the backend, so the second difference is
the backend's own time. All are measured in turns, in the same processes; medians count.

    python3 -m torch.distributed.run --nproc-per-node 2 ddp_exchange.py [--rounds N] [--steps N] [--json FILE]
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future
from torch.nn.parallel import DistributedDataParallel

import tally.torch


class ShapesOf(torch.nn.Module):
    """Parameters of a model's shapes, each touched once: the gradient of each is its own factor."""

    def __init__(self, shapes) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.full(shape, 0.01)) for shape in shapes)

    def forward(self, factor):
        # sum() backward is an expand and a multiplication: as little as a gradient can cost.
        return torch.stack([weight.sum() for weight in self.weights]).sum() * factor


def resnet50_shapes() -> list:
    """The 161 parameters of torchvision's resnet50, in its order."""
    shapes = [(64, 3, 7, 7), (64,), (64,)]
    width_in = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            shapes += [(width, width_in, 1, 1), (width,), (width,), (width, width, 3, 3), (width,),
                       (width,), (4 * width, width, 1, 1), (4 * width,), (4 * width,)]
            if block == 0:
                shapes += [(4 * width, width_in, 1, 1), (4 * width,), (4 * width,)]
            width_in = 4 * width
    return shapes + [(1000, 2048), (1000,)]


class NoExchange(dist.ProcessGroup):
    """A process group whose operations end at once and leave the tensors as they are."""

    def _end(self, tensors, _options=None) -> dist.Work:
        done = torch.futures.Future()
        done.set_result(tensors)
        return _create_work_from_future(done)

    allreduce = broadcast = _end

    def getBackendName(self) -> str:
        return "nothing"


def untouched(_state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def step_times(model, steps: int) -> list:
    times = []
    for _ in range(steps):
        model.zero_grad(set_to_none=False)
        dist.barrier()
        begin = time.perf_counter()
        model(torch.tensor(1.0)).backward()
        times.append(time.perf_counter() - begin)
    return times


def compare(medians: dict, base: str, names: list) -> dict:
    """Prints what each of `names` adds to the step `base`, in ms, beside gloo, and returns it."""
    added = {name: medians[name] - medians[base] for name in names}
    for name, value in added.items():
        print(f"{name:14} {value:7.1f} ms more than {base}, gloo's is {added['gloo'] / value:.1f}x")
    return added


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    dist.init_process_group("tally")
    gloo = dist.new_group(backend="gloo")
    no_exchange = NoExchange(dist.get_rank(), dist.get_world_size())
    state = tally.torch.State()
    torch.manual_seed(1)

    def make(group=None, hook=None, hook_state=None):
        # The parameters are the same on all ranks, so DDP need not send rank 0's.
        model = DistributedDataParallel(ShapesOf(resnet50_shapes()), process_group=group, init_sync=False,
                                        gradient_as_bucket_view=True)
        if hook is not None:
            model.register_comm_hook(hook_state, hook)
        step_times(model, 3)
        return model

    models = {"untouched": make(hook=untouched), "divided": make(no_exchange),
              "tally hook": make(None, tally.torch.allreduce_hook, state),
              "tally backend": make(), "gloo": make(gloo)}
    times = {name: [] for name in models}
    for _ in range(arguments.rounds):
        for name, model in models.items():
            times[name] += step_times(model, arguments.steps)
    medians = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    if dist.get_rank() == 0:
        print(f"a step that exchanges nothing: {medians['untouched']:.1f} ms, "
              f"{medians['divided']:.1f} ms where DDP divides")
        exchange = compare(medians, "untouched", ["tally hook", "tally backend", "gloo"])
        own = compare(medians, "divided", ["tally backend", "gloo"])
        print(f"gradients copied on tally's way: {state.copied_bytes} bytes by the hook, "
              f"{tally.torch.copied_bytes()} by the backend")
        if arguments.json:
            arguments.json.write_text(
                json.dumps({"step_ms": medians, "exchange_ms": exchange, "without_division_ms": own}))
    state.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
