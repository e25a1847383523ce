"""What the exchange of gradients costs a training step: tally's hook, the tally and gloo backends.

A model of ResNet-50's size (25.6 million parameters, their real shapes) with next to nothing to
compute. The exchange time is a step's time less that of a step with a hook that returns the bucket
untouched. All are measured in turns, in the same processes; medians count.

    python3 -m torch.distributed.run --nproc-per-node 2 ddp_exchange.py [--rounds N] [--steps N] [--json FILE]
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    dist.init_process_group("tally")
    gloo = dist.new_group(backend="gloo")
    state = tally.torch.State()
    torch.manual_seed(1)

    def make(group=None, hook=None, hook_state=None):
        model = DistributedDataParallel(ShapesOf(resnet50_shapes()), process_group=group,
                                        gradient_as_bucket_view=True)
        if hook is not None:
            model.register_comm_hook(hook_state, hook)
        step_times(model, 3)
        return model

    models = {"untouched": make(hook=untouched), "tally hook": make(None, tally.torch.allreduce_hook, state),
              "tally backend": make(), "gloo": make(gloo)}
    times = {name: [] for name in models}
    for _ in range(arguments.rounds):
        for name, model in models.items():
            times[name] += step_times(model, arguments.steps)
    medians = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    if dist.get_rank() == 0:
        base = medians["untouched"]
        print(f"a step that exchanges nothing: {base:.1f} ms")
        exchange = {name: value - base for name, value in medians.items() if name != "untouched"}
        for name, value in exchange.items():
            print(f"{name:14} exchange {value:7.1f} ms, gloo's is {exchange['gloo'] / value:.1f}x")
        print(f"gradients copied on tally's way: {state.copied_bytes} bytes by the hook, "
              f"{tally.torch.copied_bytes()} by the backend")
        if arguments.json:
            arguments.json.write_text(json.dumps({"step_ms": medians, "exchange_ms": exchange}))
    state.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
