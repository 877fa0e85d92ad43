"""A daemon, what happens in it, and a browser that looks at it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
from loopback import free_ports

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = Path(os.environ.get("SCREENSHOTS", ROOT / "target" / "tmp" / "ui"))
CHROMIUM = shutil.which("chromium") or sys.exit("chromium is missing: tests/run --test ui installs it")
# As root there is no sandbox. The rest keeps the browser from calling anybody.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-quic", "--disable-dev-shm-usage",
]
# How long something may take to be shown, in milliseconds: long, since others use the machine too.
PATIENCE = 30_000
expect.set_options(timeout=PATIENCE)


class Daemon:
    """The real daemon, in a directory of its own."""

    def __init__(self, *arguments, files=None):
        self.directory = tempfile.TemporaryDirectory()
        for name, text in (files or {}).items():
            (Path(self.directory.name) / name).write_text(text)
        self.arguments = arguments
        # A daemon that is started again has the same address: not one that anybody who connects may get.
        self.listen = f"127.0.0.1:{free_ports(1)[0]}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [os.environ.get("QUOTAD", ROOT / "target/debug/quotad"), f"--listen={self.listen}",
             "--admin.listen=127.0.0.1:0", "--log.format=json", *self.arguments],
            cwd=self.directory.name, env={"QUOTAD_SHUTDOWN__DRAIN": "0s"}, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            line = json.loads(line)
            if line["message"] == "ready":
                self.listen = line["api"]
                break
        else:
            raise AssertionError("".join(said))
        self.reading = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.reading.start()

    @property
    def url(self):
        return f"http://{self.listen}"

    def call(self, method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json", **(headers or {})}, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def quota(self, namespace, name, hard, reason=None):
        headers = {"x-change-reason": reason} if reason else {}
        self.call("PUT", f"/v1/namespaces/{namespace}/quotas/{name}", {"spec": {"hard": hard}}, headers)

    def events(self, events):
        for first in range(0, len(events), 1000):
            answer = self.call("POST", "/v1/events", events[first:first + 1000])
            assert not answer["rejected"], answer

    def until_shown(self, namespace, hard, points):
        """Waits until a limit has stood so long that so many points, a second apart, tell it."""
        begin = self.call("GET", "/v1/status")["oldest"]["time"]
        while True:
            history = self.call("GET", f"/v1/namespaces/{namespace}/usage/history?from={begin}&step=1s")
            resources = [point["quotas"][0]["resources"] for point in history["points"] if point["quotas"]]
            if sum(figure["hard"] == hard for figures in resources for figure in figures) >= points:
                return

    def stop(self):
        self.process.terminate()
        assert self.process.wait() == 0
        self.reading.join()
        self.process.stderr.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            self.reading.join()
            self.process.stderr.close()
        self.directory.cleanup()


class Cluster:
    """Three servers and three daemons that keep one ledger, as `make cluster` starts them."""

    NODES = ["n1", "n2", "n3"]

    def __init__(self):
        first = free_ports(60)[0]
        self.apis = {node: f"http://127.0.0.1:{first + 31 + at}" for at, node in enumerate(self.NODES)}
        defaults = {"QUOTAD": "debug/quotad", "QUOTACTL": "debug/quotactl", "QUOTAD_NATS_SERVER": "servers/bin/nats-server"}
        programs = {name: os.environ.get(name, ROOT / "target" / path) for name, path in defaults.items()}
        self.process = subprocess.Popen([ROOT / "deploy/cluster/try"], stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **programs, "CLUSTER_PORT": str(first)})
        for line in self.process.stdout:
            if listed := re.search(r"\(processes: ([\d ]+)\)", line):
                self.daemons = dict(zip(self.NODES, map(int, listed[1].split())))
            if line.startswith("Ctrl-C"):
                return
        raise AssertionError("the cluster did not start")

    def leader(self):
        """The node that leads."""
        while True:
            with urllib.request.urlopen(f"{self.apis['n1']}/v1/cluster") as answer:
                leaders = [node["name"] for node in json.load(answer)["nodes"] if node["role"] == "leader"]
            if leaders:
                return leaders[0]

    def kill(self, node):
        os.kill(self.daemons[node], signal.SIGKILL)

    def close(self):
        self.process.terminate()
        self.process.communicate()


def widget(namespace, name, usage, version=1):
    return {"type": "ADDED", "namespace": namespace, "resource": "widgets.example.com", "name": name,
            "uid": f"{namespace}-{name}", "resourceVersion": str(version), "usage": usage}


class Browser:
    """A browser, and what it complained of."""

    def __init__(self):
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def close(self):
        self.browser.close()
        self.playwright.stop()

    def page(self, daemon, hash="", **options):
        return self.page_at(daemon.url, hash, **options)

    def page_at(self, url, hash="", **options):
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "timezone_id": "UTC", **options})
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.complaints = []
        page.on("console", lambda message: message.type in ("error", "warning") and page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto(f"{url}/ui{hash}")
        return page


def looked_at(page, name, expected=None):
    """A view that is complete: it is kept as a picture, axe finds no violation, and the browser complained of nothing.
    `expected`: a pattern of complaints that do not count. The page repeats a request that fails, at any time."""
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    complaints = [it for it in page.complaints if not expected or not re.search(expected, it)]
    assert not complaints, complaints
