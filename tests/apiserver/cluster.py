"""Everything behind a real kube-apiserver, all on loopback: etcd, kube-apiserver, kube-controller-manager, NATS, quotad and
two quota-bridges, with the objects of deploy/manifests. There are no nodes: pods stay pending.

KUBEBUILDER_ASSETS   directory with etcd, kube-apiserver and kube-controller-manager
QUOTAD_NATS_SERVER   a nats-server (nats-server)
PROGRAMS             directory with quotad, quotactl and quota-bridge (target/debug)
"""

import base64
import collections
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120
TOKEN = "admin-of-a-test"
TENANTS = ["team-a", "team-b"]
HARD = {
    "pods": 50,
    "requests.cpu": 6,
    "services": 20,
    "persistentvolumeclaims": 20,
    "requests.storage": 15 << 30,
    "count/widgets.example.com": 30,
}
QUOTA = {**{key: str(value) for key, value in HARD.items()}, "requests.storage": "15Gi"}
# A custom kind that the bridge may not list.
HIDDEN = "gadgets"
# Namespaces that the webhook spares by name; servers before 1.21 do not label them.
SPARED = ["kube-system", "kube-public", "kube-node-lease", "quota-system"]


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def until(what, ask, patience=PATIENCE, tick=0.1):
    deadline = time.monotonic() + patience
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise SystemExit(f"never happened: {what}")
        time.sleep(tick)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Program:
    """A process that can be killed and started again with the same arguments."""

    def __init__(self, name, command, directory):
        self.name, self.command = name, [str(it) for it in command]
        self.log = directory / f"{name}.log"
        self.process = None
        self.is_wanted = False
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            # QUOTAD_… of the environment would be settings.
            env = {key: value for key, value in os.environ.items() if not key.startswith("QUOTA")}
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env)
        self.is_wanted = True

    def kill(self):
        self.is_wanted = False
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self):
        self.is_wanted = False
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


class Api:
    """A connection to the API server, for one thread."""

    def __init__(self, port, ca, token=TOKEN):
        self.port, self.token = port, token
        self.context = ssl.create_default_context(cafile=ca)
        self.connection = None

    def ask(self, method, path, body=None, timeout=15, content="application/json"):
        """Status and JSON of an answer; status 0: nobody answers."""
        text = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", "Content-Type": content}
        try:
            if self.connection is None:
                self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=timeout)
            self.connection.request(method, path, text, headers)
            answer = self.connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return 0, {"message": str(error)}
        try:
            return answer.status, json.loads(data)
        except ValueError:
            return answer.status, {"message": data.decode(errors="replace")}

    def must(self, method, path, body=None, **more):
        status, answer = self.ask(method, path, body, **more)
        if status not in (200, 201):
            raise SystemExit(f"{method} {path}: {status} {answer.get('message')}")
        return answer

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


def get(url, timeout=5):
    """Status and text of a plain HTTP answer."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=timeout)
    try:
        connection.request("GET", "/" + path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        connection.close()


def run(*command, **more):
    return subprocess.run([str(it) for it in command], check=True, capture_output=True, text=True, **more).stdout


class Cluster:
    def __init__(self, directory):
        self.directory = directory
        self.assets = Path(os.environ["KUBEBUILDER_ASSETS"])
        self.programs = Path(os.environ.get("PROGRAMS", ROOT / "target/debug"))
        self.ports = collections.defaultdict(free_port)
        self.ca = directory / "ca.crt"
        self.kubeconfig = directory / "admin.kubeconfig"
        self.running = {}
        # How often etcd was restored, and when last, until the test has looked.
        self.restores, self.restored = 0, None
        self.stopping = threading.Event()

    def asset(self, name):
        path = self.assets / name
        return path if path.exists() else shutil.which(name) or sys.exit(f"there is no {name} in {self.assets}")

    def start(self, name, *command):
        self.running[name] = Program(name, command, self.directory)

    def api(self):
        return Api(self.ports["api"], self.ca)

    def write_kubeconfig(self, path, token):
        cluster = {"server": f"https://127.0.0.1:{self.ports['api']}", "certificate-authority": str(self.ca)}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }))

    # Kubernetes ------------------------------------------------------------------------------------------------------

    def certificates(self):
        at = self.directory
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=test-ca", "-keyout", at / "ca.key", "-out", self.ca)
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=kube-apiserver",
            "-keyout", at / "api.key", "-out", at / "api.csr")
        (at / "api.ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc\n")
        run("openssl", "x509", "-req", "-in", at / "api.csr", "-CA", self.ca, "-CAkey", at / "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", at / "api.ext", "-out", at / "api.crt")
        run("openssl", "genrsa", "-out", at / "sa.key", "2048")
        (at / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        # The API server shows its own certificate to the webhook.
        user = {"client-certificate": f"{at}/api.crt", "client-key": f"{at}/api.key"}
        (at / "webhooks.kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "users": [{"name": f"localhost:{self.ports['webhook']}", "user": user}]}))
        (at / "admission.yaml").write_text(json.dumps({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
            "plugins": [{"name": "ValidatingAdmissionWebhook", "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": f"{at}/webhooks.kubeconfig"}}]}))

    def start_kubernetes(self):
        at, ports = self.directory, self.ports
        self.certificates()
        url = f"http://127.0.0.1:{ports['etcd']}"
        peer = f"http://127.0.0.1:{ports['etcd-peer']}"
        self.start("etcd", self.asset("etcd"), "--data-dir", at / "etcd", "--listen-client-urls", url,
                   "--advertise-client-urls", url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                   "--initial-cluster", f"default={peer}", "--logger=zap", "--log-level=warn")
        self.start_apiserver()
        self.write_kubeconfig(self.kubeconfig, TOKEN)
        self.start("kube-controller-manager", self.asset("kube-controller-manager"), f"--kubeconfig={self.kubeconfig}",
                   f"--service-account-private-key-file={at}/sa.key", f"--root-ca-file={self.ca}", "--leader-elect=false",
                   "--bind-address=127.0.0.1", f"--secure-port={ports['controllers']}", f"--cert-dir={at}/controllers",
                   "--resource-quota-sync-period=5s", f"--authentication-kubeconfig={self.kubeconfig}",
                   f"--authorization-kubeconfig={self.kubeconfig}")

    def start_apiserver(self, *more, plugin=False):
        """`plugin`: with Kubernetes' own quota plugin."""
        at, ports = self.directory, self.ports
        self.start("kube-apiserver", self.asset("kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{ports['etcd']}",
                   "--bind-address=127.0.0.1", f"--secure-port={ports['api']}", "--advertise-address=192.0.2.1",
                   "--endpoint-reconciler-type=none", f"--tls-cert-file={at}/api.crt",
                   f"--tls-private-key-file={at}/api.key", f"--token-auth-file={at}/tokens.csv",
                   "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
                   "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={at}/sa.key",
                   f"--service-account-signing-key-file={at}/sa.key", f"--cert-dir={at}/apiserver",
                   f"--admission-control-config-file={at}/admission.yaml",
                   *([] if plugin else ["--disable-admission-plugins=ResourceQuota"]), *more)
        self.until_api()

    def take_snapshot(self):
        """Copies etcd's data while etcd does not run."""
        etcd = self.running["etcd"]
        etcd.stop()
        shutil.rmtree(self.directory / "snapshot", ignore_errors=True)
        shutil.copytree(self.directory / "etcd", self.directory / "snapshot")
        etcd.start()
        self.until_api()

    def until_api(self):
        api = self.api()
        until("the API server is ready", lambda: api.ask("GET", "/readyz", timeout=2)[0] == 200)

    # What is installed ---------------------------------------------------------------------------------------------

    def kubectl(self, *arguments, text=None):
        command = ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, cwd=self.directory,
                              env={**os.environ, "HOME": str(self.directory)})

    def install(self):
        api = self.api()
        for name in SPARED + TENANTS:
            labels = {"kubernetes.io/metadata.name": name}
            status, _ = api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
            if status == 409:
                patch = {"metadata": {"labels": labels}}
                api.must("PATCH", f"/api/v1/namespaces/{name}", patch, content="application/merge-patch+json")
        applied = self.kubectl("apply", "--validate=false", "-f", str(ROOT / "deploy/manifests/quota-ledger.yaml"))
        say(f"{applied.stdout.count('created')} objects of deploy/manifests are installed")
        for line in applied.stderr.splitlines():
            say(f"  not installed: {line}")
        for singular in ("widget", HIDDEN.removesuffix("s")):
            self.define(singular)
        # What the chart writes with count: [widgets.example.com] and without a network of services.
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/quota-ledger-bridge"
        role = api.must("GET", roles)
        role["rules"].append({"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch"]})
        api.must("PUT", roles, role)
        configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/quota-ledger"
        configuration = api.must("GET", configurations)
        for webhook in configuration["webhooks"]:
            webhook["failurePolicy"] = "Fail"
            webhook["clientConfig"] = {"url": f"https://localhost:{self.ports['webhook']}/admit"}
            webhook["rules"].append({"operations": ["CREATE", "UPDATE"], "apiGroups": ["example.com"],
                                     "apiVersions": ["*"], "resources": ["widgets", HIDDEN], "scope": "Namespaced"})
        api.must("PUT", configurations, configuration)
        for name in TENANTS:
            quota = {"metadata": {"name": "quota"}, "spec": {"hard": QUOTA}}
            api.must("POST", f"/api/v1/namespaces/{name}/resourcequotas", quota)

    def define(self, singular):
        """A custom kind of the group example.com."""
        kind = singular.capitalize()
        definition = {
            "metadata": {"name": f"{singular}s.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": f"{singular}s", "singular": singular, "kind": kind, "listKind": f"{kind}List"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}],
            },
        }
        self.api().must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)

    def config(self, name, key):
        """A configuration file as it is installed."""
        path = f"/api/v1/namespaces/quota-system/configmaps/{name}"
        text = self.api().must("GET", path)["data"][key]
        file = self.directory / key
        file.write_text(text)
        return file

    def start_nats(self):
        server = os.environ.get("QUOTAD_NATS_SERVER") or "nats-server"
        self.start("nats", server, "-js", "-sd", self.directory / "nats", "-a", "127.0.0.1", "-p", self.ports["nats"])

    def nats_url(self):
        return f"--nats.url=nats://127.0.0.1:{self.ports['nats']}"

    def start_bridges(self):
        account = "/api/v1/namespaces/quota-system/serviceaccounts/quota-ledger-bridge/token"
        token = self.api().must("POST", account, {"spec": {"expirationSeconds": 7200}})["status"]["token"]
        kubeconfig = self.directory / "bridge.kubeconfig"
        self.write_kubeconfig(kubeconfig, token)
        config = self.config("quota-ledger-bridge", "bridge.toml")
        for name in ("bridge-1", "bridge-2"):
            self.start(name, self.programs / "quota-bridge", f"--config={config}", f"--kubeconfig={kubeconfig}",
                       self.nats_url(), f"--admin.listen=127.0.0.1:{self.ports[name]}", "--certificates.names=localhost",
                       "--certificates.every=5s", "--resources.include=widgets.example.com")

    def mount(self):
        """Writes what the Secret holds to files, as a kubelet does."""
        api, seen = self.api(), None
        while not self.stopping.wait(0.5):
            status, secret = api.ask("GET", "/api/v1/namespaces/quota-system/secrets/quota-ledger-quotad-tls")
            data = secret.get("data") if status == 200 else None
            if not data or data == seen:
                continue
            for key in ("ca.crt", "tls.key", "tls.crt"):
                (self.directory / f"quotad-{key}").write_bytes(base64.b64decode(data.get(key, "")))
            seen = data

    def start_quotad(self):
        certificate = self.directory / "quotad-tls.crt"
        until("the bridge has made a certificate", certificate.exists)
        config = self.config("quota-ledger-quotad", "config.toml")
        ports = self.ports
        self.start("quotad", self.programs / "quotad", f"--config={config}", f"--data-dir={self.directory}/ledger",
                   f"--listen=127.0.0.1:{ports['quotad']}", f"--admin.listen=127.0.0.1:{ports['quotad-admin']}",
                   f"--admission.listen=127.0.0.1:{ports['webhook']}", self.nats_url(), f"--tls.cert={certificate}",
                   f"--tls.key={self.directory}/quotad-tls.key", f"--tls.client-ca={self.ca}",
                   "--tls.allowed-names=localhost", "--quotas.plugin-is-off=true")

    def readyz(self):
        return f"http://127.0.0.1:{self.ports['quotad-admin']}/readyz"

    def until_ready(self):
        until("quotad is ready", lambda: get(self.readyz())[0] == 200)

    def audit(self):
        """Starts the API server again, so that it says how creations ended."""
        at = self.directory
        for only in ("policy", "kubeconfig"):
            text = run(self.programs / "quotactl", "generate", "audit", f"--url=https://127.0.0.1:{self.ports['webhook']}",
                       "--server-name=localhost", f"--ca-bundle={at}/quotad-ca.crt", f"--client-cert={at}/api.crt",
                       f"--client-key={at}/api.key", f"--count=widgets.example.com,{HIDDEN}.example.com", f"--only={only}")
            (at / f"audit-{only}.yaml").write_text(text)
        self.running["kube-apiserver"].stop()
        self.start_apiserver(f"--audit-policy-file={at}/audit-policy.yaml",
                             f"--audit-webhook-config-file={at}/audit-kubeconfig.yaml",
                             "--audit-webhook-batch-max-wait=200ms")

    def leader(self):
        for name in ("bridge-1", "bridge-2"):
            _, text = get(f"http://127.0.0.1:{self.ports[name]}/metrics")
            if "\nquota_bridge_leader 1" in "\n" + text:
                return name
        return None

    def supervise(self):
        """Starts what has ended by itself, as a kubelet does."""
        while not self.stopping.wait(1):
            for program in list(self.running.values()):
                if program.is_wanted and program.process.poll() is not None:
                    say(f"  {program.name} has ended with {program.process.returncode}, and is started again")
                    program.start()

    def stop(self):
        self.stopping.set()
        for name in reversed(list(self.running)):
            self.running[name].stop()
