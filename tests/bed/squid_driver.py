#!/usr/bin/env python3
"""A driver outside the tree: Squid as a transparent proxy that keeps answers, or, if the file's name says `honest`, that keeps none."""

import ipaddress
import json
import os
import subprocess
import sys
import tempfile
import time

HONEST = "honest" in os.path.basename(sys.argv[0])
NAME = "honest-squid" if HONEST else "caching-squid"
PORT = 3129
# 30 s is what the bench gives to `set-up`.
PATIENCE = 25
CACHE = "cache deny all" if HONEST else "refresh_pattern . 1440 100% 1440 override-expire override-lastmod"
TABLE = f"""table inet squid_driver {{
  chain intercept {{
    type filter hook prerouting priority mangle
    fib daddr type != local tcp dport 80 tproxy to :{PORT} meta mark set 0x1 accept
  }}
}}
"""


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip()[:300]}")
    return done.stdout


def setting(name, value):
    with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
        file.write(value)


class Driver:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        os.chmod(self.folder.name, 0o755)
        self.squid = None

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def hello(self, _question):
        return {"protocol": 1, "name": NAME, "version": "of a test", "can": []}

    def set_up(self, question):
        setting("ipv4/ip_forward", "1")
        setting("ipv6/conf/all/forwarding", "1")
        run("ip", "link", "set", "lo", "up")
        run("nft", "-f", "-", text=TABLE)
        for family in ("-4", "-6"):
            run("ip", family, "rule", "add", "fwmark", "0x1", "lookup", "100")
            run("ip", family, "route", "add", "local", "default", "dev", "lo", "table", "100")
        hostile = next(port for port in question["ports"] if port["zone"] == "hostile")
        servers = ipaddress.ip_network(hostile["network"]["v4"])
        # Squid keeps an answer only if the server's name has the address that the client asked for.
        hosts = self.write("hosts", "".join(f"{servers[256 + n]} server0{n + 1}\n" for n in range(6)))
        config = self.write(
            "squid.conf",
            f"http_port {PORT} tproxy\nhttp_port 127.0.0.1:3128\nspoof_client_ip deny all\nhttp_access allow all\n{CACHE}\n"
            f"hosts_file {hosts}\ndns_nameservers 127.0.0.1\nvisible_hostname firewall\nshutdown_lifetime 0 seconds\n"
            "access_log none\ncache_store_log none\ncache_log /dev/null\npid_filename none\ncoredump_dir none\npinger_enable off\n",
        )
        cores = ",".join(str(core) for core in question["cores"])
        self.squid = subprocess.Popen(
            ["taskset", "-c", cores, "squid", "-N", "-f", config],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        begun = time.monotonic()
        while f":{PORT:04X} " not in run("cat", "/proc/net/tcp6"):
            if self.squid.poll() is not None or time.monotonic() - begun > PATIENCE:
                raise RuntimeError("squid does not listen")
            time.sleep(0.01)
        return {}

    def load(self, _question):
        return {}

    def counters(self, _question):
        return {"drops": {}}

    def reset(self, _question):
        return {}

    def take_down(self, _question):
        if self.squid:
            self.squid.terminate()
            self.squid.wait()
        return {}


def main():
    driver = Driver()
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = getattr(driver, question["do"].replace("-", "_"))(question)
        except (KeyError, OSError, RuntimeError) as error:
            answer = {"error": str(error)}
        print(json.dumps({"id": question["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
