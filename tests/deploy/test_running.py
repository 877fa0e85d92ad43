"""The rendered objects at work: the programs with the chart's configuration, its webhook, certificates and tokens,
between an API server that keeps objects in memory and a real nats-server."""

import base64
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from support import NAMESPACE, PROGRAMS, Rendered, program

PATIENCE = 90


def free_ports(names):
    """A free port for each name, below those that systems give to outgoing connections."""
    ports = {}
    while len(ports) < len(names):
        port = random.randrange(20000, 32000)
        with contextlib.suppress(OSError), socket.socket() as bound:
            bound.bind(("127.0.0.1", port))
            if port not in ports.values():
                ports[names[len(ports)]] = port
    return ports


def until(what, ask):
    """Asks until there is an answer."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if answer := ask():
                return answer
        except OSError as error:
            what = f"{what}: {error}"[:500]
        if time.monotonic() > deadline:
            raise AssertionError(what)
        time.sleep(0.05)


class Api:
    """What kubectl would do with the API server."""

    def __init__(self, url):
        self.url = url

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data), timeout=PATIENCE) as answer:
            return json.load(answer)

    def create(self, item, plural):
        group = item["apiVersion"]
        base = f"/api/{group}" if "/" not in group else f"/apis/{group}"
        namespace = item["metadata"].get("namespace")
        return self.call(f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}", item)


class Running(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = Path(directory.name)

    def start(self, name, *command):
        log = (self.work / f"{name}.log").open("w")
        self.addCleanup(log.close)
        process = subprocess.Popen(command, env={"PATH": os.environ["PATH"]}, cwd=self.work, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def configuration(self, name, text, places):
        """The chart's configuration, with places of this host instead of a pod's."""
        for pod, host in places.items():
            self.assertIn(pod, text)
            text = text.replace(pod, str(host))
        file = self.work / f"{name}.toml"
        file.write_text(text)
        return f"--config={file}"

    def install(self, rendered):
        """Starts everything around the programs, and creates what an API server without nodes does something with."""
        self.ports = free_ports(("nats", "api server", "webhook", "api", "metrics", "bridge"))
        self.nats = f"nats://127.0.0.1:{self.ports['nats']}"
        store = str(self.work / "nats")
        self.start("nats", "nats-server", "-js", "-sd", store, "-a", "127.0.0.1", "-p", str(self.ports["nats"]))
        self.start("api", PROGRAMS / "fake-api", f"127.0.0.1:{self.ports['api server']}")
        self.api = Api(f"http://127.0.0.1:{self.ports['api server']}")
        until("the API server answers", lambda: self.api.call("/version"))
        until("nats-server answers", lambda: socket.create_connection(("127.0.0.1", self.ports["nats"])).close() or True)
        self.webhook = self.api.create(rendered.one("ValidatingWebhookConfiguration"), "validatingwebhookconfigurations")
        self.secret = self.api.create(rendered.one("Secret"), "secrets")
        for definition in rendered.all("CustomResourceDefinition"):
            self.api.create(definition, "customresourcedefinitions")

    def start_bridge(self, rendered, **more):
        places = {rendered.values["nats"]["url"]: self.nats, "0.0.0.0:8482": f"127.0.0.1:{self.ports['bridge']}"} | more
        bridge = self.configuration("bridge", rendered.config("-bridge"), places)
        return self.start("bridge", PROGRAMS / "quota-bridge", bridge, f"--api={self.api.url}")

    def mount_certificate(self):
        """As the kubelet does once it is there."""
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{self.secret['metadata']['name']}"
        for key, value in until("the bridge makes a certificate", lambda: self.api.call(path).get("data")).items():
            (self.work / key).write_bytes(base64.b64decode(value))

    def start_quotad(self, rendered, **more):
        places = {
            rendered.values["nats"]["url"]: self.nats,
            "/etc/quota-ledger/tls": self.work,
            "/data/ledger": self.work / "ledger",
            "0.0.0.0:8443": f"127.0.0.1:{self.ports['webhook']}",
            "0.0.0.0:8481": f"127.0.0.1:{self.ports['metrics']}",
        } | more
        quotad = self.start("quotad", PROGRAMS / "quotad", self.configuration("quotad", rendered.config("-quotad"), places))
        probe = f"http://127.0.0.1:{self.ports['metrics']}/readyz"
        until("quotad is ready", lambda: urllib.request.urlopen(probe, timeout=PATIENCE).status == 200)
        return quotad

    def test_what_is_installed_decides(self):
        rendered = Rendered()
        service = f"{rendered.one('Service')['metadata']['name']}.{NAMESPACE}.svc"
        self.install(rendered)
        tenant = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team-a"}}
        self.api.create(tenant | {"spec": {"hard": {"pods": "1"}}}, "resourcequotas")
        self.start_bridge(rendered)
        self.mount_certificate()
        quotad = self.start_quotad(rendered, **{"127.0.0.1:8480": f"127.0.0.1:{self.ports['api']}"})

        # As the API server calls: it trusts the caBundle, and expects the service's name.
        path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{self.webhook['metadata']['name']}"
        client = self.api.call(path)["webhooks"][0]["clientConfig"]
        self.assertEqual(f"{client['service']['name']}.{client['service']['namespace']}.svc", service)
        trusted = ssl.create_default_context(cadata=base64.b64decode(client["caBundle"]).decode())

        def review(name):
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-{name}"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            request = {
                "uid": f"review-{name}",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": "team-a",
                "name": name,
                "operation": "CREATE",
                "userInfo": {"username": "u"},
                "object": pod,
            }
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            plain = socket.create_connection(("127.0.0.1", self.ports["webhook"]), timeout=PATIENCE)
            connection = http.client.HTTPConnection(service)
            with trusted.wrap_socket(plain, server_hostname=service) as connection.sock:
                connection.request("POST", client["service"]["path"], json.dumps(body), {"Content-Type": "application/json"})
                return json.load(connection.getresponse())["response"]

        self.assertTrue(review("first")["allowed"])
        second = review("second")
        self.assertFalse(second["allowed"])
        self.assertIn("exceeded quota: q", second["status"]["message"])
        quotad.send_signal(signal.SIGTERM)
        self.assertEqual(quotad.wait(PATIENCE), 0, (self.work / "quotad.log").read_text())

    def test_the_status_of_groups_is_kept_with_the_token_of_the_chart(self):
        rendered = Rendered({"groups": {"status": {"tokenSecret": "bridge-token"}}, "quotad": {"tokensSecret": "quotad-tokens"}})
        service = f"{rendered.one('Service', '-quotad')['metadata']['name']}.{NAMESPACE}.svc"
        self.install(rendered)
        team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "red"}}}
        self.api.create(team, "namespaces")
        pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
        self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}} | pod, "pods")
        group = {"apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota", "metadata": {"name": "red"}}
        limits = {"selector": {"labels": {"matchLabels": {"team": "red"}}}, "quota": {"hard": {"pods": "3"}}}
        self.api.create(group | {"spec": limits}, "clusterresourcequotas")

        # The two Secrets, by the command that docs name, mounted where the pods have them.
        (self.work / "tokens").mkdir()
        (self.work / "status").mkdir()
        create = ("token", "create", "--principal=bridge", "--role=read", "-A", f"--file={self.work}/tokens/tokens.toml")
        made = program("quotactl", *create)
        self.assertEqual(made.returncode, 0, made.stderr)
        (self.work / "status/token").write_text(made.stdout)
        # The service's address and its name: there is no DNS here, so the certificate is for this host.
        places = {
            service: "localhost",
            "localhost:8480": f"localhost:{self.ports['api']}",
            "/etc/quota-ledger/status": self.work / "status",
            "/etc/quota-ledger/quotad-ca": self.work,
        }
        self.start_bridge(rendered, **places)
        self.mount_certificate()
        tokens = {"/etc/quota-ledger/tokens": self.work / "tokens", "0.0.0.0:8480": f"127.0.0.1:{self.ports['api']}"}
        self.start_quotad(rendered, **tokens)

        def used():
            found = self.api.call("/apis/quota.openshift.io/v1/clusterresourcequotas/red").get("status") or {}
            return found.get("total", {}).get("used", {}).get("pods")

        self.assertEqual(until("the status is written", used), "1")
        # Without a token quotad says nothing.
        trusted = ssl.create_default_context(cafile=self.work / "ca.crt")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"https://localhost:{self.ports['api']}/v1/groups", context=trusted, timeout=PATIENCE)
        self.assertEqual(refused.exception.code, 401)
