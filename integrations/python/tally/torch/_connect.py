"""Connects the ranks of a group to one node: rank 0 knows or starts the node, and sends its address.

There is one time-out, the process group's. It is the deadline of operations. To open a session takes no longer than that
either, but at least 10 and at most CONNECT_SECONDS."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
import uuid
from typing import Optional

import torch.distributed as dist

from tally._error import Error
from tally.local import START_SECONDS, own_node
import tally.torch._torch as _torch

CONNECT_SECONDS = 60
logger = logging.getLogger("tally.torch")
_LEVELS = {dist.DebugLevel.OFF: logging.WARNING, dist.DebugLevel.INFO: logging.INFO,
           dist.DebugLevel.DETAIL: logging.DEBUG}


def of_this_start(name: str, store):
    """Returns the part `name` of the store, for this start of the ranks alone: torchrun keeps its store when it starts the
    ranks again, with the keys of those before."""
    return dist.PrefixStore(f"{name} {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def follow_debug_level() -> None:
    """Lets $TORCH_DISTRIBUTED_DEBUG decide what this package logs, unless the program has set a level."""
    if logger.level == logging.NOTSET:
        logger.setLevel(_LEVELS[dist.get_debug_level()])
        if not logging.getLogger().handlers:
            logger.addHandler(logging.StreamHandler())


def connect(store, rank: int, ranks: int, deadline: float,
            lost: Optional[str] = None, job: Optional[str] = None) -> "_torch.Communicator":
    """Opens a session of this rank, in a job of the group's own.

    store: a store of torch.distributed that only this group uses. $TALLY_ADDRESS names the node and $TALLY_TOKEN
    the job's secret. Without an address rank 0 finds or starts a node on this machine.
    $TALLY_MACHINE_GROUPS of rank 0 counts for all ranks.
    deadline: seconds, the process group's time-out. lost: the address of a node that was lost.
    job: its name after "torch-"; None: random digits."""
    follow_debug_level()
    store = of_this_start("tally", store)
    start = min(max(deadline, 10.0), CONNECT_SECONDS)
    key = "session"
    if rank == 0:
        try:
            offer = {"address": os.environ.get("TALLY_ADDRESS") or own_node(instead_of=lost),
                     "job": f"torch-{job or uuid.uuid4().hex[:16]}", "host": socket.gethostname(),
                     "machine_groups": _wants_machine_groups()}
        except Error as error:
            offer = {"error": error.args[0], "status": error.status}
        store.set(key, json.dumps(offer))
        store.add(key + "/known", 1)
    offer = json.loads(_get(store, key, start + START_SECONDS))
    if "error" in offer:
        raise Error(f"rank 0: {offer['error']}", offer["status"], 0)
    address = os.environ.get("TALLY_ADDRESS") or offer["address"]
    if not os.environ.get("TALLY_ADDRESS") and offer["host"] != socket.gethostname():
        raise Error(f"rank 0 started a node on {offer['host']} and this is {socket.gethostname()}: "
                    "ranks on several machines need $TALLY_ADDRESS", "unavailable", 0)
    communicator = _torch.Communicator(address=address, job=offer["job"], token=os.environ.get("TALLY_TOKEN", ""),
                                       rank=rank, ranks=ranks, connect_timeout=start, deadline=deadline,
                                       machine_groups=offer["machine_groups"])
    if rank == 0:
        logger.info("tally: %d ranks, job %s at %s; time-out %g s, to connect %g s", ranks, offer["job"], address, deadline, start)
    return communicator


def connect_again(job: str, rank: int, ranks: int, deadline: float) -> "_torch.Communicator":
    """Opens a session of a rank that returns to a job of this name, at $TALLY_ADDRESS."""
    follow_debug_level()
    if not os.environ.get("TALLY_ADDRESS"):
        raise Error("a rank that returns needs $TALLY_ADDRESS: an address of the cluster", "invalid argument")
    return _torch.Communicator(address=os.environ["TALLY_ADDRESS"], job=f"torch-{job}",
                               token=os.environ.get("TALLY_TOKEN", ""), rank=rank, ranks=ranks,
                               connect_timeout=min(max(deadline, 10.0), CONNECT_SECONDS), deadline=deadline,
                               machine_groups=_wants_machine_groups())


def _wants_machine_groups() -> bool:
    value = os.environ.get("TALLY_MACHINE_GROUPS", "0")
    if value not in ("0", "1"):
        raise Error(f"TALLY_MACHINE_GROUPS is {value!r}: use 1 or 0", "invalid argument")
    return value == "1"


def _get(store, key: str, seconds: float) -> bytes:
    """As store.get, but Ctrl-C ends the wait."""
    until = time.monotonic() + seconds
    pause = 0.001
    while store.add(key + "/known", 0) == 0:
        if time.monotonic() > until:
            raise Error(f"rank 0 has not named a node within {seconds:.0f} seconds", "deadline", 0)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return store.get(key)
