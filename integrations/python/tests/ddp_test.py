"""DistributedDataParallel through the hook: the right bits, in every way that people use it."""

import copy
import math

import group
import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tally.torch


def prepare(_rank, _ranks):
    dist.init_process_group("gloo")  # the hook needs no backend of tally's
    torch.set_num_threads(1)


def finish():
    dist.destroy_process_group()


def model_of(width=300, seed=3):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(50, width), torch.nn.Tanh(),
                               torch.nn.Linear(width, width), torch.nn.Tanh(),
                               torch.nn.Linear(width, 10))


def batch(rank, step, rows=8, width=50):
    random = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(rows, width, generator=random)


def gradients_of_each_rank(ranks, step, model):
    """By the definition: every rank's own gradients, computed here one after the other."""
    found = []
    for rank in range(ranks):
        own = copy.deepcopy(model)
        own(batch(rank, step)).square().sum().backward()
        found.append([p.grad for p in own.parameters()])
    return found


def average(tensors):
    """As the node does it: in rank order, left to right, in float32; one division."""
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor
    return total / len(tensors)


def with_hook(model, hook=tally.torch.allreduce_hook, **options):
    state_options = {name: options.pop(name)
                     for name in ("wire", "stats", "in_place") if name in options}
    state = tally.torch.State(deadline=20, **state_options)
    ddp = DistributedDataParallel(model, bucket_cap_mb=options.pop("bucket_cap_mb", 0.2), **options)
    ddp.register_comm_hook(state, hook)
    return ddp, state


def same_bits_as_the_definition(rank, ranks):
    for options in ({}, {"gradient_as_bucket_view": True}, {"in_place": True}, {"stats": True}):
        model = model_of()
        ddp, state = with_hook(model, **options)
        for step in range(3):  # buckets are made anew after the first
            wanted = [average(list(of)) for of in
                      zip(*gradients_of_each_rank(ranks, step, model))]
            exact = [torch.stack([g.double() for g in of]).mean(0) for of in
                     zip(*gradients_of_each_rank(ranks, step, model))]
            ddp.zero_grad()
            ddp(batch(rank, step)).square().sum().backward()
            for p, bits, value in zip(model.parameters(), wanted, exact):
                assert torch.equal(p.grad, bits), (options, step, (p.grad - bits).abs().max())
                error = (p.grad.double() - value).abs().max().item()
                assert error <= ranks * 2.0 ** -23 * (1 + value.abs().max().item()) * 4, error
            if state.stats:
                norm = math.sqrt(sum(p.grad.double().square().sum().item()
                                     for p in model.parameters()))
                assert abs(state.gradient_norm - norm) <= 1e-12 * norm
                assert state.nonfinite == 0
        state.close()


def as_one_process_with_the_whole_batch(rank, ranks):
    losses, parameters = [], []
    for _ in range(2):
        model, alone = model_of(seed=5), model_of(seed=5)
        ddp, state = with_hook(model)
        fast = torch.optim.SGD(model.parameters(), lr=0.05)
        slow = torch.optim.SGD(alone.parameters(), lr=0.05)
        for step in range(10):
            fast.zero_grad()
            ddp(batch(rank, step)).square().mean().backward()
            fast.step()
            slow.zero_grad()
            whole = torch.cat([batch(r, step) for r in range(ranks)])
            loss = alone(whole).square().mean()
            loss.backward()
            slow.step()
        for mine, reference in zip(model.parameters(), alone.parameters()):
            torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-6)
        losses.append(ddp(batch(0, 99)).square().mean().item())
        parameters.append([p.detach().clone() for p in model.parameters()])
        state.close()
    assert losses[0] == losses[1], "two runs agree bit for bit"
    assert all(torch.equal(a, b) for a, b in zip(*parameters))


def nothing_is_copied(rank, ranks):
    model = torch.nn.Linear(2000, 700)
    for view in (False, True):
        ddp, state = with_hook(model, gradient_as_bucket_view=view, bucket_cap_mb=25)
        for step in range(3):
            ddp(batch(rank, step, width=2000)).sum().backward()
        assert state.copied_bytes == 0, state.copied_bytes
        state.close()


def ordinary_memory_is_adopted(rank, ranks):
    """A bucket that torch made before tally.torch was imported."""
    model = torch.nn.Linear(2000, 700)
    _, state = with_hook(model)
    ordinary = torch.from_numpy(np.zeros(1_500_001, np.float32))
    again = torch.from_numpy(np.zeros(1_200_000, np.float32))
    assert not tally.torch.is_shared(ordinary)
    for step in range(6):
        bucket = again if step == 4 else ordinary  # torch may move a bucket
        bucket.fill_(rank + step)
        state._reducer.average(0, bucket, bucket, False).wait()
        assert (bucket == (ranks - 1) / 2 + step).all()
    assert state.copied_bytes < 6 * 4 * 4096, state.copied_bytes
    state.close()
    assert (again == (ranks - 1) / 2 + 4).all() and (ordinary == (ranks - 1) / 2 + 5).all()


def unused_parameters(rank, ranks):
    class Sometimes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.always, self.sometimes = torch.nn.Linear(50, 10), torch.nn.Linear(50, 10)

        def forward(self, x, use):
            return self.always(x) + (self.sometimes(x) if use else 0)

    model = Sometimes()
    ddp, state = with_hook(model, find_unused_parameters=True)
    ddp(batch(rank, 1), rank == 0).sum().backward()
    total = batch(0, 1).sum(0) / ranks
    torch.testing.assert_close(model.sometimes.weight.grad, total.expand(10, 50))
    for p in model.parameters():  # all ranks have the same
        gathered = [torch.empty_like(p.grad) for _ in range(ranks)]
        dist.all_gather(gathered, p.grad)
        assert all(torch.equal(g, p.grad) for g in gathered)
    state.close()


def no_sync_adds_up(rank, ranks):
    model = model_of()
    alone = copy.deepcopy(model)
    ddp, state = with_hook(model)
    with ddp.no_sync():
        ddp(batch(rank, 1)).sum().backward()
    ddp(batch(rank, 2)).sum().backward()
    for r in range(ranks):
        for step in (1, 2):
            (alone(batch(r, step)).sum() / ranks).backward()
    for mine, reference in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(mine.grad, reference.grad, rtol=1e-4, atol=1e-5)
    state.close()


def mixed_types(rank, ranks):
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.low = torch.nn.Linear(20, 30).to(torch.bfloat16)
            self.high = torch.nn.Linear(30, 5).double()

        def forward(self, x):
            return self.high(self.low(x.to(torch.bfloat16)).double())

    torch.manual_seed(1)
    model = Mixed()
    tally_group = dist.new_group(backend="tally")  # gloo does not broadcast bfloat16
    ddp, state = with_hook(model, process_group=tally_group)
    ddp(torch.full((4, 20), 1.0 + rank)).sum().backward()
    wanted = 4 * 20 * sum(1.0 + r for r in range(ranks)) / ranks
    assert model.high.bias.grad.dtype == torch.float64
    assert (model.high.bias.grad == 4).all()
    assert model.low.weight.grad.dtype == torch.bfloat16
    assert torch.isfinite(model.low.weight.grad).all() and wanted > 0
    state.close()


def half_the_bytes_on_the_wire(rank, ranks):
    for wire in ("bf16", "f16"):
        model = model_of()
        ddp, state = with_hook(model, wire=wire)
        wanted = [average(list(of)) for of in zip(*gradients_of_each_rank(ranks, 1, model))]
        ddp(batch(rank, 1)).square().sum().backward()
        for p, reference in zip(model.parameters(), wanted):
            assert p.grad.dtype == torch.float32
            torch.testing.assert_close(p.grad, reference, rtol=0.02, atol=0.02)
        state.close()
    try:
        tally.torch.State(wire="f8")
        raise AssertionError("wire f8 was taken")
    except ValueError as error:
        assert "'bf16'" in str(error)


def not_finite_is_counted(rank, ranks):
    model = torch.nn.Linear(10, 10, bias=False)
    ddp, state = with_hook(model, stats=True)
    x = torch.ones(1, 10)
    if rank == ranks - 1:
        x[0, 3] = math.inf
    ddp(x).sum().backward()
    assert state.nonfinite == 10, state.nonfinite
    assert math.isclose(state.gradient_norm, math.sqrt(90))
    state.close()


def several_models_at_once(rank, ranks):
    pairs = [with_hook(model_of(seed=s)) for s in range(3)]
    for ddp, _ in pairs:
        ddp(batch(rank, 4)).sum().backward()
    for ddp, state in reversed(pairs):
        assert all(p.grad is not None for p in ddp.parameters())
        state.close()


def zero_redundancy_optimizer(rank, ranks):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    group = dist.new_group(backend="tally")
    found = []
    for sharded in (True, False):
        model = model_of()
        ddp, state = with_hook(model, process_group=group)
        if sharded:
            optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam,
                                                process_group=group, lr=0.01)
        else:
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(3):
            optimizer.zero_grad()
            ddp(batch(rank, step)).square().mean().backward()
            optimizer.step()
        if sharded:
            optimizer.consolidate_state_dict(to=0)
        found.append([p.detach().clone() for p in model.parameters()])
        state.close()
    assert all(torch.equal(a, b) for a, b in zip(*found)), "as without shards"


def ranks_with_fewer_batches_join(rank, ranks):
    model = model_of()
    ddp, state = with_hook(model)
    with ddp.join():
        for step in range(2 + rank):
            ddp(batch(rank, step)).square().mean().backward()
    for p in model.parameters():
        gathered = [torch.empty_like(p) for _ in range(ranks)]
        dist.all_gather(gathered, p.detach())
        assert all(torch.equal(g, p) for g in gathered)
    state.close()


def a_static_graph(rank, ranks):
    model = model_of()
    ddp, state = with_hook(model, static_graph=True)
    reference = copy.deepcopy(model)
    for step in range(3):
        model.zero_grad()
        ddp(batch(rank, step)).square().sum().backward()
        wanted = [average(list(of)) for of in zip(*gradients_of_each_rank(ranks, step, reference))]
        for p, w in zip(model.parameters(), wanted):
            assert torch.equal(p.grad, w)
    state.close()


def a_closed_state_is_refused(rank, ranks):
    ddp, state = with_hook(model_of())
    ddp(batch(rank, 1)).sum().backward()
    state.close()
    try:
        ddp(batch(rank, 1)).sum().backward()
        raise AssertionError("it was not refused")
    except RuntimeError as error:
        assert "closed" in str(error), error
    dist.barrier()


CASES = {case.__name__: case for case in (
    same_bits_as_the_definition, as_one_process_with_the_whole_batch, nothing_is_copied,
    ordinary_memory_is_adopted, unused_parameters, no_sync_adds_up, mixed_types, half_the_bytes_on_the_wire,
    not_finite_is_counted, several_models_at_once,
    zero_redundancy_optimizer, ranks_with_fewer_batches_join, a_static_graph,
    a_closed_state_is_refused)}
CASES["buckets_older_than_the_import_are_adopted"] = group.Program(
    ("late_import.py",), (1, 2, 3, 4) if group.SOAK else (2, 3))

if __name__ == "__main__":
    group.WarmProgram.imports += ("torch.distributed.optim",)
    group.main(CASES, prepare=prepare, finish=finish)
