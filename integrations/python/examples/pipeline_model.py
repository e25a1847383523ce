"""The small GPT of train_gpt.py as a chain of blocks, and what it reads."""

import torch
from torch import nn

from train_gpt import CONTEXT, WIDTH, Layer
from train_text import text


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        return self.characters(characters) + self.places.weight


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.to_characters = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.to_characters(self.norm(features))


def blocks(layers: int) -> nn.Sequential:
    """The whole model, with the same weights in every process. Between two blocks one tensor crosses."""
    torch.manual_seed(1)
    return nn.Sequential(Embedding(), *(Layer() for _ in range(layers)), Head())


def loss_of(output: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The mean over the characters, in nats."""
    return nn.functional.cross_entropy(output.flatten(0, 1), wanted.flatten())


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


class Pieces:
    """Sequences of the text. All ranks draw the same ones."""

    def __init__(self) -> None:
        self._letters = text()

    def batch(self, step: int, sequences: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns `sequences` sequences of characters, and for each character the next one."""
        random = torch.Generator().manual_seed(step)
        places = torch.randint(0, len(self._letters) - CONTEXT - 1, (sequences,), generator=random)
        pieces = torch.stack([self._letters[place:place + CONTEXT + 1] for place in places])
        return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()
