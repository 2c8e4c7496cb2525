"""Sends frames into one of two interfaces and says what came out of both, for against_nftables.

Reads lines of interface to send by, interface to listen at, frame in hex; answers with a line of words: `far:HEX` for what came out at the
other interface, `near:HEX` for what came back. A frame of our own follows each one, which the firewall lets through, so nobody has to
wait for what does not come.
"""
import select
import socket
import sys

ETH_P_ALL = 3
PACKET_OUTGOING = 4
SENTINEL_PORT = 9
# Of the link, which each side says when it likes: ARP, neighbours, listeners.
ARP = b"\x08\x06"
LINK = {130, 131, 132, 133, 134, 135, 136, 143}


def checksum(header):
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, len(header), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def sentinel(sender, frame, number):
    """From the host of an interface to the other, with a number that tells it from all others."""
    hosts = [bytes([198, 18, side, 2]) for side in ((1, 2) if sender == "far0" else (2, 1))]
    udp = SENTINEL_PORT.to_bytes(2, "big") * 2 + (12).to_bytes(2, "big") + b"\0\0" + number.to_bytes(4, "big")
    header = b"\x45\0" + (32).to_bytes(2, "big") + b"\0\0\0\0\x40\x11\0\0" + hosts[0] + hosts[1]
    side = 1 if sender == "far0" else 2
    link = bytes([2, 0, 0, 0, side, 1, 2, 0, 0, 0, side, 2, 8, 0])
    return link + header[:10] + checksum(header) + header[12:] + udp


def sockets():
    found = {}
    for name in sys.argv[1:]:
        found[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        found[name].bind((name, ETH_P_ALL))
        found[name].settimeout(10)
    return found


def is_of_link(frame):
    if frame[12:14] == ARP:
        return True
    if frame[12:14] != b"\x86\xdd" or len(frame) < 55:
        return False
    at = 62 if frame[20] == 0 else 54
    return (frame[20] == 58 or frame[20] == 0) and len(frame) > at and frame[at] in LINK


def received(end):
    frame, sender = end.recvfrom(65536)
    return None if sender[2] == PACKET_OUTGOING or is_of_link(frame) else frame


def arrivals(far, near, last):
    """What comes before the sentinel."""
    words = []
    while True:
        frame = received(far)
        if frame and frame[23:24] == b"\x11" and frame[36:38] == last[36:38] and frame[42:46] == last[42:46]:
            break
        if frame:
            words.append("far:" + frame.hex())
    while select.select([near], [], [], 0)[0]:
        frame = received(near)
        if frame and frame[23:24] + frame[36:38] != b"\x11" + last[36:38]:
            words.append("near:" + frame.hex())
    return words


def main():
    ends = sockets()
    for number, line in enumerate(sys.stdin):
        sender, listener, frame = line.split()
        frame = bytes.fromhex(frame)
        last = sentinel(sender, frame, number)
        ends[sender].send(frame)
        ends[sender].send(last)
        print(" ".join(arrivals(ends[listener], ends[sender], last)), flush=True)


main()
