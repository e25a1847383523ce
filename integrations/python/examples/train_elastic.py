"""The digits of train_digits.py, in a training that ranks may leave and join.

Rank 0 writes a checkpoint after each epoch. When a rank dies, the launcher starts the ranks again, and they train on
from the last checkpoint:

    tools/python -m torch.distributed.run --standalone --nproc-per-node 2 --max-restarts 3 \\
        integrations/python/examples/train_elastic.py --checkpoint /tmp/digits.pt

With --nnodes, launchers may come and go, too. Each change starts the ranks again. On one machine, run this twice, the
second time when you want one more rank. (The launcher of torch 2.13 keeps its store over the change, without the
variable, and then it waits for a key that nobody writes.)

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    tools/python -m torch.distributed.run --nnodes 1:2 --nproc-per-node 1 --max-restarts 3 \\
        --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29400 --local-addr 127.0.0.1 \\
        integrations/python/examples/train_elastic.py --checkpoint /tmp/digits.pt

Launchers on several machines need $TALLY_ADDRESS and a checkpoint on a file system that they share.
"""

import os
from pathlib import Path

import torch
import torch.distributed as dist

import training
from train_digits import digits, end, network, train_epoch


def save(path: Path, run: training.Run, optimizer: torch.optim.Optimizer) -> None:
    """The file is always a whole checkpoint. A rank that dies while it writes leaves the checkpoint before."""
    unfinished = path.with_name(path.name + ".new")
    torch.save({"epochs": run.history, "model": run.model.module.state_dict(), "optimizer": optimizer.state_dict()}, unfinished)
    os.replace(unfinished, path)


def load(path: Path, run: training.Run, optimizer: torch.optim.Optimizer) -> None:
    """Every rank reads the file. Rank 0 cannot write the next one before all ranks have read this one."""
    if not path.exists():
        return
    found = torch.load(path)
    run.history = found["epochs"]
    run.model.module.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    if run.rank == 0:
        print(f"trains on after epoch {len(run.history)} with {run.ranks} ranks", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    parser = training.parser(__doc__, epochs=10)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--pause", type=float, default=0.0, metavar="SECONDS", help="wait after each step")
    arguments = parser.parse_args()
    run = training.Run(arguments, "tally", network())
    data = digits()
    optimizer = torch.optim.Adam(run.model.parameters(), lr=1e-3)
    load(arguments.checkpoint, run, optimizer)
    dist.barrier()
    for epoch in range(len(run.history) + 1, arguments.epochs + 1):
        train_epoch(run, optimizer, data, epoch, arguments.pause)
        if run.rank == 0:
            save(arguments.checkpoint, run, optimizer)
    end(run)


if __name__ == "__main__":
    main()
