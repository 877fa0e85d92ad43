"""What tests with several processes on loopback have in common."""

import contextlib
import random
import socket
import time

PATIENCE = 60


def until(what, ask):
    """Asks until there is an answer."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.05)


def free_ports(count):
    """So many ports that follow each other, that nothing listens on, and that no system gives to outgoing connections."""
    while True:
        first = random.randrange(16_000, 31_000)
        ports = range(first, first + count)
        with contextlib.suppress(OSError):
            for port in ports:
                socket.create_server(("127.0.0.1", port)).close()
            return ports
