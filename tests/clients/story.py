"""Generates a client from /openapi.json of a running daemon, and lets it reserve, be denied, and release."""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path


def start(directory):
    """A daemon, and the address of its API."""
    arguments = ["--listen=127.0.0.1:0", "--admin.listen=127.0.0.1:0", "--data-dir=data", "--log.format=json"]
    # The daemon takes every variable of this prefix for a key of its configuration.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUOTAD_")}
    program = [os.environ["QUOTAD"], *arguments]
    daemon = subprocess.Popen(program, cwd=directory, env=environment, stderr=subprocess.PIPE, text=True)
    for line in daemon.stderr:
        entry = json.loads(line)
        if entry["message"] == "ready":
            return daemon, f"http://{entry['api']}"
    raise SystemExit("quotad did not start")


def send(api, method, path, body=None):
    """Sends a request that has to succeed, and gives its answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(api + path, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        raise SystemExit(f"{method} {path}: {refused.read().decode()}") from refused


def description(api):
    return send(api, "GET", "/openapi.json")


def generate(api, directory):
    """The client, as a package."""
    (directory / "openapi.json").write_text(json.dumps(description(api)))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json"]
    options = ["--meta", "none", "--output-path", "quota_ledger", "--overwrite"]
    (directory / "config.yaml").write_text("post_hooks: []\n")
    # It warns of bodies that are not JSON, and leaves them out.
    made = subprocess.run([*command, *options, "--config", "config.yaml"], cwd=directory, capture_output=True, text=True)
    if made.returncode != 0:
        raise SystemExit(made.stdout + made.stderr)
    sys.path.insert(0, str(directory))


def call(operation, /, **arguments):
    """Calls an operation of the API, and gives its status and answer."""
    # Its module is in that of its tag.
    api = Path(importlib.import_module("quota_ledger").__file__).parent / "api"
    [module] = api.glob(f"*/{operation}.py")
    response = importlib.import_module(f"quota_ledger.api.{module.parent.name}.{operation}").sync_detailed(**arguments)
    return int(response.status_code), response.parsed


def story(api):
    from quota_ledger import Client, models

    client = Client(base_url=api)
    demo = {"client": client, "namespace": "demo"}
    hard = {"pods": "3", "requests.cpu": "2"}

    quota = models.QuotaInput.from_dict({"spec": {"hard": hard}})
    status, answer = call("set_quota", name="compute", body=quota, **demo)
    assert status == 201, answer
    assert answer.status.hard.to_dict() == hard, answer

    def reserve(uid, cpu):
        body = {"reservedBy": {"kind": "Pod", "name": uid, "uid": uid}, "reserved": {"pods": "1", "requests.cpu": cpu}}
        return call("reserve", body=models.ReserveRequest.from_dict({**body, "ttl": "5m"}), **demo)

    status, granted = reserve("pod-1", "1500m")
    assert (status, granted.state) == (201, models.ReservationState.PENDING), granted
    status, denied = reserve("pod-2", "1")
    assert isinstance(denied, models.Problem), denied
    assert (status, denied.reason) == (403, models.Reason.EXCEEDSHARD), denied
    assert denied.detail.startswith("exceeded quota: compute, requested: requests.cpu=1"), denied.detail
    assert [looked.name for looked in denied.quotas] == ["compute"], denied

    _, held = call("list_reservations", **demo)
    assert [item.reserved_by.uid for item in held.items] == ["pod-1"], held
    _, usage = call("get_usage", **demo)
    left = {limit.resource: limit.available for limit in usage.quotas[0].resources}
    assert left == {"pods": "2", "requests.cpu": "500m"}, usage

    status, _ = call("release", uid="pod-1", **demo)
    assert status == 204
    status, granted = reserve("pod-2", "1")
    assert status == 201, granted
    status, committed = call("commit", uid="pod-2", body=models.CommitRequest(), **demo)
    assert (status, committed.state) == (200, models.ReservationState.COMMITTED), committed
    _, entries = call("list_entries", client=client, namespace="demo", order=models.ListEntriesOrder.DESC, limit=1)
    assert entries.items[0].event.type_ == "ReservationCommitted", entries


def main():
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        daemon, api = start(directory)
        try:
            generate(api, directory)
            story(api)
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
