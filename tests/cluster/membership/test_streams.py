"""An existing ledger moves into a stream and out again."""

import subprocess
import unittest

from nodes import NODES, PATIENCE, QUOTACTL, Case, ask, until


class MovesIn(Case):
    def test_an_existing_ledger_moves_in_and_out_again(self):
        cluster = self.cluster
        cluster.nodes[0] = cluster.start_node(0, alone=True)
        until("it serves alone", lambda: ask(cluster.api[0], "GET", "/v1/usage"))
        self.grant(3, [0])
        ended = ask(cluster.api[0], "DELETE", "/v1/namespaces/ns-1/reservations/ns-1-3")
        self.assertEqual(ended[0], 204, ended)
        self.held["ns-1"] -= 1
        before, entries = self.numbers(0), self.entries(0)
        self.stop([0])

        cluster.start_nodes()
        until("the cluster is initialised", lambda: self.quotactl(0, "cluster", "init").returncode == 0)
        until("the replicas are the same", cluster.same)
        for at in NODES:
            self.assertEqual(self.numbers(at), before, f"n{at}")
            self.assertEqual(self.entries(at)[: len(entries)], entries, f"n{at}")
            self.assertNotEqual(self.quotactl(at, "cluster", "init").returncode, 0, f"n{at}")
        self.grant(1)
        until("the replicas are the same", cluster.same)
        inside = self.numbers(0)
        self.check_held()
        self.stop(NODES)
        for at in NODES:
            self.verify(at)

        cluster.nodes[0] = cluster.start_node(0, alone=True)
        until("it serves alone", lambda: ask(cluster.api[0], "GET", "/v1/usage"))
        self.assertEqual(self.numbers(0), inside)
        self.grant(1, [0])
        self.check_held([0])
        self.stop([0])
        self.verify(0)

        # What it has decided alone is not in the stream.
        cluster.nodes[1], cluster.nodes[2] = cluster.start_node(1), cluster.start_node(2)
        cluster.leader()
        self.grant(1, [1, 2])
        cluster.nodes[0] = cluster.start_node(0)
        self.assertEqual(cluster.nodes[0].wait(PATIENCE), 4, cluster.log(0))

    def numbers(self, at):
        """What each quota counts, and what is reserved."""
        api = self.cluster.api[at]
        found = [ask(api, "GET", "/v1/quotas")[1]["items"]]
        for namespace in self.held:
            found.append(ask(api, "GET", f"/v1/namespaces/{namespace}/reservations")[1]["items"])
        return found

    def entries(self, at):
        return ask(self.cluster.api[at], "GET", "/v1/entries?from=1")[1]["items"]

    def verify(self, at):
        command = [QUOTACTL, "ledger", "verify", "--data-dir", self.cluster.home / f"data-{at}"]
        verified = subprocess.run(command, capture_output=True, text=True, env={})
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
