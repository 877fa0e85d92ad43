"""Nodes that compare their states, are lost, join again and are removed; a stream that is purged, and one that is lost.

Three nats-servers and three daemons; nodes that end with code 1 are started again, as a supervisor would. Needs a nats-server
of 2.14.4 or newer (QUOTAD_NATS_SERVER), and the programs (QUOTAD, QUOTACTL).
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

SERVER = os.environ.get("QUOTAD_NATS_SERVER", "nats-server")
QUOTAD = os.environ.get("QUOTAD", "target/debug/quotad")
QUOTACTL = os.environ.get("QUOTACTL", "target/debug/quotactl")
NODES = range(3)
HARD = 10
PATIENCE = 60


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"never happened: {what}")


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


class Cluster:
    # Further keys of `cluster.*`.
    settings = ""

    def __init__(self, home):
        self.home = home
        ports = free_ports(18)
        self.clients, self.routes, self.monitoring, self.api, self.admin, self.peers = (
            ports[at : at + 3] for at in range(0, 18, 3)
        )
        (home / "token").write_text("0123456789abcdef" * 4)
        self.servers = [self.start_server(at) for at in NODES]
        self.nodes = [self.start_node(at) for at in NODES]

    def start_server(self, at):
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in self.routes)
        file = self.home / f"nats-{at}.conf"
        file.write_text(
            f"server_name: s{at}\nlisten: 127.0.0.1:{self.clients[at]}\nhttp: 127.0.0.1:{self.monitoring[at]}\n"
            f"max_payload: 8MB\njetstream {{ store_dir: \"{self.home}/nats-{at}\", sync_interval: always }}\n"
            f"cluster {{ name: quota, listen: 127.0.0.1:{self.routes[at]}, routes: [{routes}] }}\n"
        )
        with open(self.home / f"nats-{at}.log", "ab") as log:
            return subprocess.Popen([SERVER, "-c", file], stdout=log, stderr=log)

    def start_node(self, at):
        servers = ",".join(f"nats://127.0.0.1:{port}" for port in self.clients)
        monitoring = [f"http://127.0.0.1:{port}" for port in self.monitoring]
        peers = ", ".join(f'n{peer} = "http://127.0.0.1:{self.peers[peer]}"' for peer in NODES)
        file = self.home / f"quotad-{at}.toml"
        file.write_text(
            f'listen = "127.0.0.1:{self.api[at]}"\ndata_dir = "{self.home}/data-{at}"\n'
            f'[admin]\nlisten = "127.0.0.1:{self.admin[at]}"\n[shutdown]\ndrain = "0s"\n'
            f'[cluster]\nservers = "{servers}"\nmonitoring = {json.dumps(monitoring)}\nnode = "n{at}"\n'
            f'peers = {{ {peers} }}\nlisten = "127.0.0.1:{self.peers[at]}"\ntoken_file = "{self.home}/token"\n'
            f"{self.settings}"
        )
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
        for process in self.nodes + self.servers:
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
            if self.nodes[at].poll() == 1:
                self.nodes[at] = self.start_node(at)

    def metric(self, at, name, labels=""):
        url = f"http://127.0.0.1:{self.admin[at]}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{name}{re.escape(labels)} (\S+)$", text, re.MULTILINE)
        return float(found.group(1)) if found else 0

    def same(self):
        """The last entry of all replicas, if they are the same and each node can do its part."""
        self.restart_ended()
        found = [self.status(at) for at in NODES]
        if not all(found) or any("problem" in status or "replica" not in status for status in found):
            return None
        ends = {(status["replica"]["sequence"], status["replica"]["hash"]) for status in found}
        return found[0]["replica"]["sequence"] if len(ends) == 1 else None

    def log(self, at):
        return (self.home / f"quotad-{at}.log").read_text()


class Membership(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.cluster = Small(Path(self.directory.name))
        self.addCleanup(self.directory.cleanup)
        self.addCleanup(self.cluster.end)
        self.namespaces = 0
        self.held = {}

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
                    answer = ask(api, *request)
                    return answer and answer[0] in (200, 201)

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

    def kill(self, at):
        self.cluster.nodes[at].kill()
        self.cluster.nodes[at].wait()

    def test_states_are_compared_while_nodes_run(self):
        name = "quota_ledger_cluster_digest_comparisons_total"

        def compared():
            self.grant(1)
            same = [self.cluster.metric(at, name, '{outcome="same"}') for at in NODES]
            return all(count > 0 for count in same)

        until("each node has compared its state with others", compared)
        for at in NODES:
            for outcome in ("other_differs", "own_differs"):
                self.assertEqual(self.cluster.metric(at, name, f'{{outcome="{outcome}"}}'), 0)

    def test_a_lost_node_joins_from_another(self):
        self.grant(3)
        until("positions are written down", lambda: self.positions(1))
        lost = (self.cluster.leader() + 1) % 3
        self.kill(lost)
        shutil.rmtree(self.cluster.home / f"data-{lost}")
        self.grant(1, [at for at in NODES if at != lost])
        self.cluster.nodes[lost] = self.cluster.start_node(lost)
        until("the replicas are the same", self.cluster.same)
        self.assertIn("joined: the ledger was taken from another node", self.cluster.log(lost))
        self.check_held()

    def positions(self, least):
        found = [self.cluster.status(at) for at in NODES]
        return all(status and status["durableStreamSequence"] >= least for status in found)

    def first(self):
        return self.cluster.metric(self.cluster.leader(), "quota_ledger_cluster_stream_first_sequence")

    def test_the_stream_is_purged_of_what_all_registered_nodes_have(self):
        self.grant(6)
        until("the stream is purged", lambda: self.first() > 1)
        away = (self.cluster.leader() + 1) % 3
        refused = self.quotactl((away + 1) % 3, "cluster", "remove", f"n{away}")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("stop it before", refused.stderr)
        self.kill(away)
        needs = json.loads((self.cluster.home / f"data-{away}/replica.json").read_text())["stream"]
        others = [at for at in NODES if at != away]
        self.grant(6, others)
        # The leader may have heard the position that was written down before.
        until("the stream is purged up to what is needed", lambda: needs - 60 <= self.first() <= needs)
        self.grant(6, others)
        self.assertLessEqual(self.first(), needs)
        removed = self.quotactl(others[0], "cluster", "remove", f"n{away}")
        self.assertEqual(removed.returncode, 0, removed.stderr)
        until("the stream is purged beyond", lambda: self.first() > needs + 1)
        # It lacks what was purged.
        self.cluster.nodes[away] = self.cluster.start_node(away)
        until("the replicas are the same", self.cluster.same)
        self.assertIn("joined: the ledger was taken from another node", self.cluster.log(away))
        self.check_held()

    def test_a_lost_stream_is_made_anew_and_a_node_moves_out(self):
        self.grant(3)
        until("positions are written down", lambda: self.positions(1))
        # One node lacks the last entries.
        self.kill(2)
        self.grant(1, [0, 1])
        ledger = ask(self.cluster.api[0], "GET", "/v1/cluster")[1]["ledger"]
        for process in self.cluster.nodes[:2] + self.cluster.servers:
            process.kill()
            process.wait()
        for at in NODES:
            shutil.rmtree(self.cluster.home / f"nats-{at}")
        self.cluster.servers = [self.cluster.start_server(at) for at in NODES]
        self.cluster.nodes = [self.cluster.start_node(at) for at in NODES]

        def is_gone():
            found = [self.cluster.status(at) for at in NODES]
            return all(status and "is gone" in status.get("problem", "") for status in found)

        until("the nodes see that the stream is gone", is_gone)
        for at, confirmed, why in ((0, "0" * 32, "confirm"), (2, ledger, "heal there")):
            refused = self.quotactl(at, "cluster", "heal", "--ledger", confirmed)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(why, refused.stderr)

        # Which of the two has applied the last entry was up to when they were killed.
        most = max((0, 1), key=lambda at: self.cluster.status(at)["replica"]["sequence"])

        def healed():
            return self.quotactl(most, "cluster", "heal", "--ledger", ledger).returncode == 0

        until("the stream is made anew", healed)
        self.grant(1, [0, 1])
        until("the replicas are the same", self.cluster.same)
        self.check_held()
        again = self.quotactl(most, "cluster", "heal", "--ledger", ledger)
        self.assertIn("lacks nothing", again.stderr)
        for process in self.cluster.nodes:
            process.send_signal(signal.SIGTERM)
        for process in self.cluster.nodes:
            self.assertEqual(process.wait(PATIENCE), 0)
        self.alone()

    def alone(self):
        """The data directory of a node is that of a single one."""
        file = self.cluster.home / "quotad-0.toml"
        file.write_text(re.sub(r"\[cluster\].*", "", file.read_text(), flags=re.DOTALL))
        with open(self.cluster.home / "quotad-0.log", "ab") as log:
            self.cluster.nodes[0] = subprocess.Popen([QUOTAD, "--config", file], stdout=log, stderr=log, env={})
        until("it serves alone", lambda: ask(self.cluster.api[0], "GET", "/v1/usage"))
        self.check_held([0])
        self.grant(1, [0])
        self.check_held([0])

    def test_long_events_end_no_leader(self):
        # Together they take more than one message of the log holds.
        domain = ".".join(letter * 60 for letter in "def")
        limits = {f"{domain}.com/{'x' * 50}{at}": "1" for at in range(2000)}
        events = []
        for at in range(9):
            container = {"name": "c", "resources": {"requests": limits, "limits": limits}}
            metadata = {"name": f"p{at}", "namespace": "long", "uid": f"long-{at}", "resourceVersion": str(at + 1)}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
            events.append(json.dumps({"type": "ADDED", "object": pod}))
        connection = urllib.request.Request(
            f"http://127.0.0.1:{self.cluster.api[self.cluster.leader()]}/v1/events",
            "\n".join(events).encode(),
            {"content-type": "application/x-ndjson"},
        )
        with urllib.request.urlopen(connection, timeout=60) as answer:
            told = json.loads(answer.read())
        self.assertEqual((told["accepted"], told["rejected"]), (9, []), told)
        self.grant(1)
        until("the replicas are the same", self.cluster.same)
        self.assertEqual([node.poll() for node in self.cluster.nodes], [None] * 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
