"""Connections through a SYN proxy, between real ends in namespaces of their own.

proxied.py CASE CLIENT-NAMESPACE SERVER-NAMESPACE SERVER-ADDRESS prints how the client fared.
"""
import ctypes
import hashlib
import os
import socket
import subprocess
import sys
import threading

CLONE_NEWNET = 0x40000000
PORT = 8000
PATIENCE = 60
BYTES = 3_000_000
LIBC = ctypes.CDLL(None, use_errno=True)
CLIENT, SERVER = (os.open(path, os.O_RDONLY) for path in sys.argv[2:4])
ADDRESS = sys.argv[4]
FAMILY = socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET


def enter(namespace):
    """What is opened or started from now on by this thread is there."""
    if LIBC.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def rules(namespace, text):
    enter(namespace)
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)


CHANGED = []


def set_kernel(namespace, name, value):
    enter(namespace)
    with open("/proc/sys/net/ipv4/" + name, "r+") as setting:
        before = setting.read()
        setting.seek(0)
        setting.write(value)
    CHANGED.append((namespace, name, before))


def restore():
    """The next case finds what this one found."""
    while CHANGED:
        set_kernel(*CHANGED.pop())
        CHANGED.pop()
    for namespace in CLIENT, SERVER:
        rules(namespace, "add table inet lose; delete table inet lose")


def lose():
    """Each end loses one segment in fifty of those that come, but none of handshakes."""
    for namespace in CLIENT, SERVER:
        rules(namespace, """table inet lose { counter lost {}; chain in { type filter hook input priority 0;
            meta l4proto tcp meta length > 200 numgen inc mod 50 0 counter name lost drop; }; }""")


def listen():
    enter(SERVER)
    listener = socket.create_server((ADDRESS, PORT), family=FAMILY)
    listener.settimeout(PATIENCE)
    return listener


def client():
    enter(CLIENT)
    made = socket.socket(FAMILY)
    made.settimeout(PATIENCE)
    return made


def content(seed):
    return hashlib.shake_128(seed).digest(BYTES)


def read_all(connection):
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def options(connection):
    """What both ends agreed on: timestamps 1, SACK 2, window scaling 4, ECN 8."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5] & 15


def transfer(speaks_first, losing, wanted=7):
    """Both ends send three megabytes and compare what they get. Returns what they lost."""
    if losing:
        lose()
    listener, results = listen(), []

    def serve():
        connection = listener.accept()[0]
        connection.settimeout(PATIENCE)
        if speaks_first == "server":
            connection.sendall(content(b"server"))
            connection.shutdown(socket.SHUT_WR)
        results.append(read_all(connection) == content(b"client"))
        results.append(options(connection) & 7 == wanted)
        if speaks_first == "client":
            connection.sendall(content(b"server"))
            connection.shutdown(socket.SHUT_WR)
        connection.close()

    server = threading.Thread(target=serve)
    server.start()
    mine = client()
    mine.connect((ADDRESS, PORT))
    if speaks_first == "server":
        assert read_all(mine) == content(b"server"), "the client got something else"
    mine.sendall(content(b"client"))
    mine.shutdown(socket.SHUT_WR)
    if speaks_first == "client":
        assert read_all(mine) == content(b"server"), "the client got something else"
    # What remains of the offer of a firewall that does not know the server, where that has less.
    assert options(mine) & wanted == wanted, f"the client has {options(mine)}"
    server.join()
    assert results == [True, True], f"the server has {results}"
    if losing:
        for namespace in CLIENT, SERVER:
            enter(namespace)
            said = subprocess.run(["nft", "list", "counters"], capture_output=True, text=True, check=True).stdout
            assert "packets 0" not in said, "nothing was lost"


def without(name, wanted):
    """The client does not have an option."""
    set_kernel(CLIENT, name, "0")
    transfer("client", False, wanted)


def plain_server():
    """The server has no window scaling, which the client was told that it has."""
    set_kernel(SERVER, "tcp_window_scaling", "0")
    listener, got = listen(), []

    def serve():
        connection = listener.accept()[0]
        connection.settimeout(PATIENCE)
        got.append(read_all(connection))
        connection.sendall(content(b"server"))
        connection.close()

    server = threading.Thread(target=serve)
    server.start()
    mine = client()
    mine.connect((ADDRESS, PORT))
    mine.sendall(content(b"client"))
    mine.shutdown(socket.SHUT_WR)
    assert read_all(mine) == content(b"server"), "the client got something else"
    server.join()
    assert got == [content(b"client")], "the server got something else"


def refused():
    """Nobody listens: the client is connected for a moment, and reset."""
    mine = client()
    mine.connect((ADDRESS, PORT))
    mine.recv(100)


def ecn():
    """Both ends want ECN, which the firewall does not offer."""
    set_kernel(CLIENT, "tcp_ecn", "1")
    set_kernel(SERVER, "tcp_ecn", "1")
    transfer("client", False)


def fast_open():
    """The client sends data in its SYN, by a cookie that it would need to have; it gets none, and goes on without."""
    set_kernel(CLIENT, "tcp_fastopen", "5")
    set_kernel(SERVER, "tcp_fastopen", "7")
    listener, got = listen(), []
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)

    def serve():
        connection = listener.accept()[0]
        connection.settimeout(PATIENCE)
        got.append(read_all(connection))
        connection.close()

    server = threading.Thread(target=serve)
    server.start()
    mine = client()
    sent = mine.sendto(content(b"client"), socket.MSG_FASTOPEN, (ADDRESS, PORT))
    mine.sendall(content(b"client")[sent:])
    mine.shutdown(socket.SHUT_WR)
    read_all(mine)
    server.join()
    assert got == [content(b"client")], "the server got something else"


CASES = {
    "client-first": lambda: transfer("client", False),
    "server-first": lambda: transfer("server", False),
    "losing": lambda: transfer("client", True),
    "server-losing": lambda: transfer("server", True),
    "no-timestamps": lambda: without("tcp_timestamps", 6),
    "no-sack": lambda: without("tcp_sack", 5),
    "no-scaling": lambda: without("tcp_window_scaling", 3),
    "plain-server": plain_server,
    "refused": refused,
    "ecn": ecn,
    "fast-open": fast_open,
}
try:
    CASES[sys.argv[1]]()
    print("done")
except (ConnectionError, TimeoutError) as error:
    print(type(error).__name__)
finally:
    restore()
