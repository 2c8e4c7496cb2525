#!/usr/bin/env python3
"""A driver outside the tree: nftables, set up by a program of your own.

    rampart-bench run demo --dut program:examples/drivers/nftables_driver.py,nftables

The bench starts this program in the firewall's network namespace and asks it line by line, in JSON. Every question has an "id", and
the answer has the same. What fails is answered with "error". docs/guide/your-own-firewall.md has all the messages.
"""

import json
import re
import subprocess
import sys

TABLE = "example_driver"
NUMBERS = {"udp": ("17", "17"), "tcp": ("6", "6"), "icmp": ("1", "58")}


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip()[:300]}")
    return done.stdout


def setting(name, value):
    with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
        file.write(value)


def rule_text(rule, version):
    family, number = ("ip", 0) if version == "v4" else ("ip6", 1)
    words = [f"{family} saddr {rule['source'][version]} {family} daddr {rule['destination'][version]}"]
    if rule["protocol"] != "any":
        words.append(f"meta l4proto {NUMBERS[rule['protocol']][number]}")
    for field, ports in (("sport", rule["source_ports"]), ("dport", rule["destination_ports"])):
        if ports:
            words.append(f"th {field} {ports[0]}-{ports[1]}")
    return " ".join([*words, rule["action"]])


def table_text(policy):
    rules = [rule_text(rule, version) for rule in policy["rules"] for version in ("v4", "v6")]
    lines = [f"table inet {TABLE}", f"delete table inet {TABLE}", f"table inet {TABLE} {{"]
    lines += ["counter default_drop { }", "counter invalid_drop { }"]
    lines += [f"chain forward {{ type filter hook forward priority filter; policy {policy['default']};"]
    if policy["stateful"]:
        lines += ["ct state established,related accept"]
    if policy["strict"]:
        lines += ["ct state invalid counter name invalid_drop drop"]
    lines += rules
    if policy["default"] == "drop":
        lines += ["counter name default_drop drop"]
    return "\n".join([*lines, "}", "}", ""])


def hello(_question):
    version = run("nft", "--version").strip()
    return {
        "protocol": 1,
        "name": "example-driver",
        "version": version,
        "can": ["rules", "stateful", "stateless", "replace", "three-zones", "any-protocol"],
    }


def set_up(_question):
    # Addresses, routes and neighbours are there already.
    setting("ipv4/ip_forward", "1")
    setting("ipv6/conf/all/forwarding", "1")
    return {}


def load(question):
    policy = question["policy"]
    run("nft", "-f", "-", text=table_text(policy))
    if policy["stateful"]:
        # A stateful policy for TCP wants a SYN before anything else.
        setting("netfilter/nf_conntrack_tcp_loose", "0" if policy["strict"] else "1")
    return {}


def counters(_question):
    text = run("nft", "list", "counters", "table", "inet", TABLE)
    drops = {name: int(packets) for name, packets in re.findall(r"counter (\w+) \{\s*packets (\d+)", text)}
    try:
        with open("/proc/sys/net/netfilter/nf_conntrack_count", encoding="ascii") as file:
            return {"drops": drops, "flows": int(file.read())}
    except FileNotFoundError:
        return {"drops": drops}


def reset(_question):
    run("conntrack", "-F")
    return {}


def take_down(_question):
    run("nft", "delete", "table", "inet", TABLE)
    setting("ipv4/ip_forward", "0")
    setting("ipv6/conf/all/forwarding", "0")
    return {}


ANSWERS = {
    "hello": hello,
    "set-up": set_up,
    "load": load,
    "counters": counters,
    "reset": reset,
    "take-down": take_down,
}


def main():
    # The end of the input is the end of the bench: there is nothing left to do.
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = ANSWERS[question["do"]](question)
        except (KeyError, OSError, RuntimeError) as error:
            answer = {"error": str(error)}
        print(json.dumps({"id": question["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
