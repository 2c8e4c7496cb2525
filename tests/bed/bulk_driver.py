#!/usr/bin/env python3
"""A driver outside the tree: a transparent proxy of iperf3 that takes what clients send and throws it away, and that writes the server's report
anew; or, if the file's name says `honest`, one that hands everything on."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading

HONEST = "honest" in os.path.basename(sys.argv[0])
NAME = "honest-relay" if HONEST else "forger"
PORT = 5201
COOKIE_BYTES = 37
# So that no connection is one on which nothing arrived.
HANDED_ON = 1 << 16
PIECE = 1 << 20
SO_ORIGINAL_DST = 80
SINGLE_STATES = 5  # parameters, streams, start, running, results
TABLE = f"""table ip bulk_driver {{
  chain take {{
    type nat hook prerouting priority dstnat
    tcp dport {PORT} redirect to :{PORT}
  }}
}}
"""


def setting(name, value):
    with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
        file.write(value)


def read(stream, count):
    data = b""
    while len(data) < count:
        piece = stream.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def read_text(stream):
    length = read(stream, 4)
    return read(stream, struct.unpack("!I", length)[0])


def write_text(stream, text):
    stream.sendall(struct.pack("!I", len(text)) + text)


def copy(source, to):
    while piece := source.recv(PIECE):
        to.sendall(piece)
    to.shutdown(socket.SHUT_WR)


def swallow(source, to):
    to.sendall(read(source, HANDED_ON))
    into = bytearray(PIECE)
    while source.recv_into(into):
        pass
    to.shutdown(socket.SHUT_WR)


# The bench sees on which cores a thread worked as long as it is there.
FOR_EVER = threading.Event()


def quietly(work, *arguments):
    try:
        work(*arguments)
    except (EOFError, OSError):
        pass


def in_a_thread(work, *arguments):
    def all_of_it():
        quietly(work, *arguments)
        FOR_EVER.wait()

    threading.Thread(target=all_of_it, daemon=True).start()


class Control:
    """The connection of one test over which both ends say what they counted."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.written = {}
        self.known = threading.Event()

    def from_client(self):
        write_text(self.server, read_text(self.client))
        self.server.sendall(read(self.client, 1))
        results = read_text(self.client)
        self.written = {stream["id"]: stream["bytes"] for stream in json.loads(results)["streams"]}
        self.known.set()
        write_text(self.server, results)
        copy(self.client, self.server)

    def from_server(self):
        for _ in range(SINGLE_STATES):
            self.client.sendall(read(self.server, 1))
        results = json.loads(read_text(self.server))
        self.known.wait()
        for stream in results["streams"]:
            stream["bytes"] = self.written[stream["id"]]
        write_text(self.client, json.dumps(results).encode())
        copy(self.server, self.client)


class Proxy:
    def __init__(self):
        self.tests = set()
        self.listener = socket.create_server(("0.0.0.0", PORT))
        in_a_thread(self.serve)

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            in_a_thread(self.relay, client)

    def relay(self, client):
        asked = client.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
        port, address = struct.unpack("!2xH4s8x", asked)
        server = socket.create_connection((socket.inet_ntoa(address), port))
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        cookie = read(client, COOKIE_BYTES)
        first = cookie not in self.tests
        self.tests.add(cookie)
        server.sendall(cookie)
        if HONEST:
            there, back = (copy, client, server), (copy, server, client)
        elif first:
            control = Control(client, server)
            there, back = (control.from_client,), (control.from_server,)
        else:
            there, back = (swallow, client, server), (copy, server, client)
        in_a_thread(*back)
        quietly(*there)


class Driver:
    def hello(self, _question):
        return {"protocol": 1, "name": NAME, "version": "of a test", "can": []}

    def set_up(self, question):
        os.sched_setaffinity(0, question["cores"])
        setting("ipv4/ip_forward", "1")
        setting("ipv6/conf/all/forwarding", "1")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["nft", "-f", "-"], input=TABLE, text=True, check=True)
        self.proxy = Proxy()
        return {}

    def load(self, _question):
        return {}

    def counters(self, _question):
        return {"drops": {}}

    def reset(self, _question):
        return {}

    def take_down(self, _question):
        return {}


def main():
    driver = Driver()
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = getattr(driver, question["do"].replace("-", "_"))(question)
        except (KeyError, OSError, subprocess.SubprocessError) as error:
            answer = {"error": str(error)}
        print(json.dumps({"id": question["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
