"""What the exchange of gradients costs a training step: tally's hook, the tally and gloo backends.

A model of ResNet-50's size (25.6 million parameters, their real shapes), or of another one, with next to nothing
to compute. The exchange time is a step's time less that of a step that exchanges nothing: with a hook that
returns the bucket untouched, and, for backends, also with a backend that does nothing. Without a hook
DistributedDataParallel divides the gradients before it calls the backend, so the second difference is
the backend's own time. All are measured in turns, in the same processes; medians count.

Afterwards each way trains for some steps, and the losses must be gloo's.

    python3 -m torch.distributed.run --nproc-per-node 2 ddp_exchange.py [--rounds N] [--steps N] [--json FILE]
    python3 -m torch.distributed.run --nproc-per-node 2 ddp_exchange.py --device cuda --model 100M

The ranks share the GPUs of the machine. On a device that gloo does not take, gloo trains on the CPU and is not
measured.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future
from torch.nn.parallel import DistributedDataParallel

import tally.torch

TOLERANCE = 1e-6  # of a loss, relative to gloo's: more than two ranks may have another order of sums


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


def layers_shapes(millions: int) -> list:
    """Twelve layers of equal width, with about so many parameters."""
    width = round((millions * 1e6 / 12) ** 0.5)
    return 12 * [(width, width), (width,)]


class DistanceOf(torch.nn.Module):
    """Parameters of a model's shapes, all different, and how far they are from a number."""

    def __init__(self, shapes) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.rand(shape)) for shape in shapes)

    def forward(self, to):
        return torch.stack([(weight - to).square().sum() for weight in self.weights]).sum() / 2


def done_with(result, device: torch.device) -> torch.futures.Future:
    done = torch.futures.Future(devices=[] if device.type == "cpu" else [device])
    done.set_result(result)
    return done


class NoExchange(dist.ProcessGroup):
    """A process group whose operations end at once and leave the tensors as they are."""

    def _end(self, tensors, _options=None) -> dist.Work:
        return _create_work_from_future(done_with(tensors, tensors[0].device))

    allreduce = broadcast = _end

    def getBackendName(self) -> str:
        return "nothing"


def untouched(_state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return done_with(bucket.buffer(), bucket.buffer().device)


def wait_for(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()


def step_times(model, device: torch.device, steps: int) -> list:
    times = []
    factor = torch.tensor(1.0, device=device)
    for _ in range(steps):
        model.zero_grad(set_to_none=False)
        wait_for(device)
        dist.barrier()
        begin = time.perf_counter()
        model(factor).backward()
        wait_for(device)
        times.append(time.perf_counter() - begin)
    return times


def losses(model, device: torch.device, steps: int = 4) -> list:
    """Trains, and returns this rank's losses. Each rank has another target, so the model converges between them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.tensor(dist.get_rank() + 0.1 * step, device=device))
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def compare(medians: dict, base: str, names: list) -> dict:
    """Prints what each of `names` adds to the step `base`, in ms, beside gloo, and returns it."""
    added = {name: medians[name] - medians[base] for name in names if name in medians}
    for name, value in added.items():
        beside = f", gloo's is {added['gloo'] / value:.1f}x" if "gloo" in added else ""
        print(f"{name:14} {value:7.1f} ms more than {base}{beside}")
    return added


def compare_losses(found: dict) -> bool:
    """Prints how far the losses of each way are from gloo's; whether they are the same."""
    wanted = found["gloo"]
    good = True
    for name, values in found.items():
        apart = max(abs(a - b) / abs(b) for a, b in zip(values, wanted))
        good &= apart <= TOLERANCE
        if name != "gloo":
            print(f"{name:14} losses from {values[0]:.6g} to {values[-1]:.6g}, relative difference to gloo's {apart:.1e}")
    return good


class Ways:
    """How a step exchanges gradients."""

    def __init__(self, device: torch.device, gloo_device: torch.device) -> None:
        self.states: list = []  # of the models with tally's hook
        self.devices = {"gloo": gloo_device}
        self.default = device
        self.groups = {"divided": NoExchange(dist.get_rank(), dist.get_world_size()), "gloo": dist.new_group(backend="gloo")}

    def device(self, name: str) -> torch.device:
        return self.devices.get(name, self.default)

    def wrap(self, name: str, model: torch.nn.Module) -> DistributedDataParallel:
        # The parameters are the same on all ranks, so DDP need not send rank 0's.
        model = DistributedDataParallel(model.to(self.device(name)), process_group=self.groups.get(name), init_sync=False,
                                        gradient_as_bucket_view=True)
        if name == "untouched":
            model.register_comm_hook(None, untouched)
        if name == "tally hook":
            self.states.append(tally.torch.State())
            model.register_comm_hook(self.states[-1], tally.torch.allreduce_hook)
        return model

    def close(self) -> None:
        for state in self.states:
            state.close()


def measure(ways: Ways, names: list, shapes: list, rounds: int, steps: int) -> dict:
    """Returns the median time of a step in ms."""
    models = {name: ways.wrap(name, ShapesOf(shapes)) for name in names}
    times: dict = {name: [] for name in models}
    for name, model in models.items():
        step_times(model, ways.device(name), 3)
    for _ in range(rounds):
        for name, model in models.items():
            times[name] += step_times(model, ways.device(name), steps)
    return {name: statistics.median(values) * 1e3 for name, values in times.items()}


def report(medians: dict, ways: Ways) -> dict:
    """Prints the figures, and returns them."""
    print(f"a step that exchanges nothing: {medians['untouched']:.1f} ms, "
          f"{medians['divided']:.1f} ms where DDP divides")
    exchange = compare(medians, "untouched", ["tally hook", "tally backend", "gloo"])
    own = compare(medians, "divided", ["tally backend", "gloo"])
    state = ways.states[0]
    print(f"gradients copied on tally's way: {state.copied_bytes} bytes by the hook, {tally.torch.copied_bytes()} by the backend")
    print(f"the same on devices: {state.copied_on_devices} bytes by the hook, {tally.torch.copied_on_devices()} by the backend")
    return {"step_ms": medians, "exchange_ms": exchange, "without_division_ms": own}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", type=torch.device, default="cpu", help="cpu, cuda or another device of torch; default cpu")
    parser.add_argument("--model", default="resnet50", help="resnet50, or millions of parameters: 100M; default resnet50")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    shapes = resnet50_shapes() if arguments.model == "resnet50" else layers_shapes(int(arguments.model.removesuffix("M")))
    device = arguments.device
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        device = torch.device("cuda", torch.cuda.current_device())
    dist.init_process_group("tally" if device.type == "cpu" else f"cpu:tally,{device.type}:tally")
    is_measured = device.type in ("cpu", "cuda")
    ways = Ways(device, device if is_measured else torch.device("cpu"))
    trained = ["tally hook", "tally backend", "gloo"]
    names = ["untouched", "divided", *(trained if is_measured else trained[:2])]
    medians = measure(ways, names, shapes, arguments.rounds, arguments.steps)
    if dist.get_rank() == 0:
        print(f"{sum(torch.Size(shape).numel() for shape in shapes) / 1e6:.1f} million parameters on {device}")
        if not is_measured:
            print(f"gloo's step is not measured: gloo does not take tensors on {device.type}")
        figures = report(medians, ways)
    found = {name: losses(ways.wrap(name, DistanceOf(shapes)), ways.device(name)) for name in trained}
    good = True
    if dist.get_rank() == 0:
        good = compare_losses(found)
        if arguments.json:
            arguments.json.write_text(json.dumps({**figures, "losses": found}))
    ways.close()
    dist.destroy_process_group()
    if not good:
        sys.exit(f"the losses differ from gloo's by more than {TOLERANCE}: the lines above have the differences")


if __name__ == "__main__":
    main()
