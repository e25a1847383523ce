"""A small GPT that learns to write like the licences that every Debian machine has, with its parameters sharded.

Each rank keeps its part of the parameters and of the optimizer's state (FSDP2, torch's fully_shard). The backend
"tally" gathers parameters and reduces gradients, in memory that the node uses in place.

    tools/python -m torch.distributed.run --nproc-per-node 2 integrations/python/examples/train_gpt.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import tally.torch
import training
from train_text import batch, text

CONTEXT, WIDTH, HEADS, LAYERS = 64, 96, 4, 3  # characters, features
BATCH = 16  # sequences of all ranks together
STEPS = 60  # an epoch
MAX_NORM = 1.0


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.attention, self.mixed = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        rows, length, _ = features.shape
        heads = self.attention(self.norms[0](features)).view(rows, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        features = features + self.mixed(seen.transpose(1, 2).reshape(rows, length, WIDTH))
        return features + self.narrow(nn.functional.gelu(self.wide(self.norms[1](features))))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.characters, self.places = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.to_characters = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Returns the logarithms of the next characters' probabilities."""
        features = self.characters(characters) + self.places.weight
        for layer in self.layers:
            features = layer(features)
        return self.to_characters(self.norm(features)).log_softmax(-1)


def shard(model: Gpt) -> nn.Module:
    """A layer is the unit that is gathered before it computes, and freed after."""
    for part in (*model.layers, model):
        fully_shard(part)
        part.set_allocate_memory_from_process_group_for_comm(True)
    return model


def main() -> None:
    torch.set_num_threads(1)
    arguments = training.parser(__doc__, epochs=5, backends=("tally", "gloo")).parse_args()
    run = training.Run(arguments, "tally", Gpt(), wrap=shard)
    letters = text()
    optimizer = torch.optim.AdamW(run.model.parameters(), lr=3e-3)
    for epoch in range(1, arguments.epochs + 1):
        random = torch.Generator().manual_seed(epoch)
        for _ in range(STEPS):
            given, wanted = batch(run, letters, random, BATCH, CONTEXT)
            with run.step():
                optimizer.zero_grad()
                out = run.model(given)
                run.backward(nn.functional.nll_loss(out.flatten(0, 1), wanted.flatten()))
                nn.utils.clip_grad_norm_(run.model.parameters(), MAX_NORM)
                optimizer.step()
        run.end_epoch(epoch)
    if dist.get_rank() == 0:
        print(f"loss {run.history[-1]['loss']:.3f} nats a character with {run.ranks} ranks")
        if run.backend == "tally":
            print(f"copied on the way to the node: {tally.torch.copied_bytes() / (arguments.epochs * STEPS):.0f} bytes a step")
    run.end()


if __name__ == "__main__":
    main()
