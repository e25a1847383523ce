"""A small convolutional network on scikit-learn's handwritten digits, with tally's hook.

    tools/python -m torch.distributed.run --nproc-per-node 2 integrations/python/examples/train_digits.py
"""

import time

import torch
from sklearn.datasets import load_digits
from torch import nn

import training

BATCH = 64  # of all ranks together


def digits():
    """1437 images of 8x8 to learn from, 360 to test with."""
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(data.images, dtype=torch.float32)[order].unsqueeze(1) / 16
    labels = torch.tensor(data.target, dtype=torch.int64)[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64 * 16, 128), nn.ReLU(), nn.Linear(128, 10))


def train_epoch(run: training.Run, optimizer: torch.optim.Optimizer, data, epoch: int, pause: float = 0.0) -> None:
    """Trains this rank's part of each batch. The order depends on the epoch alone. pause: seconds after each step."""
    images, labels, test_images, test_labels = data
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
    for first in range(0, len(order) - BATCH + 1, BATCH):
        mine = order[first:first + BATCH][run.rank::run.ranks]
        with run.step():
            optimizer.zero_grad()
            run.backward(nn.functional.cross_entropy(run.model(images[mine]), labels[mine]))
            optimizer.step()
        time.sleep(pause)
    with torch.no_grad():
        right = (run.model.module(test_images).argmax(1) == test_labels).double().mean().item()
    run.end_epoch(epoch, test_accuracy=right)


def end(run: training.Run) -> None:
    if run.rank == 0:
        print(f"test accuracy {100 * run.history[-1]['test_accuracy']:.2f} % with {run.ranks} ranks")
    run.end()


def main() -> None:
    torch.set_num_threads(1)
    arguments = training.parser(__doc__, epochs=10).parse_args()
    run = training.Run(arguments, "hook", network())
    data = digits()
    optimizer = torch.optim.Adam(run.model.parameters(), lr=1e-3)
    for epoch in range(1, arguments.epochs + 1):
        train_epoch(run, optimizer, data, epoch)
    end(run)


if __name__ == "__main__":
    main()
