"""Sends frames into one of two interfaces and says which of them came out of the other, for against_nftables.rs.

Reads lines of interface to send by, interface to listen at, frame in hex; answers `1` or `0`. A frame of our own follows each
one, which the firewall lets through, so nobody has to wait for what does not come.
"""
import socket
import sys

ETH_P_IP = 0x0800
PACKET_OUTGOING = 4
SENTINEL_PORT = 9


def checksum(header):
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, len(header), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def sentinel(frame, number):
    """Between the same hosts as a frame, with a number that tells it from all others."""
    udp = SENTINEL_PORT.to_bytes(2, "big") * 2 + (12).to_bytes(2, "big") + b"\0\0" + number.to_bytes(4, "big")
    header = b"\x45\0" + (32).to_bytes(2, "big") + b"\0\0\0\0\x40\x11\0\0" + frame[26:34]
    return frame[:14] + header[:10] + checksum(header) + header[12:] + udp


def sockets():
    found = {}
    for name in sys.argv[1:]:
        found[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        found[name].bind((name, ETH_P_IP))
        found[name].settimeout(10)
    return found


def arrivals(listener, last):
    """Frames that come before the sentinel."""
    count = 0
    while True:
        frame, sender = listener.recvfrom(65536)
        if sender[2] == PACKET_OUTGOING:
            continue
        if frame[23] == 17 and frame[36:38] == last[36:38] and frame[42:46] == last[42:46]:
            return count
        # Sentinels of the other direction are none of what was asked for, and neither are answers to what was refused.
        if frame[26:34] == last[26:34]:
            count += 1


def main():
    ends = sockets()
    for number, line in enumerate(sys.stdin):
        sender, listener, frame = line.split()
        frame = bytes.fromhex(frame)
        last = sentinel(frame, number)
        ends[sender].send(frame)
        ends[sender].send(last)
        print(arrivals(ends[listener], last), flush=True)


main()
