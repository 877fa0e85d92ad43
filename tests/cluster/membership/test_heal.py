"""A stream that has lost its end, nodes that are lost for good, and two nodes that make the stream anew at the same time."""

import json
import shutil
import unittest
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from nodes import NODES, Case, Small, ask, nats, until

STREAM = "QL_main_0"


class Monitoring(ThreadingHTTPServer):
    """A server's monitoring, with something that happens when it is looked at. Nodes look when they start, and when they make
    a stream: after they have found out that they may, and before they touch it."""

    def __init__(self, of):
        super().__init__(("127.0.0.1", 0), Handler)
        self.of, self.then, self.is_unhealthy = of, None, False
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        then, self.server.then = self.server.then, None
        if then:
            then()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.server.of}{self.path}", timeout=10) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        if self.path == "/varz":
            # As a server answers that was asked once before it had enabled JetStream.
            facts = json.loads(text)
            facts.get("jetstream", {}).pop("config", None)
            text = json.dumps(facts).encode()
        if self.path == "/healthz" and self.server.is_unhealthy:
            status, text = 503, b'{"status": "unavailable", "error": "write error: no space left on device"}'
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class WithoutOwnRoutes(Small):
    has_own_route = False


class TwoServersLost(Case):
    kind = WithoutOwnRoutes

    def meta_leader(self, at):
        # None: the server does not listen yet, or knows no leader.
        answer = ask(self.cluster.monitoring[at], "GET", "/jsz")
        return answer and answer[1].get("meta_cluster", {}).get("leader")

    def test_the_server_that_kept_its_data_is_named_and_without_it_the_stream_is_made_anew(self):
        self.begin()
        self.grant(2)
        until("the replicas are the same", self.cluster.same)
        ledger = ask(self.cluster.api[0], "GET", "/v1/cluster")[1]["ledger"]
        self.cluster.kill_servers()
        for at in (0, 1):
            shutil.rmtree(self.cluster.home / f"nats-{at}")
            self.cluster.servers[at] = self.cluster.start_server(at)
        until("two servers have begun a group", lambda: self.meta_leader(0) in ("s0", "s1"))
        self.cluster.servers[2] = self.cluster.start_server(2)
        command = ("cluster", "heal", "--ledger", ledger)
        said = []

        def is_named():
            said[:] = [self.quotactl(at, *command) for at in NODES]
            self.answer = [each.stderr for each in said]
            return all(each.returncode != 0 and "server s2: " in each.stderr for each in said)

        until("every node names the server", is_named)
        self.assertIn("store_dir aside", said[0].stderr)

        def is_shown():
            self.answer = self.quotactl(1, "cluster", "status").stdout
            return f"Ledger: {ledger}" in self.answer and "Server s2: " in self.answer

        until("the status names the ledger and the server", is_shown)

        def grants_nothing():
            self.answer = self.quotactl(1, "status").stdout
            return "Grants:   no: " in self.answer

        # At the latest after cluster.max_read_age.
        until("the status says that nothing is granted", grants_nothing)
        self.cluster.kill_server(2)
        (self.cluster.home / "nats-2").rename(self.cluster.home / "aside-2")
        self.cluster.servers[2] = self.cluster.start_server(2)
        self.heal([0], command)
        self.cluster.leader()
        self.grant(1)
        until("the replicas are the same", self.cluster.same)
        self.check_held()
        self.assertIn("Grants:   yes", self.quotactl(1, "status").stdout)


class Servers(Case):
    def shown(self, line):
        self.answer = self.quotactl(0, "cluster", "status").stdout
        return line in self.answer

    def count(self, condition):
        return self.cluster.metric(0, "quota_ledger_cluster_servers", f'{{condition="{condition}"}}')

    def test_a_server_that_is_down_or_does_not_work_is_named(self):
        monitoring = Monitoring(self.cluster.monitoring[0])
        self.addCleanup(monitoring.server_close)
        self.addCleanup(monitoring.shutdown)
        self.cluster.looked_at[0] = monitoring.server_port
        self.begin()
        until("all servers are healthy", lambda: self.count("healthy") == 3)
        self.assertFalse(self.shown("Server s"))
        monitoring.is_unhealthy = True
        until("a server is named that does not work", lambda: self.shown("Server s0: it is not healthy"))
        self.assertEqual((self.count("healthy"), self.count("unhealthy")), (2, 1))
        self.assertIn("no space left on device", self.cluster.log(0))
        monitoring.is_unhealthy = False
        self.cluster.kill_server(2)
        until("a server is named that is down", lambda: self.shown("Server s2: it does not answer"))
        self.assertEqual(self.count("unreachable"), 1)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.cluster.admin[0]}/readyz?verbose", timeout=10) as ready:
            self.assertIn("server s2: it does not answer", ready.read().decode())
        self.cluster.servers[2] = self.cluster.start_server(2)
        until("none is named", lambda: not self.shown("Server s"))

    def test_commands_say_what_keeps_them_from_being_carried_out(self):
        self.begin()
        leader = self.cluster.leader()
        dead = (leader + 1) % 3
        self.kill(dead)
        refused = self.quotactl(leader, "cluster", "transfer", f"n{dead}")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"n{dead} cannot take the lead: it does not answer", refused.stderr)
        self.assertNotIn("try again", refused.stderr)
        for at in (0, 1):
            self.cluster.kill_server(at)
        refused = self.quotactl(leader, "cluster", "remove", f"n{dead}")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("the servers of the log", refused.stderr)
        self.assertNotIn("jetstream", refused.stderr.lower())


class Heal(Case):
    def setUp(self):
        super().setUp()
        self.begin()

    def set_back(self, nodes):
        """The servers forget what was acknowledged; these nodes had all of it, and are started again."""
        self.grant(1)
        until("the replicas are the same", self.cluster.same)
        before = max(self.cluster.status(at)["streamSequence"] for at in NODES)
        self.cluster.kill_servers()
        for at in NODES:
            shutil.copytree(self.cluster.home / f"nats-{at}", self.cluster.home / f"kept-{at}")
        self.cluster.servers = [self.cluster.start_server(at) for at in NODES]
        self.cluster.leader()
        self.grant(2)
        # What was set back is nothing that a node would read again when it starts.
        until("positions are written down", lambda: self.positions(before + 30))
        until("the replicas are the same", self.cluster.same)
        ledger = ask(self.cluster.api[0], "GET", "/v1/cluster")[1]["ledger"]
        for at in NODES:
            self.kill(at)
        self.cluster.kill_servers()
        for at in NODES:
            shutil.rmtree(self.cluster.home / f"nats-{at}")
            (self.cluster.home / f"kept-{at}").rename(self.cluster.home / f"nats-{at}")
        self.cluster.servers = [self.cluster.start_server(at) for at in NODES]
        for at in nodes:
            self.cluster.nodes[at] = self.cluster.start_node(at)

        def is_short():
            found = [self.cluster.status(at) for at in nodes]
            return all(status and "lacks the end" in status.get("problem", "") for status in found)

        until("the nodes see that the stream has lost its end", is_short)
        return ledger

    def info(self):
        return nats(self.cluster.clients[0], f"$JS.API.STREAM.INFO.{STREAM}")

    def test_a_stream_that_another_node_claims_is_left_alone(self):
        monitoring = Monitoring(self.cluster.monitoring[0])
        self.addCleanup(monitoring.server_close)
        self.addCleanup(monitoring.shutdown)
        self.cluster.looked_at[0] = monitoring.server_port
        ledger = self.set_back(NODES)
        before = self.info()

        def claim():
            stored = nats(self.cluster.clients[1], "ql.main.0.log", b"quota-ledger makes this stream anew: n9 (test)")
            self.assertEqual(stored["seq"], before["state"]["last_seq"] + 1, stored)

        command = ("cluster", "heal", "--ledger", ledger)
        # Another one is faster by a moment: before this node looks at the stream, or after.
        monitoring.then = claim
        claimed = r"n9 \(test\) is recreating the stream"
        for why in ("the stream has changed meanwhile|" + claimed, claimed):
            refused = self.quotactl(0, *command)
            self.assertNotEqual(refused.returncode, 0)
            self.assertRegex(refused.stderr, why)
            now = self.info()
            self.assertEqual(now["created"], before["created"], why)
            self.assertEqual(now["state"]["last_seq"], before["state"]["last_seq"] + 1, why)
        # That one has removed the stream, made it, and is gone.
        config = json.dumps(before["config"]).encode()
        nats(self.cluster.clients[0], f"$JS.API.STREAM.DELETE.{STREAM}")

        def is_made():
            nats(self.cluster.clients[0], f"$JS.API.STREAM.CREATE.{STREAM}", config)
            return self.info().get("state", {}).get("last_seq") == 0

        until("the stream is made", is_made)
        tried = self.quotactl(0, *command)
        self.assertNotIn("lacks nothing", tried.stderr)
        self.assertNotIn("does not read that one", tried.stderr)
        if tried.returncode != 0:
            self.heal([0], command)
        self.cluster.leader()
        self.grant(1)
        until("the replicas are the same", self.cluster.same)
        self.check_held()

    def test_a_stream_that_lost_its_end_is_made_anew_without_a_node_that_is_lost(self):
        ledger = self.set_back([0, 1])
        for lost, why in (([], "n2 does not answer"), (["n1", "n2"], "n1 was named as lost, and answers")):
            named = [word for node in lost for word in ("--lost", node)]
            refused = self.quotactl(0, "cluster", "heal", "--ledger", ledger, *named)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(why, refused.stderr)
        command = ("cluster", "heal", "--ledger", ledger, "--lost", "n2")
        self.heal([0], command)
        self.cluster.leader()
        self.grant(1, [0, 1])
        # It was not lost after all, and had nothing that the others had not.
        self.cluster.nodes[2] = self.cluster.start_node(2)
        until("the replicas are the same", self.cluster.same)
        self.check_held()

    def test_of_nodes_that_heal_at_the_same_time_one_does(self):
        ledger = self.set_back(NODES)
        with ThreadPoolExecutor(len(NODES)) as pool:
            command = ("cluster", "heal", "--ledger", ledger)
            said = list(pool.map(lambda at: self.quotactl(at, *command), NODES))
        healed = [each for each in said if each.returncode == 0]
        self.assertLessEqual(len(healed), 1, said)
        if not healed:
            # Servers did not answer in time: whoever has claimed the stream goes on.
            self.heal(NODES, command)
        self.cluster.leader()
        self.grant(1)
        until("the replicas are the same", self.cluster.same)
        self.check_held()


if __name__ == "__main__":
    unittest.main(verbosity=2)
