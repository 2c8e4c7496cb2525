"""A server that misbehaves on purpose: answers each SYN that reaches `wire` with the frames that the first argument names.
Prints a line when it listens. Ends when its standard input closes."""

import socket
import struct
import sys
import threading

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def total(data):
    if len(data) % 2:
        data += b"\0"
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return ~value & 0xFFFF


class Peer:
    """The other end of one connection, as its SYN showed it."""

    def __init__(self, link, frame):
        self.link = link
        self.macs = frame[6:12] + frame[:6]
        self.client, self.server = frame[26:30], frame[30:34]
        self.ports = frame[36:38] + frame[34:36]
        self.number = struct.unpack("!I", frame[38:42])[0]

    def send(self, flags, sequence, acknowledged, data=b"", source=None):
        """`acknowledged` counts from the client's initial sequence number."""
        source = source or self.server
        tcp = self.ports + struct.pack(
            "!IIBBHHH", sequence & 0xFFFFFFFF, (self.number + acknowledged) & 0xFFFFFFFF, 5 << 4, flags, 65535, 0, 0)
        pseudo = source + self.client + struct.pack("!BBH", 0, 6, len(tcp) + len(data))
        tcp = tcp[:16] + struct.pack("!H", total(pseudo + tcp + data)) + tcp[18:]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp) + len(data), 0, 0x4000, 64, 6, 0) + source + self.client
        ip = ip[:10] + struct.pack("!H", total(ip)) + ip[12:]
        self.link.send(self.macs + b"\x08\x00" + ip + tcp + data)


def answer(peer, how, request):
    """The client's request has `request` bytes; its answer is b"answer"."""
    syn_ack = lambda: peer.send(SYN | ACK, 1000, 1)
    data = lambda offset, part: peer.send(ACK | PSH, 1001 + offset, 1 + request, part)
    if how == "strange resets":
        peer.send(RST | ACK, 0, 7)
        peer.send(RST, 0, 1)
        syn_ack()
        peer.send(RST | ACK, 1002, 1 + request)
        peer.send(RST | ACK, 1000, 1 + request)
        data(0, b"answer")
    elif how == "exact reset":
        syn_ack()
        peer.send(RST | ACK, 1001, 1 + request)
    elif how == "strays":
        peer.send(SYN | ACK, 1000, 1, source=peer.server[:3] + bytes([peer.server[3] + 1]))
        peer.send(SYN | ACK, 1000, 2)
        syn_ack()
        peer.send(ACK, 1001, 1 + request + 1)
        data(0, b"answer")
        data(0, b"answer")
    elif how == "out of order and twice":
        syn_ack()
        syn_ack()
        data(3, b"wer")
        data(0, b"ans")
        data(0, b"ans")
        data(3, b"wer")
    elif how == "too short":
        syn_ack()
        data(0, b"ans")
        peer.send(ACK | FIN, 1004, 1 + request)
    elif how == "too long":
        syn_ack()
        data(0, b"answers")


def main():
    how, request = sys.argv[1], int(sys.argv[2])
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    link.bind(("wire", 0))
    threading.Thread(target=serve, args=(link, how, request), daemon=True).start()
    print("listening", flush=True)
    sys.stdin.read()


def serve(link, how, request):
    while True:
        frame = link.recv(2048)
        if len(frame) >= 54 and frame[12:14] == b"\x08\x00" and frame[23] == 6 and frame[47] == SYN:
            answer(Peer(link, frame), how, request)


main()
