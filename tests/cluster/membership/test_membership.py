"""Nodes that compare their states, are lost, join again and are removed; a stream that is purged, and one that is lost."""

import json
import shutil
import unittest
import urllib.request

from nodes import HARD, NODES, Case, ask, until


class Membership(Case):
    def setUp(self):
        super().setUp()
        self.begin()

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
        until("both others have the last entry", lambda: self.cluster.same([0, 1]))
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

        def healed():
            return self.quotactl(0, "cluster", "heal", "--ledger", ledger).returncode == 0

        until("the stream is made anew", healed)
        self.grant(1, [0, 1])
        until("the replicas are the same", self.cluster.same)
        self.check_held()
        again = self.quotactl(0, "cluster", "heal", "--ledger", ledger)
        self.assertIn("lacks nothing", again.stderr)
        self.stop(NODES)
        self.alone()

    def alone(self):
        """The data directory of a node is that of a single one."""
        self.cluster.nodes[0] = self.cluster.start_node(0, alone=True)
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
            reply = json.loads(answer.read())
        self.assertEqual((reply["accepted"], reply["rejected"]), (9, []), reply)
        self.grant(1)
        until("the replicas are the same", self.cluster.same)
        self.assertEqual([node.poll() for node in self.cluster.nodes], [None] * 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
