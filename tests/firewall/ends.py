"""Ends that forget, restart and lose segments: one case between a client and a server in namespaces of their own.

ends.py CASE CLIENT-NAMESPACE SERVER-NAMESPACE SERVER-ADDRESS prints how the client fared. A case that hangs ends by PATIENCE.
"""
import ctypes
import os
import socket
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
TCP_REPAIR = 19
TCP_CLOSE = 7
CLIENT_PORT, SERVER_PORT = 4000, 8000
# Shorter than what each of these took when a firewall did not understand the ends: 20 s and more.
PATIENCE = 15
LIBC = ctypes.CDLL(None, use_errno=True)
CLIENT, SERVER = (os.open(path, os.O_RDONLY) for path in sys.argv[2:4])
ADDRESS = sys.argv[4]


def enter(namespace):
    """What is opened or started from now on is there."""
    if LIBC.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def rules(namespace, text):
    enter(namespace)
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)


def listen():
    enter(SERVER)
    family = socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET
    listener = socket.create_server((ADDRESS, SERVER_PORT), family=family)
    listener.settimeout(PATIENCE)
    return listener


def client(patience=PATIENCE):
    """A socket of always the same port."""
    enter(CLIENT)
    made = socket.socket(socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("", CLIENT_PORT))
    made.settimeout(patience)
    return made


def connected():
    listener, mine = listen(), client()
    mine.connect((ADDRESS, SERVER_PORT))
    other = listener.accept()[0]
    mine.sendall(b"question")
    other.recv(100)
    other.sendall(b"answer")
    mine.recv(100)
    return listener, mine, other


def forget(end):
    """Closes without a word to the other end, as a machine that is switched off."""
    end.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    end.close()


def reset(end):
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def refused():
    """Both ends forgot the connection, and nobody listens any more."""
    listener, mine, other = connected()
    for end in mine, other, listener:
        forget(end) if end is not listener else end.close()
    client().connect((ADDRESS, SERVER_PORT))


def forgotten():
    """Both ends forgot the connection, and the client comes again."""
    listener, mine, other = connected()
    forget(mine)
    forget(other)
    client().connect((ADDRESS, SERVER_PORT))


def restarted():
    """The client forgot the connection and comes again; the server challenges it."""
    listener, mine, other = connected()
    forget(mine)
    client().connect((ADDRESS, SERVER_PORT))


def lost():
    """Data is lost before the client and the reset behind it is not, so the client does not believe it."""
    listener, mine, other = connected()
    rules(CLIENT, "table inet lose { chain in { type filter hook input priority 0; meta length > 300 drop; }; }")
    other.sendall(bytes(500))
    reset(other)
    mine.recv(100)


def unanswered(cookies):
    """The client gives up on a SYN whose answer is lost, and comes again by the same port."""
    enter(SERVER)
    with open("/proc/sys/net/ipv4/tcp_syncookies", "w") as setting:
        setting.write(cookies)
    listener, first = listen(), client()
    rules(CLIENT, """table inet lose { counter answers {}; chain in { type filter hook input priority 0;
        tcp flags & (syn | ack) == syn | ack counter name answers drop; }; }""")
    first.setblocking(False)
    first.connect_ex((ADDRESS, SERVER_PORT))
    end = time.monotonic() + PATIENCE
    while "packets 0" in subprocess.run(["nft", "list", "counters"], capture_output=True, text=True, check=True).stdout:
        if time.monotonic() > end:
            raise TimeoutError("no answer")
        time.sleep(0.01)
    first.close()
    rules(CLIENT, "delete table inet lose")
    client().connect((ADDRESS, SERVER_PORT))


def closed():
    listener, mine, other = connected()
    other.sendall(bytes(5000))
    other.close()
    while mine.recv(10000):
        pass
    # The last acknowledgement has crossed the firewall when the socket is closed.
    mine.shutdown(socket.SHUT_WR)
    end = time.monotonic() + PATIENCE
    while mine.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != TCP_CLOSE:
        if time.monotonic() > end:
            raise TimeoutError("no acknowledgement")
        time.sleep(0.001)


def aborted():
    listener, mine, other = connected()
    reset(mine)
    other.settimeout(PATIENCE)
    other.recv(100)


CASES = {
    "refused": refused,
    "forgotten": forgotten,
    "restarted": restarted,
    "lost": lost,
    "unanswered": lambda: unanswered("1"),
    "cookies": lambda: unanswered("2"),
    "closed": closed,
    "aborted": aborted,
}
try:
    CASES[sys.argv[1]]()
    print("done")
except (ConnectionError, TimeoutError) as error:
    print(type(error).__name__)
