"""Connects the ranks of a group to one node: rank 0 knows or starts the node, and sends its address."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from typing import Optional

from tally._error import Error
from tally.local import START_SECONDS, own_node
import tally.torch._torch as _torch


def connect(store, rank: int, ranks: int, deadline: float,
            lost: Optional[str] = None) -> "_torch.Communicator":
    """Opens a session of this rank, in a job of the group's own.

    store: a store of torch.distributed that only this group uses. $TALLY_ADDRESS names the node and $TALLY_TOKEN
    the job's secret. Without an address rank 0 finds or starts a node on this machine.
    deadline: seconds, for operations without one. lost: the address of a node that was lost."""
    key = "tally/session"
    if rank == 0:
        try:
            offer = {"address": os.environ.get("TALLY_ADDRESS") or own_node(instead_of=lost),
                     "job": f"torch-{uuid.uuid4().hex[:16]}", "host": socket.gethostname()}
        except Error as error:
            offer = {"error": error.args[0], "status": error.status}
        store.set(key, json.dumps(offer))
        store.add(key + "/known", 1)
    offer = json.loads(_get(store, key, deadline + START_SECONDS))
    if "error" in offer:
        raise Error(f"rank 0: {offer['error']}", offer["status"], 0)
    address = os.environ.get("TALLY_ADDRESS") or offer["address"]
    if not os.environ.get("TALLY_ADDRESS") and offer["host"] != socket.gethostname():
        raise Error(f"rank 0 started a node on {offer['host']} and this is {socket.gethostname()}: "
                    "ranks on several machines need $TALLY_ADDRESS", "unavailable", 0)
    return _torch.Communicator(address=address, job=offer["job"],
                               token=os.environ.get("TALLY_TOKEN", ""), rank=rank, ranks=ranks,
                               connect_timeout=max(deadline, 10.0), deadline=deadline)


def _get(store, key: str, seconds: float) -> bytes:
    """As store.get, but Ctrl-C and the deadline end the wait. The waits of torch 1.13 ignore both."""
    until = time.monotonic() + seconds
    pause = 0.001
    while store.add(key + "/known", 0) == 0:
        if time.monotonic() > until:
            raise Error(f"rank 0 has not named a node within {seconds:.0f} seconds", "deadline", 0)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return store.get(key)
