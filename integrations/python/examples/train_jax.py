"""A small network in JAX on scikit-learn's handwritten digits; Tally averages the gradients.

    torchrun --nproc-per-node 2 integrations/python/examples/train_jax.py
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import tally.jax

BATCH = 64  # of all ranks together


def digits():
    """1437 images of 8x8 to learn from, 360 to test with."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = (data.data[order] / 16).astype(np.float32)
    labels = data.target[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def network(sizes=(64, 128, 10)):
    random = np.random.default_rng(1)
    return [{"w": (random.normal(size=(n, m)) * np.sqrt(2 / n)).astype(np.float32), "b": np.zeros(m, np.float32)}
            for n, m in zip(sizes, sizes[1:])]


def logits(parameters, images):
    for layer in parameters[:-1]:
        images = jax.nn.relu(images @ layer["w"] + layer["b"])
    return images @ parameters[-1]["w"] + parameters[-1]["b"]


def loss_of(parameters, images, labels):
    chosen = jax.nn.log_softmax(logits(parameters, images))
    return -jnp.take_along_axis(chosen, labels[:, None], axis=1).mean()


@jax.jit
def train_step(parameters, velocity, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
    loss, gradients = tally.jax.all_reduce((loss, gradients), op="average")
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, gradients)
    return jax.tree.map(lambda p, v: p - 0.05 * v, parameters, velocity), velocity, loss


@jax.jit
def accuracy(parameters, images, labels):
    return (logits(parameters, images).argmax(1) == labels).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--json", type=Path, help="write what was measured there")
    arguments = parser.parse_args()
    tally.jax.init()
    rank, ranks = tally.jax.rank(), tally.jax.ranks()
    images, labels, test_images, test_labels = digits()
    parameters = jax.jit(tally.jax.broadcast)(network())
    velocity = jax.tree.map(np.zeros_like, parameters)
    history = []
    for epoch in range(1, arguments.epochs + 1):
        order = np.random.default_rng(epoch).permutation(len(labels))
        losses, begin = [], time.perf_counter()
        for first in range(0, len(order) - BATCH + 1, BATCH):
            mine = order[first:first + BATCH][rank::ranks]
            parameters, velocity, loss = train_step(parameters, velocity, images[mine], labels[mine])
            losses.append(loss)
        mean_loss = float(np.mean(losses))
        right = float(accuracy(parameters, test_images, test_labels))
        history.append({"epoch": epoch, "loss": mean_loss, "test_accuracy": right,
                        "step_ms": 1e3 * (time.perf_counter() - begin) / len(losses)})
        if rank == 0:
            print(f"epoch {epoch}: loss {mean_loss:.10g}, test accuracy {100 * right:.2f} %, "
                  f"{history[-1]['step_ms']:.2f} ms a step", flush=True)
    if rank == 0 and arguments.json:
        arguments.json.write_text(json.dumps({"ranks": ranks, "epochs": history}, indent=2))


if __name__ == "__main__":
    main()
