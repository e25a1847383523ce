"""The machines of a guest in the layout for netem (machines.sh), for the cases of tests/net/faults.py."""

import json
import subprocess


def call(*command: str) -> None:
    subprocess.run(command, check=True, timeout=20, stdout=subprocess.DEVNULL)


def resources(kind: str) -> list[dict]:
    shown = subprocess.run(["rdma", "--json", "resource", "show", kind], check=True, timeout=20, text=True,
                           capture_output=True).stdout
    return json.loads(shown or "[]")


class Machine:
    """A soft-RoCE device; control goes over the loopback interface, and does not notice what happens to cables."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.transport = f"verbs:rxe{index}"
        self.link, self.port = f"v{index}", f"p{index}"  # its end of its cable, and the switch's

    def popen(self, command: list, env: dict, **more) -> subprocess.Popen:
        return subprocess.Popen(command, env={**env, "TALLY_TRANSPORT": self.transport}, **more)

    def unplug(self) -> None:
        call("ip", "-n", "switch", "link", "set", self.port, "down")

    def plug(self) -> None:
        call("ip", "-n", "switch", "link", "set", self.port, "up")

    def pass_at_most(self, bytes_: int) -> None:
        """Its port of the switch drops longer packets without a word."""
        call("ip", "-n", "switch", "link", "set", self.port, "mtu", str(bytes_))

    def lose(self, share: float) -> None:
        """Loses this share of the packets that the machine sends. 0 ends the loss."""
        self._lose(["tc"], self.link, share)

    def disturb(self, *how: str) -> None:
        """Disturbs the packets that the machine sends; how: in the words of netem. No words end the disturbance."""
        self._netem(["tc"], self.link, *how)

    def drop_from(self, source: "Machine") -> None:
        self._from(source, 1)

    def accept_from(self, source: "Machine") -> None:
        self._from(source, 0)

    def _from(self, source: "Machine", share: float) -> None:
        """The node is machine 1. It drops the packets of one machine; another machine drops those of all machines."""
        if self.index == 1:
            source.lose(share)
        else:
            self._lose(["ip", "netns", "exec", "switch", "tc"], self.port, share)

    def _lose(self, tc: list, link: str, share: float) -> None:
        self._netem(tc, link, *(("loss", f"{100 * share}%") if share > 0 else ()))

    @staticmethod
    def _netem(tc: list, link: str, *how: str) -> None:
        subprocess.run([*tc, "qdisc", "del", "dev", link, "root"], capture_output=True, timeout=20)
        if how:
            call(*tc, "qdisc", "add", "dev", link, "root", "netem", *how)


class Guest:
    """The four machines of the guest."""

    address = "127.0.0.1:7733"
    # Beside a busy host the guest's soft-RoCE is late, and takes badly what is sent twice.
    config = "[network]\nack_timeout = 16\n"
    node_flags = ["--verbs", "on", "--device", "rxe1"]
    elements = 100_000
    loss = 0.002

    def __init__(self) -> None:
        self._machines = {index: Machine(index) for index in range(1, 5)}

    def machine(self, index: int) -> Machine:
        return self._machines[index]

    def held(self, pid: int) -> dict[str, int]:
        """Of the device."""
        return {kind: sum(entry.get("pid") == pid for entry in resources(kind)) for kind in ("qp", "mr", "cq", "pd")}
