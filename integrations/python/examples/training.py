"""What the examples share: the command line, the way of the gradients, the report and the plot."""

import argparse
import contextlib
import json
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tally.torch


def parser(description: str, epochs: int, backends=("hook", "tally", "gloo")) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--backend", choices=backends,
                        help="hook: gloo, with tally's hook for the gradients; tally, gloo: the "
                             "backend of torch.distributed")
    parser.add_argument("--json", type=Path, help="write what was measured there")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="loss and step time")
    return parser


class Run:
    """One training run of this rank: its model, its steps and its report.

    wrap: makes the model one of all ranks. The time spent waiting for gradients is measured only with
    DistributedDataParallel. options: those of tally.torch.State."""

    def __init__(self, arguments: argparse.Namespace, backend: str, model: torch.nn.Module,
                 wrap=DistributedDataParallel, **options) -> None:
        self.arguments = arguments
        self.backend = arguments.backend or backend
        dist.init_process_group("gloo" if self.backend == "hook" else self.backend)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.model = wrap(model)
        self.state = None
        if self.backend != "gloo":
            # With the backend alone the hook is not needed; its norm for clipping is.
            if self.backend == "hook" or options.get("stats"):
                self.state = tally.torch.State(**options)
                self.model.register_comm_hook(self.state, tally.torch.allreduce_hook)
        self.history = []
        self._waited = self._stepped = 0.0
        self._losses = []

    @contextlib.contextmanager
    def step(self):
        """Measures one step. The step must call backward() with its loss."""
        begin = time.perf_counter()
        yield
        self._stepped += time.perf_counter() - begin

    def backward(self, loss: torch.Tensor) -> None:
        """Counts the time between the last gradient and the end of the exchange as time spent waiting."""
        self._losses.append(loss.item())
        if not isinstance(self.model, DistributedDataParallel):
            loss.backward()
            return
        finished = []
        handle = next(p for p in self.model.parameters() if p.requires_grad).register_hook(
            lambda _: finished.append(time.perf_counter()))  # the first layer's: the last one
        loss.backward()
        self._waited += time.perf_counter() - finished[0]
        handle.remove()

    def end_epoch(self, epoch: int, **more) -> None:
        loss = torch.tensor([sum(self._losses) / len(self._losses)], dtype=torch.float64)
        dist.all_reduce(loss)
        entry = {"epoch": epoch, "loss": loss.item() / self.ranks,
                 "step_ms": 1e3 * self._stepped / len(self._losses), **more}
        waits = ""
        if isinstance(self.model, DistributedDataParallel):
            entry["waiting"] = self._waited / self._stepped
            waits = f", {100 * entry['waiting']:.0f} % of it waiting for gradients"
        self.history.append(entry)
        self._waited = self._stepped = 0.0
        self._losses = []
        if self.rank == 0:
            extra = "".join(f", {name} {value:.4g}" for name, value in more.items())
            print(f"epoch {epoch}: loss {entry['loss']:.10g}{extra}, {entry['step_ms']:.2f} ms a step{waits}",
                  flush=True)

    def end(self) -> None:
        if self.rank == 0 and self.arguments.json:
            self.arguments.json.write_text(json.dumps(
                {"backend": self.backend, "ranks": self.ranks, "epochs": self.history}, indent=2))
        if self.rank == 0 and self.arguments.plot:
            self._plot()
        dist.barrier()
        if self.state is not None:
            self.state.close()
        self.model = None  # DistributedDataParallel must end before gloo's group (docs/pytorch.md)
        dist.destroy_process_group()

    def _plot(self) -> None:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
        epochs = [entry["epoch"] for entry in self.history]
        left.plot(epochs, [entry["loss"] for entry in self.history])
        left.set(xlabel="epoch", ylabel="loss", yscale="log")
        right.plot(epochs, [entry["step_ms"] for entry in self.history], label="step")
        if all("waiting" in entry for entry in self.history):
            right.plot(epochs, [entry["step_ms"] * entry["waiting"] for entry in self.history],
                       label="of it waiting for gradients")
        right.set(xlabel="epoch", ylabel="ms", ylim=(0, None))
        right.legend()
        figure.suptitle(f"{self.ranks} ranks, {self.backend}")
        figure.tight_layout()
        figure.savefig(self.arguments.plot)
