"""Three nats-servers, three daemons and clients at all of them, under faults of the daemons.

What was acknowledged has to be held, on every node, once; no limit may be exceeded; each uid has one answer. Needs a
nats-server of 2.14.4 or newer (QUOTAD_NATS_SERVER), and the programs (QUOTAD, QUOTACTL). CLUSTER_ROUNDS: how often each
fault is made (1).
"""

import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

SERVER = os.environ.get("QUOTAD_NATS_SERVER", "nats-server")
QUOTAD = os.environ.get("QUOTAD", "target/debug/quotad")
QUOTACTL = os.environ.get("QUOTACTL", "target/debug/quotactl")
ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "1"))
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


class Load:
    """Clients: each asks any node for one reservation after the other, by the same uid until it is answered."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.answers = {}
        self.granted = 0
        self.unexpected = []
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(client,)) for client in range(6)]
        for thread in self.threads:
            thread.start()

    def run(self, client):
        node = client % 3
        for number in itertools.count():
            namespace = f"ns-{client}-{number}"
            quota = {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "compute"},
                "spec": {"hard": {"requests.cpu": str(HARD)}},
            }
            path = f"/v1/namespaces/{namespace}/quotas/compute"
            requests = [(None, "PUT", path, quota)]
            for uid in (f"u-{client}-{number}-{at}" for at in range(HARD + 3)):
                requests.append((uid, "POST", f"/v1/namespaces/{namespace}/reservations", reservation(uid)))
            for uid, *request in requests:
                while True:
                    if self.is_over.is_set():
                        return
                    answer = ask(self.cluster.api[node], *request)
                    if answer and answer[0] in (200, 201, 403):
                        break
                    if answer and answer[0] != 503:
                        self.unexpected.append((request, answer))
                        return
                    node = (node + 1) % 3
                    time.sleep(0.02)
                if uid:
                    is_granted = answer[0] != 403
                    self.answers[uid] = (namespace, is_granted)
                    self.granted += is_granted

    def wait_for(self, grants):
        enough = self.granted + grants
        until(f"{grants} more grants", lambda: self.granted >= enough or self.unexpected)
        assert not self.unexpected, self.unexpected

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def reservation(uid):
    return {
        "reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid},
        "reserved": {"requests.cpu": "1"},
        "ttl": "10m",
    }


class ThreeNodes(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.cluster = Cluster(Path(self.directory.name))
        self.addCleanup(self.directory.cleanup)
        self.addCleanup(self.cluster.end)

        def initialised():
            answer = ask(self.cluster.api[0], "POST", "/v1/cluster/init")
            return answer and answer[0] == 201

        until("the cluster is initialised", initialised)
        self.cluster.leader()

    def test_nothing_acknowledged_is_lost_and_nothing_exceeded(self):
        load = Load(self.cluster)
        self.addCleanup(load.stop)
        load.wait_for(100)
        faults = [
            self.kill_leader,
            self.stop_leader,
            self.hand_over,
            self.kill_follower,
            self.stop_follower,
            self.end_leader,
        ]
        for fault in faults * ROUNDS:
            began = time.monotonic()
            mend = fault()
            load.wait_for(20)
            print(f"{fault.__name__}: granted again after {time.monotonic() - began:.1f} s", flush=True)
            mend()
            load.wait_for(100)
        load.stop()
        self.assertEqual(load.unexpected, [])
        self.check(load.answers)

    def kill_leader(self):
        return self.killed(self.cluster.leader())

    def kill_follower(self):
        return self.killed((self.cluster.leader() + 1) % 3)

    def killed(self, node):
        self.cluster.nodes[node].kill()
        self.cluster.nodes[node].wait()
        return lambda: self.start(node)

    def stop_leader(self):
        return self.stopped(self.cluster.leader())

    def stop_follower(self):
        return self.stopped((self.cluster.leader() + 1) % 3)

    def stopped(self, node):
        process = self.cluster.nodes[node]
        process.send_signal(signal.SIGSTOP)
        # A leader that goes on has been replaced: it has to follow, in the same process.
        return lambda: process.send_signal(signal.SIGCONT)

    def hand_over(self):
        leader = self.cluster.leader()
        to = (leader + 1) % 3
        answer = ask(self.cluster.api[leader], "POST", "/v1/cluster/transfer", {"to": f"n{to}"})
        self.assertEqual(answer and answer[0], 200, answer)
        return lambda: None

    def end_leader(self):
        node = self.cluster.leader()
        process = self.cluster.nodes[node]
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0)
        return lambda: self.start(node)

    def start(self, node):
        self.cluster.nodes[node] = self.cluster.start_node(node)

    def check(self, answers):
        def replicas():
            found = [self.cluster.status(at) for at in NODES]
            ends = {(status["replica"]["sequence"], status["replica"]["hash"]) for status in found if status}
            return found if all(found) and len(ends) == 1 else None

        end = until("the replicas are the same", replicas)[0]["replica"]["sequence"]
        held = {}
        for uid, (namespace, is_granted) in answers.items():
            held.setdefault(namespace, set())
            if is_granted:
                held[namespace].add(uid)
        for namespace, node in zip(held, itertools.cycle(NODES)):
            listed = ask(self.cluster.api[node], "GET", f"/v1/namespaces/{namespace}/reservations")
            uids = {item["reservedBy"]["uid"] for item in listed[1]["items"]}
            self.assertLessEqual(len(uids), HARD, f"{namespace} holds more than its limit at n{node}")
            lost = held[namespace] - uids
            self.assertFalse(lost, f"acknowledged, and not held at n{node}")
            for uid in uids & answers.keys():
                self.assertTrue(answers[uid][1], f"{uid} was denied, and is held at n{node}")
        # The same request has the same answer, whoever leads.
        for uid in random.sample(sorted(answers), min(60, len(answers))):
            namespace, is_granted = answers[uid]
            node = self.cluster.api[random.choice(NODES)]
            answer = ask(node, "POST", f"/v1/namespaces/{namespace}/reservations", reservation(uid))
            self.assertEqual(answer[0], 200 if is_granted else 403, answer)
        for node in self.cluster.nodes:
            node.terminate()
        for node in self.cluster.nodes:
            self.assertEqual(node.wait(PATIENCE), 0)
        self.assertEqual(len({self.replayed(at, end) for at in NODES}), 1, "the states differ")
        granted = sum(is_granted for _, is_granted in answers.values())
        self.assertGreater(len(answers), granted, "nothing was denied")
        print(f"{granted} grants acknowledged of {len(answers)} answers: all in order", flush=True)

    def replayed(self, node, end):
        """The state that a node's ledger folds to, which is whole."""
        for command in (["verify"], ["replay", "--until", str(end)]):
            command = [QUOTACTL, "ledger", *command, "--data-dir", f"{self.cluster.home}/data-{node}"]
            done = subprocess.run(command, capture_output=True, text=True, env={})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


if __name__ == "__main__":
    unittest.main(verbosity=2)
