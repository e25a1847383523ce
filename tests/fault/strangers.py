"""Strangers of a node: connections that open no session. Most are idle, some have sent half a request; they come from
many addresses, and one that the node closes comes again.

usage: strangers.py TCP_PORT UNIX_PATH, told by lines of its input: "on COUNT HALF" answers "on" when all have connected
once, "off" closes all and answers "off COUNT", how many connections there were. The end of the input ends it.
"""

import collections
import os
import resource
import select
import socket
import sys
import time

ADDRESSES = 100
NOBODY = 65534
AGAIN_PER_SECOND = 1000  # of those that were closed
HALF = b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 60_000


class Strangers:
    def __init__(self, port: int, path: str):
        self.port, self.path = port, path
        self.epoll = select.epoll()
        self.sockets: dict[int, tuple[socket.socket, int]] = {}
        self.half = self.made = 0
        self.closed: collections.deque[int] = collections.deque()
        self.allowance, self.last = 0.0, time.monotonic()

    def connect(self, number: int) -> None:
        """One in ten comes by the Unix socket, as another user."""
        local = number % 10 == 0
        made = socket.socket(socket.AF_UNIX if local else socket.AF_INET)
        made.setblocking(False)
        try:
            if local:
                made.connect(self.path)
            else:
                made.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
                made.connect_ex(("127.0.0.1", self.port))
        except OSError:  # the node's backlog is full, or no port is left
            made.close()
            self.closed.append(number)
            return
        self.made += 1
        self.sockets[made.fileno()] = made, number
        halves = select.EPOLLOUT if number < self.half else 0
        self.epoll.register(made.fileno(), select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT | halves)

    def come_again(self) -> None:
        now = time.monotonic()
        self.allowance = min(self.allowance + (now - self.last) * AGAIN_PER_SECOND, AGAIN_PER_SECOND / 10)
        self.last = now
        while self.closed and self.allowance >= 1:
            self.allowance -= 1
            self.connect(self.closed.popleft())

    def turn(self, timeout: float) -> None:
        for fd, events in self.epoll.poll(timeout):
            if fd not in self.sockets:
                continue
            if events == select.EPOLLOUT:
                try:
                    self.sockets[fd][0].send(HALF)
                    self.epoll.modify(fd, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT)
                    continue
                except OSError:
                    pass
            stranger, number = self.sockets.pop(fd)
            stranger.close()
            self.closed.append(number)

    def on(self, count: int, half: int) -> None:
        self.half = half
        for number in range(count):
            self.connect(number)
            if number % 100 == 99:
                self.turn(0)

    def off(self) -> None:
        for stranger, _ in self.sockets.values():
            stranger.close()
        self.sockets.clear()
        self.closed.clear()


def main() -> None:
    hard = max(16_384, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.nice(19)  # in a real cluster strangers have processors of their own
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    strangers = Strangers(int(sys.argv[1]), sys.argv[2])
    strangers.epoll.register(0, select.EPOLLIN)
    while True:
        strangers.turn(0.02)
        strangers.come_again()
        if not select.select([0], [], [], 0)[0]:
            continue
        words = os.read(0, 4096).decode().split()
        if not words:
            return
        if words[0] == "on":
            strangers.on(int(words[1]), int(words[2]))
            print("on", flush=True)
        else:
            strangers.off()
            print("off", strangers.made, flush=True)


if __name__ == "__main__":
    main()
