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


def count():
    """Packets of the one counter in the namespace entered last."""
    listed = subprocess.run(["nft", "list", "counters"], capture_output=True, text=True, check=True).stdout
    return int(listed.split("packets ")[1].split()[0])


def wait_for(least, meanwhile=lambda: None):
    """Until that counter has so many packets."""
    end = time.monotonic() + PATIENCE
    while count() < least:
        if time.monotonic() > end:
            raise TimeoutError("too few packets")
        meanwhile()
        time.sleep(0.01)


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
    wait_for(1)
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


def finish(end):
    """Reads until the other end has closed."""
    while end.recv(10_000):
        pass


def echo(mine, other, text=b"again"):
    mine.sendall(text)
    if other.recv(100) != text:
        raise ConnectionError("other bytes")


def again(listener):
    """The client comes again by the same port, and both ends have a connection."""
    mine = client()
    mine.connect((ADDRESS, SERVER_PORT))
    other = listener.accept()[0]
    other.settimeout(PATIENCE)
    echo(mine, other)
    echo(other, mine)
    return mine, other


def reopened():
    """The server closes first and waits (TIME-WAIT); the client comes again by the same port at once, three times."""
    listener, mine, other = connected()
    for _ in range(3):
        other.close()
        finish(mine)
        mine.close()
        mine, other = again(listener)


def reopened_after_reset():
    """One end resets, then the other does; each time the client comes again by the same port at once."""
    listener, mine, other = connected()
    for turn in range(6):
        ends = (mine, other) if turn % 2 else (other, mine)
        reset(ends[0])
        ends[1].settimeout(PATIENCE)
        try:
            ends[1].recv(100)
        except ConnectionResetError:
            pass
        ends[1].close()
        mine, other = again(listener)


def fast():
    """SYNs with data (RFC 7413), which the server knows by a cookie from the second one on."""
    for namespace in CLIENT, SERVER:
        enter(namespace)
        with open("/proc/sys/net/ipv4/tcp_fastopen", "w") as setting:
            setting.write("3")
    enter(SERVER)
    listener = socket.socket(socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
    listener.bind((ADDRESS, SERVER_PORT))
    listener.listen()
    listener.settimeout(PATIENCE)
    for _ in range(4):
        # Blocking, or else the first one returns before it has a cookie; it gives up after three SYNs more.
        mine = client(None)
        mine.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 3)
        mine.sendto(b"early", socket.MSG_FASTOPEN, (ADDRESS, SERVER_PORT))
        other = listener.accept()[0]
        other.settimeout(PATIENCE)
        if other.recv(100) != b"early":
            raise ConnectionError("other bytes")
        other.close()
        mine.settimeout(PATIENCE)
        finish(mine)
        mine.close()


def urgent():
    listener, mine, other = connected()
    for n in range(5):
        mine.send(b"!", socket.MSG_OOB)
        mine.sendall(b"x" * 3000)
    mine.close()
    other.settimeout(PATIENCE)
    finish(other)


def shut():
    """The receiver's window is shut until it is probed, and then opens wide."""
    listener, mine, other = connected()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    rules(CLIENT, """table inet count { counter shut {}; chain in { type filter hook input priority 0;
        tcp window 0 counter name shut; }; }""")
    mine.setblocking(False)
    sent = 0

    def fill():
        nonlocal sent
        try:
            while True:
                sent += mine.send(b"y" * 1000)
        except BlockingIOError:
            pass

    # The second time is the answer to a probe.
    wait_for(2, fill)
    rules(CLIENT, "delete table inet count")
    for end in mine, other:
        end.settimeout(PATIENCE)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
    while sent:
        sent -= len(other.recv(100_000))
    echo(mine, other)
    mine.close()


def half_closed():
    """The client has closed its half; the server probes the idle connection, is answered, and goes on."""
    listener, mine, other = connected()
    mine.shutdown(socket.SHUT_WR)
    other.settimeout(PATIENCE)
    finish(other)
    rules(CLIENT, """table inet count { counter probes {}; chain in { type filter hook input priority 0;
        tcp flags ack counter name probes; }; }""")
    other.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT:
        other.setsockopt(socket.IPPROTO_TCP, option, 1)
    # The second one comes only if the first was answered.
    wait_for(2)
    rules(CLIENT, "delete table inet count")
    other.sendall(bytes(50_000))
    other.close()
    finish(mine)
    mine.close()


def crossed():
    """Both ends send a SYN before they have that of the other."""
    family = socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET
    mine = client()
    enter(SERVER)
    other = socket.socket(family)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind((ADDRESS, SERVER_PORT))
    rules(SERVER, """table inet lose { counter syns {}; chain in { type filter hook input priority 0;
        tcp flags & (syn | ack) == syn counter name syns drop; }; }""")
    mine.setblocking(False)
    mine.connect_ex((ADDRESS, SERVER_PORT))
    enter(SERVER)
    wait_for(1)
    other.setblocking(False)
    other.connect_ex((mine.getsockname()[0], CLIENT_PORT))
    rules(SERVER, "delete table inet lose")
    for one in mine, other:
        one.setblocking(True)
        one.settimeout(PATIENCE)
    echo(mine, other)
    echo(other, mine)
    mine.close()
    finish(other)


def traced():
    """The server's answers end at the firewall, which says so, although it has followed none of them; later ones do not end there."""
    listener, mine = listen(), client()
    level, hops = (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS) if ":" in ADDRESS else (socket.IPPROTO_IP, socket.IP_TTL)
    listener.setsockopt(level, hops, 1)
    rules(SERVER, """table inet count { counter ended {}; chain in { type filter hook input priority 0;
        icmp type time-exceeded counter name ended; icmpv6 type time-exceeded counter name ended; }; }""")
    mine.setblocking(False)
    mine.connect_ex((ADDRESS, SERVER_PORT))
    enter(SERVER)
    wait_for(1)
    rules(SERVER, "delete table inet count")
    listener.setsockopt(level, hops, 64)
    other = listener.accept()[0]
    other.setsockopt(level, hops, 64)
    mine.settimeout(PATIENCE)
    other.settimeout(PATIENCE)
    echo(mine, other)
    other.close()
    finish(mine)
    mine.close()


CASES = {
    "refused": refused,
    "forgotten": forgotten,
    "restarted": restarted,
    "lost": lost,
    "unanswered": lambda: unanswered("1"),
    "cookies": lambda: unanswered("2"),
    "closed": closed,
    "aborted": aborted,
    "reopened": reopened,
    "reopened_after_reset": reopened_after_reset,
    "fast": fast,
    "urgent": urgent,
    "shut": shut,
    "half_closed": half_closed,
    "crossed": crossed,
    "traced": traced,
}
try:
    CASES[sys.argv[1]]()
    print("done")
except (ConnectionError, TimeoutError) as error:
    print(type(error).__name__)
