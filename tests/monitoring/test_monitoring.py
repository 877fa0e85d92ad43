"""What deploy/monitoring holds, against the real programs: promtool, Prometheus, quotad, quota-bridge, nats-server."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
from loopback import free_ports, until

MONITORING = ROOT / "deploy" / "monitoring"
PROGRAMS = pathlib.Path(os.environ["PROGRAMS"])
# A newer one than Debian's, for a replicated log: tests/run installs it.
NATS_SERVER = os.environ.get("QUOTAD_NATS_SERVER", str(ROOT / "target/servers/bin/nats-server"))
# Without keys of the programs, such as those that tests/run exports for other tests.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("QUOTA")}


def fetch(url, data=None, headers=None, method=None):
    request = urllib.request.Request(url, data=data, headers=headers or {}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers, answer.read()


def reachable(url):
    try:
        fetch(url)
        return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


class Rules(unittest.TestCase):
    def names(self):
        return re.findall(r"^      - alert: (\w+)$", (MONITORING / "alerts.yaml").read_text(), re.M)

    def promtool(self, *arguments):
        ran = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_rules_are_rules(self):
        self.promtool("check", "rules", MONITORING / "alerts.yaml")

    def test_each_fires_where_it_should(self):
        self.promtool("test", "rules", ROOT / "tests/monitoring/alerts_test.yaml")

    def test_each_is_tested_and_has_its_page(self):
        names = self.names()
        self.assertGreater(len(names), 20)
        tested = (ROOT / "tests/monitoring/alerts_test.yaml").read_text()
        page = (ROOT / "docs/alerts.md").read_text()
        links = re.findall(r"^          runbook_url: https://quota-ledger.example/alerts.html#(\S+)$", (MONITORING / "alerts.yaml").read_text(), re.M)
        self.assertEqual(links, [name.lower() for name in names])
        for name in names:
            self.assertIn(f'alertname="{name}"', tested)
            self.assertIn(f"\n## {name}\n", page)

    def test_they_speak_of_metrics_that_there_are(self):
        documented = (ROOT / "docs/metrics.md").read_text()
        text = (MONITORING / "alerts.yaml").read_text() + (MONITORING / "dashboard.json").read_text()
        used = set(re.findall(r"\b(?:quota_(?:ledger|bridge)|kube_resourcequota|openshift_clusterresourcequota)\w*", text))
        self.assertGreater(len(used), 20)
        for metric in used:
            self.assertIn(f"`{metric.removesuffix('_bucket')}`", documented)


class Dashboard(unittest.TestCase):
    """A ledger in which everything happens that the dashboard shows, a cluster, and a Prometheus that scrapes them."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.processes = []
        cls.cluster = None
        try:
            cls.start_all()
        except BaseException:
            for log in pathlib.Path(cls.home.name).glob("*.log"):
                print(f"== {log.name}\n{log.read_text()[-3000:]}")
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        for process in reversed(cls.processes):
            # The cluster ends what it started.
            process.terminate() if process is cls.cluster else process.kill()
            process.wait()
        cls.home.cleanup()

    @classmethod
    def start(cls, name, *arguments, **environment):
        with open(os.path.join(cls.home.name, f"{name}.log"), "wb") as log:
            process = subprocess.Popen([str(argument) for argument in arguments], cwd=cls.home.name, stdout=log,
                                       stderr=log, stdin=subprocess.DEVNULL, env={**ENVIRONMENT, **environment})
        cls.processes.append(process)
        return process

    @classmethod
    def start_all(cls):
        nats, api, admin, kubernetes, bridge, prometheus = free_ports(6)
        cls.api = f"http://127.0.0.1:{api}"
        cls.admin = f"http://127.0.0.1:{admin}"
        kubernetes = f"http://127.0.0.1:{kubernetes}"
        cls.prometheus = f"http://127.0.0.1:{prometheus}"
        cls.start("nats", "nats-server", "-a", "127.0.0.1", "-p", nats, "-js", "-sd", "nats")
        cls.start("quotad", PROGRAMS / "quotad", f"--listen=127.0.0.1:{api}", f"--admin.listen=127.0.0.1:{admin}",
                  f"--nats.url=nats://127.0.0.1:{nats}", "--nats.watermark=bridge", "--data-dir=data",
                  "--reservations.max_pending=50")
        cls.start("fake-api", PROGRAMS / "fake-api", kubernetes.removeprefix("http://"))
        cls.start("bridge", PROGRAMS / "quota-bridge", f"--api={kubernetes}", f"--nats.url=nats://127.0.0.1:{nats}",
                  f"--admin.listen=127.0.0.1:{bridge}", "--watermark.every=500ms")
        until("the API server answers", lambda: reachable(kubernetes + "/version"))
        cls.post(kubernetes + "/api/v1/namespaces/demo/resourcequotas",
                 {"metadata": {"name": "compute"}, "spec": {"hard": {"pods": "3", "requests.cpu": "2", "requests.memory": "1Gi"}}})
        cls.post(kubernetes + "/api/v1/namespaces/demo/pods", {"metadata": {"name": "web"}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
        first = free_ports(60).start
        cls.cluster = cls.start("cluster", ROOT / "deploy/cluster/try", CLUSTER_PORT=str(first), QUOTAD=str(PROGRAMS / "quotad"),
                                QUOTACTL=str(PROGRAMS / "quotactl"), QUOTAD_NATS_SERVER=NATS_SERVER)
        config = os.path.join(cls.home.name, "prometheus.yml")
        cls.write_configuration(config, [admin, *range(first + 41, first + 44)], bridge)
        cls.start("prometheus", "prometheus", f"--config.file={config}", "--storage.tsdb.path=tsdb",
                  f"--web.listen-address=127.0.0.1:{prometheus}")
        until("quotad is ready", lambda: cls.is_ready())
        until("the cluster has a leader", lambda: "Ctrl-C" in (pathlib.Path(cls.home.name) / "cluster.log").read_text())
        until("Prometheus answers", lambda: reachable(cls.prometheus + "/-/ready"))
        cls.act(nats)

    @classmethod
    def write_configuration(cls, path, admins, bridge):
        page = (ROOT / "docs/metrics.md").read_text()
        configuration = re.search(r"```yaml\n(scrape_configs:.*?)```", page, re.S)[1]
        targets = '", "'.join(f"127.0.0.1:{admin}" for admin in admins)
        configuration = configuration.replace("quotad.quota-system.svc:8481", targets)
        configuration = configuration.replace("quota-bridge.quota-system.svc:8482", f"127.0.0.1:{bridge}")
        text = f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{MONITORING}/alerts.yaml]\n{configuration}"
        pathlib.Path(path).write_text(text)

    @classmethod
    def is_ready(cls):
        try:
            return fetch(cls.admin + "/readyz")[0] is not None
        except OSError:
            return False

    @classmethod
    def post(cls, url, value):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        try:
            return fetch(url, data, {"content-type": "application/json"})[1]
        except urllib.error.HTTPError as error:
            return error.read()

    @classmethod
    def act(cls, nats):
        """Grants, denials, commits, releases, expirations; events, and one that nobody understands."""
        reservations = cls.api + "/v1/namespaces/demo/reservations"

        def reserve(uid, cpu, ttl="10m"):
            cls.post(reservations, {"reservedBy": {"kind": "Pod", "name": uid, "uid": uid},
                                    "reserved": {"requests.cpu": cpu}, "ttl": ttl})
        members = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["demo"]}
        group = {"selector": {"labels": {"matchExpressions": [members]}}, "hard": {"pods": "5", "requests.cpu": "9", "requests.memory": "9Gi"}}
        fetch(cls.api + "/v1/groups/shop", json.dumps(group).encode(), {"content-type": "application/json"}, "PUT")
        reserve("a", "100m")
        reserve("b", "100m")
        reserve("c", "100m", "1s")
        reserve("d", "5")
        fetch(reservations + "/b", method="DELETE")
        cls.post(cls.api + "/v1/events", b'{"nothing":"known"}\n')
        cls.post(cls.api + "/v1/events", b'{"type":"ADDED","namespace":"other","resource":"widgets","name":"w","uid":"w"}\n')

    def query(self, expression):
        query = urllib.parse.urlencode({"query": expression})
        answer = json.loads(fetch(f"{self.prometheus}/api/v1/query?{query}")[1])
        return answer["data"]["result"]

    def expressions(self):
        dashboard = json.loads((MONITORING / "dashboard.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$namespace", ".*").replace("$__rate_interval", "15s")
                # A query for resources with a unit of their own has data of these.
                yield panel["title"], [expression.replace("$resource", resource) for resource in ["pods", "requests.memory", "requests.cpu"]]

    def test_no_panel_is_empty(self):
        expressions = list(self.expressions())
        self.assertGreater(len(expressions), 25)
        for title, each in expressions:
            with self.subTest(title):
                until(f"{title}: {each[0]}", lambda: any(self.query(expression) for expression in each))

    def test_denials_are_told_by_quota_and_group(self):
        denied = until("a denial is scraped", lambda: self.query('quota_ledger_quota_denials_total{namespace="demo"} > 0'))
        self.assertEqual([sample["metric"]["resourcequota"] for sample in denied], ["compute"])
        self.assertTrue(until("the group is scraped", lambda: self.query('quota_ledger_group_denials_total{name="shop"} == 0')))

    def test_the_scrape_succeeds_and_no_series_comes_twice(self):
        until("all are scraped", lambda: len(self.query("up == 1")) == 5)
        self.assertEqual(self.query('count by (namespace, resourcequota, resource, type) (kube_resourcequota) > 1'), [])

    def test_the_alerts_of_the_kubernetes_mixin_see_these_quotas(self):
        # KubeQuotaAlmostFull and KubeQuotaFullyUsed, as the mixin has them.
        share = ('max without (instance, job, type) (kube_resourcequota{job="kube-state-metrics", type="used"}) '
                 '/ on (cluster, namespace, resource, resourcequota) group_left() '
                 '(max without (instance, job, type) (kube_resourcequota{job="kube-state-metrics", type="hard"}) > 0)')
        found = until("the mixin sees them", lambda: self.query(share))
        shares = {sample["metric"]["resource"]: float(sample["value"][1]) for sample in found}
        self.assertAlmostEqual(shares["requests.cpu"], 0.5)

    def test_metrics_are_served_as_text_and_compressed(self):
        url = self.admin + "/metrics"
        headers, text = fetch(url, headers={"accept": "application/openmetrics-text; version=1.0.0"})
        self.assertEqual(headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        headers, zipped = fetch(url, headers={"accept-encoding": "gzip"})
        self.assertEqual(headers["content-encoding"], "gzip")
        self.assertLess(len(zipped), len(text) / 2)
        ran = subprocess.run(["promtool", "check", "metrics"], input=fetch(url)[1], capture_output=True)
        self.assertNotIn(b"error while linting", ran.stderr, ran.stderr)

    def test_quotactl_prints_what_is_shipped(self):
        def generate(*arguments):
            ran = subprocess.run([PROGRAMS / "quotactl", "generate", *arguments], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            return ran.stdout
        self.assertEqual(generate("alerts"), (MONITORING / "alerts.yaml").read_text())
        self.assertEqual(generate("dashboard"), (MONITORING / "dashboard.json").read_text())
        self.assertIn("kind: PrometheusRule", generate("alerts", "--operator"))
        self.assertIn("runbook_url: https://docs.corp/a#quotaledgerdown\n", generate("alerts", "--runbooks=https://docs.corp/a"))
        self.assertIn("ServiceMonitor", generate("servicemonitor"))


if __name__ == "__main__":
    unittest.main()
