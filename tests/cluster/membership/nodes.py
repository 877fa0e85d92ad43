"""What starts three nats-servers and three daemons, for tests of how they come and go.

Nodes that end with code 1 are started again, as a supervisor would. Needs a nats-server of 2.14.4 or newer
(QUOTAD_NATS_SERVER), and the programs (QUOTAD, QUOTACTL).
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "support"))
from loopback import PATIENCE, free_ports, until

SERVER = os.environ["QUOTAD_NATS_SERVER"]
QUOTAD = os.environ.get("QUOTAD", "target/debug/quotad")
QUOTACTL = os.environ.get("QUOTACTL", "target/debug/quotactl")
NODES = range(3)
HARD = 10
# The lines of each log that are printed after a failure.
REPORTED_LINES = 40


def ask(port, method, path, body=None, timeout=15):
    """Status and JSON of an answer; None: there was none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    except (OSError, http.client.HTTPException, json.JSONDecodeError):
        return None
    finally:
        connection.close()


def nats(port, subject, payload=b""):
    """Asks a server by a request, and gives its answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        lines = connection.makefile("rb")
        lines.readline()
        head = f'CONNECT {{"verbose":false}}\r\nSUB _INBOX.a 1\r\nPUB {subject} _INBOX.a {len(payload)}\r\n'
        connection.sendall(head.encode() + payload + b"\r\n")
        for line in lines:
            if line.startswith(b"MSG "):
                return json.loads(lines.read(int(line.split()[-1])))
            if line.startswith(b"PING"):
                connection.sendall(b"PONG\r\n")
            assert not line.startswith(b"-ERR"), line
    raise AssertionError(f"no answer on {subject}")


class Cluster:
    # Further keys of `cluster.*`.
    settings = ""
    # Whether each server's routes contain its own one.
    has_own_route = True

    def __init__(self, home):
        self.home = home
        ports = free_ports(18)
        self.clients, self.routes, self.monitoring, self.api, self.admin, self.peers = (
            ports[at : at + 3] for at in range(0, 18, 3)
        )
        (home / "token").write_text("0123456789abcdef" * 4)
        # Where nodes look at the servers.
        self.looked_at = list(self.monitoring)
        self.servers, self.nodes = [], [None] * 3
        self.start_servers()

    def start_servers(self):
        self.servers = [self.start_server(at) for at in NODES]

    def kill_server(self, at):
        self.servers[at].kill()
        self.servers[at].wait()

    def kill_servers(self):
        for at in NODES:
            self.kill_server(at)

    def start_nodes(self):
        self.nodes = [self.start_node(at) for at in NODES]

    def start_server(self, at):
        ports = [self.routes[to] for to in NODES if to != at or self.has_own_route]
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports)
        file = self.home / f"nats-{at}.conf"
        file.write_text(
            f"server_name: s{at}\nlisten: 127.0.0.1:{self.clients[at]}\nhttp: 127.0.0.1:{self.monitoring[at]}\n"
            f"max_payload: 8MB\njetstream {{ store_dir: \"{self.home}/nats-{at}\", sync_interval: always }}\n"
            f"cluster {{ name: quota, listen: 127.0.0.1:{self.routes[at]}, routes: [{routes}] }}\n"
        )
        with open(self.home / f"nats-{at}.log", "ab") as log:
            return subprocess.Popen([SERVER, "-c", file], stdout=log, stderr=log)

    def start_node(self, at, alone=False):
        servers = ",".join(f"nats://127.0.0.1:{port}" for port in self.clients)
        monitoring = [f"http://127.0.0.1:{port}" for port in self.looked_at]
        peers = ", ".join(f'n{peer} = "http://127.0.0.1:{self.peers[peer]}"' for peer in NODES)
        file = self.home / f"quotad-{at}.toml"
        text = (
            f'listen = "127.0.0.1:{self.api[at]}"\ndata_dir = "{self.home}/data-{at}"\n'
            f'[admin]\nlisten = "127.0.0.1:{self.admin[at]}"\n[shutdown]\ndrain = "0s"\n'
        )
        if not alone:
            text += (
                f'[cluster]\nservers = "{servers}"\nmonitoring = {json.dumps(monitoring)}\nnode = "n{at}"\n'
                f'peers = {{ {peers} }}\nlisten = "127.0.0.1:{self.peers[at]}"\ntoken_file = "{self.home}/token"\n'
                f"{self.settings}"
            )
        file.write_text(text)
        with open(self.home / f"quotad-{at}.log", "ab") as log:
            return subprocess.Popen([QUOTAD, "--config", file], stdout=log, stderr=log, env={})

    def status(self, at):
        """How a node says that it stands itself."""
        answer = ask(self.api[at], "GET", "/v1/cluster", timeout=5)
        nodes = answer[1].get("nodes", []) if answer and answer[0] == 200 else []
        return next((node for node in nodes if node["name"] == f"n{at}"), None)

    def leader(self):
        def found():
            for at in NODES:
                status = self.status(at)
                if status and status["role"] == "leader":
                    return (at,)
            return None

        return until("a leader", found)[0]

    def end(self):
        for process in filter(None, self.nodes + self.servers):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def reservation(uid):
    return {
        "reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid},
        "reserved": {"requests.cpu": "1"},
        "ttl": "10m",
    }


class Small(Cluster):
    """A cluster whose stream is purged soon, and whose digests are compared often."""

    settings = 'digest_interval = "1s"\nstream_bytes = "16KiB"\n'

    def restart_ended(self):
        for at in NODES:
            code = self.nodes[at].poll() if self.nodes[at] else None
            if code == 1:
                self.nodes[at] = self.start_node(at)
            elif code is not None and code >= 0:
                raise AssertionError(f"n{at} ended with code {code}")

    def metric(self, at, name, labels=""):
        url = f"http://127.0.0.1:{self.admin[at]}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{name}{re.escape(labels)} (\S+)$", text, re.MULTILINE)
        return float(found.group(1)) if found else 0

    def same(self, nodes=NODES):
        """The last entry of the nodes' replicas, if they are the same and each node can do its part."""
        self.restart_ended()
        found = [self.status(at) for at in nodes]
        if not all(found) or any("problem" in status or "replica" not in status for status in found):
            return None
        ends = {(status["replica"]["sequence"], status["replica"]["hash"]) for status in found}
        return found[0]["replica"]["sequence"] if len(ends) == 1 else None

    def log(self, at):
        return (self.home / f"quotad-{at}.log").read_text()


class Case(unittest.TestCase):
    """Servers, and nodes that are not started yet."""

    kind = Small

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.cluster = self.kind(Path(self.directory.name))
        self.addCleanup(self.directory.cleanup)
        self.addCleanup(self.cluster.end)
        self.addCleanup(self.report)
        self.namespaces = 0
        self.held = {}
        self.answer = None

    def report(self):
        """Prints what explains a failure: the last answer, the nodes' status, and the ends of the logs."""
        if self._outcome.success:
            return
        print(f"\nThe last answer: {self.answer}", file=sys.stderr)
        for at, node in enumerate(self.cluster.nodes):
            ended = node.poll() if node else "not started"
            print(f"n{at}: {self.cluster.status(at)}; ended: {ended}", file=sys.stderr)
        for log in sorted(self.cluster.home.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-REPORTED_LINES:]
            print(f"== {log.name}", *lines, sep="\n", file=sys.stderr)

    def begin(self):
        self.cluster.start_nodes()

        def initialised():
            answer = ask(self.cluster.api[0], "POST", "/v1/cluster/init")
            return answer and answer[0] == 201

        until("the cluster is initialised", initialised)
        self.cluster.leader()

    def grant(self, namespaces, nodes=NODES):
        """Fills namespaces to their limits, by any node."""
        for _ in range(namespaces):
            namespace = f"ns-{self.namespaces}"
            self.namespaces += 1
            self.held[namespace] = HARD
            spec = {"hard": {"requests.cpu": str(HARD)}}
            quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute"}, "spec": spec}
            requests = [("PUT", f"/v1/namespaces/{namespace}/quotas/compute", quota)]
            path = f"/v1/namespaces/{namespace}/reservations"
            requests += [("POST", path, reservation(f"{namespace}-{at}")) for at in range(HARD)]
            for at, request in enumerate(requests):
                api = self.cluster.api[nodes[at % len(nodes)]]

                def granted():
                    # A node that has to join again has ended.
                    self.cluster.restart_ended()
                    self.answer = ask(api, *request)
                    return self.answer and self.answer[0] in (200, 201)

                until(f"{request[:2]} is granted", granted)

    def check_held(self, nodes=NODES):
        for namespace, count in self.held.items():
            for at in nodes:
                path = f"/v1/namespaces/{namespace}/reservations"
                items = ask(self.cluster.api[at], "GET", path)[1]["items"]
                self.assertEqual(len(items), count, f"{namespace} at n{at}")

    def quotactl(self, at, *command):
        server = f"http://127.0.0.1:{self.cluster.api[at]}"
        return subprocess.run([QUOTACTL, "--server", server, *command], capture_output=True, text=True, env={})

    def heal(self, nodes, command):
        """Tries again until one of the nodes has made the stream anew."""
        said = []

        def is_healed():
            tried = [self.quotactl(at, *command) for at in nodes]
            said[:] = [each.stderr for each in tried]
            return any(each.returncode == 0 for each in tried)

        try:
            until("the stream is made anew", is_healed)
        except AssertionError as error:
            raise AssertionError(said) from error

    def kill(self, at):
        self.cluster.nodes[at].kill()
        self.cluster.nodes[at].wait()

    def stop(self, nodes):
        for at in nodes:
            self.cluster.nodes[at].send_signal(signal.SIGTERM)
        for at in nodes:
            self.assertEqual(self.cluster.nodes[at].wait(PATIENCE), 0, f"n{at}")
            self.cluster.nodes[at] = None

    def positions(self, least):
        found = [self.cluster.status(at) for at in NODES]
        return all(status and status["durableStreamSequence"] >= least for status in found)
