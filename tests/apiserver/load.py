"""What the cluster of a test has to do: workers that create and delete, and watchers that count what lives."""

import collections
import http.client
import json
import random
import threading
import time

from cluster import HARD, TENANTS, TOKEN

PATHS = {
    "pods": "/api/v1",
    "services": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "widgets": "/apis/example.com/v1",
}
COUNTED = {"pods": "pods", "services": "services", "persistentvolumeclaims": "persistentvolumeclaims",
           "widgets": "count/widgets.example.com"}


class Watcher(threading.Thread):
    """Counts live objects of a kind at every version of the cluster."""

    def __init__(self, cluster, kind):
        super().__init__(daemon=True)
        self.cluster, self.kind = cluster, kind
        self.live = {}
        self.most = collections.Counter()
        self.events = self.lists = 0

    def run(self):
        version, restores = None, 0
        while not self.cluster.stopping.is_set():
            api = self.cluster.api()
            if restores != self.cluster.restores:
                version, restores = None, self.cluster.restores
            try:
                if version is None:
                    version = self.list(api)
                if version is not None:
                    version = self.watch(api, version)
            except (OSError, ValueError, http.client.HTTPException):
                pass
            api.close()
            time.sleep(0.2)

    def list(self, api):
        status, answer = api.ask("GET", f"{PATHS[self.kind]}/{self.kind}")
        if status != 200:
            return None
        self.lists += 1
        self.live = {it["metadata"]["uid"]: it["metadata"]["namespace"] for it in answer["items"]}
        self.note()
        return answer["metadata"]["resourceVersion"]

    def watch(self, api, version):
        connection = http.client.HTTPSConnection("127.0.0.1", api.port, context=api.context, timeout=30)
        path = f"{PATHS[self.kind]}/{self.kind}?watch=1&resourceVersion={version}&timeoutSeconds=20"
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"})
        answer = connection.getresponse()
        try:
            while answer.status == 200 and (line := answer.readline()):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return None
                metadata = event["object"]["metadata"]
                version = metadata["resourceVersion"]
                # A pod whose time to end is over does not count any more, though it is still there.
                is_over = "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") == 0
                if event["type"] == "DELETED" or is_over and self.kind == "pods":
                    self.live.pop(metadata["uid"], None)
                elif event["type"] == "ADDED":
                    self.live[metadata["uid"]] = metadata["namespace"]
                    self.note()
                self.events += 1
            return None if answer.status == 410 else version
        except (OSError, ValueError, http.client.HTTPException):
            return version
        finally:
            connection.close()

    def note(self):
        for namespace, count in collections.Counter(self.live.values()).items():
            self.most[namespace] = max(self.most[namespace], count)


def made(kind, name):
    """An object to create."""
    metadata = {"name": name}
    if kind == "pods":
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": random.choice(["50m", "100m", "200m"])}}}
        return {"metadata": metadata, "spec": {"containers": [container], "automountServiceAccountToken": False}}
    if kind == "services":
        return {"metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    if kind == "persistentvolumeclaims":
        size = random.choice(["512Mi", "1Gi"])
        return {"metadata": metadata,
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}


class Worker(threading.Thread):
    """Creates and deletes, more of the first, so that limits are met; names are often taken."""

    def __init__(self, cluster, working, outcomes):
        super().__init__(daemon=True)
        self.cluster, self.working, self.outcomes = cluster, working, outcomes

    def run(self):
        api = self.cluster.api()
        while not self.cluster.stopping.is_set():
            if not self.working.wait(0.2):
                continue
            kind = random.choice(["pods", "pods", "pods", "services", "persistentvolumeclaims", "widgets"])
            namespace = random.choice(TENANTS)
            path = f"{PATHS[kind]}/namespaces/{namespace}/{kind}"
            name = f"{kind[:3]}-{random.randrange(HARD[COUNTED[kind]] * 2)}"
            if random.random() < 0.6:
                status, answer = api.ask("POST", path, made(kind, name))
                self.count("create", status, answer)
            else:
                status, answer = api.ask("DELETE", f"{path}/{name}")
                self.count("delete", status, answer)
            if status == 0:
                time.sleep(0.1)

    def count(self, what, status, answer):
        reason = answer.get("reason") or answer.get("status") if status >= 400 else ""
        if status == 403 and "exceeded quota" in answer.get("message", ""):
            reason = "exceeded quota"
        elif status in (0, 403) or status >= 500:
            reason = answer.get("message", "")[:100]
        self.outcomes[f"{what} {status} {reason}".strip()] += 1
