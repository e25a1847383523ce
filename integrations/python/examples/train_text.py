"""A small transformer that learns to write like the licences that every Debian machine has.

Uses the backend "tally", and clips by the gradients' norm that the node computes anyway.

    tools/python -m torch.distributed.run --nproc-per-node 2 integrations/python/examples/train_text.py
"""

from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import training

CONTEXT, WIDTH, BATCH = 48, 64, 32  # characters, features, sequences of all ranks together
STEPS = 60  # an epoch
MAX_NORM = 1.0


def text() -> torch.Tensor:
    """The licences, one byte a character."""
    files = sorted(p for p in Path("/usr/share/common-licenses").iterdir() if p.is_file())
    return torch.tensor(list(b"".join(p.read_bytes() for p in files)), dtype=torch.int64)


def batch(run: training.Run, letters: torch.Tensor, random: torch.Generator, sequences: int, context: int):
    """Returns this rank's part of a batch: sequences of characters, and for each character the next one."""
    places = torch.randint(0, len(letters) - context - 1, (sequences,), generator=random)
    pieces = torch.stack([letters[p:p + context + 1] for p in places[run.rank::run.ranks]])
    return pieces[:, :-1], pieces[:, 1:]


class Writer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.characters = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.to_characters = nn.Linear(WIDTH, 256)
        self.register_buffer("future", torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), 1))

    def forward(self, characters):
        embedded = self.characters(characters) + self.places.weight
        return self.to_characters(self.layers(embedded, mask=self.future))


def main() -> None:
    torch.set_num_threads(1)
    arguments = training.parser(__doc__, epochs=5).parse_args()
    run = training.Run(arguments, "tally", Writer(), stats=True)
    letters = text()
    optimizer = torch.optim.AdamW(run.model.parameters(), lr=3e-3)
    for epoch in range(1, arguments.epochs + 1):
        random = torch.Generator().manual_seed(epoch)
        clipped = 0
        for _ in range(STEPS):
            given, wanted = batch(run, letters, random, BATCH, CONTEXT)
            with run.step():
                optimizer.zero_grad()
                out = run.model(given)
                run.backward(nn.functional.cross_entropy(out.flatten(0, 1), wanted.flatten()))
                clipped += clip(run)
                optimizer.step()
        run.end_epoch(epoch, clipped=clipped)
    if dist.get_rank() == 0:
        print(f"loss {run.history[-1]['loss']:.3f} nats a character with {run.ranks} ranks")
    run.end()


def clip(run) -> bool:
    """As clip_grad_norm_ does it, without another pass over the gradients where tally has the norm."""
    parameters = list(run.model.parameters())
    if run.state is None:
        return bool(nn.utils.clip_grad_norm_(parameters, MAX_NORM) > MAX_NORM)
    norm = run.state.gradient_norm
    if norm <= MAX_NORM:
        return False
    for p in parameters:
        p.grad.mul_(MAX_NORM / (norm + 1e-6))
    return True


if __name__ == "__main__":
    main()
