"""A proxy that stands for the network between a client and a server on this machine, which a test cuts."""

import contextlib
import socket
import threading


class Proxy:
    """Forwards each connection at its port to a port of this machine.

    While it is cut nothing passes, in either direction, and no connection ends. What was sent meanwhile arrives when the
    cut is over, also from a client that has given up.
    """

    def __init__(self, server: int, listener: socket.socket | None = None):
        """listener: takes the connections, where that is to be in another network namespace than the server."""
        self._server = server
        self._passes = threading.Event()
        self._passes.set()
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._passes.clear()

    def restore(self) -> None:
        self._passes.set()

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            self._passes.wait()
            with socket.create_connection(("127.0.0.1", self._server)) as server:
                back = threading.Thread(target=self._copy, args=[server, client], daemon=True)
                back.start()
                self._copy(client, server)
                back.join()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._passes.wait()
                target.sendall(data)
            self._passes.wait()
            target.shutdown(socket.SHUT_WR)
