"""Sends a running daemon what /openapi.json allows, and what it forbids: no answer is a failure of the server, and each has
a status, a media type and a body that are described. Requests are made by schemathesis, from a fixed seed."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections import defaultdict
from pathlib import Path

import schemathesis
from schemathesis.specs.openapi.checks import use_after_free

import story

SEED = 1
# How long requests are made, in seconds.
BUDGET = int(os.environ.get("QUOTAD_DESCRIBED_SECONDS", "12"))
CHECKS = ["no_failure_of_the_server", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "unsupported_method", "allow_header_conformance", "no_use_after_deletion",
          "ensure_resource_availability"]
# It does not end.
ENDLESS = "/v1/watch"
# How many operations have to succeed at least once; in this time, on a busy machine, not all do.
SUCCESSES = 25 if BUDGET >= 60 else 15
# What is there before the first request. Of the reservations there are many, since each can be ended only once.
THERE = {"namespace": ["team-a"], "name": ["compute"], "uid": [f"held-{number}" for number in range(500)]}
ANSWERED = "DESCRIBED_ANSWERED"

answered = defaultdict(lambda: defaultdict(int))


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Every other request is about what is there: made-up names find nothing."""
    number = zlib.crc32(repr(path_parameters).encode())
    if number % 2 or not path_parameters:
        return path_parameters
    return {name: THERE[name][number // 2 % len(THERE[name])] for name in path_parameters}


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return "\n".join(map(json.dumps, value if isinstance(value, list) else [value])).encode()


@schemathesis.check
def no_failure_of_the_server(context, response, case):
    """503 is right if a group selects by labels that no source has reported: its members cannot be determined."""
    if response.status_code >= 500 and (response.status_code, response.json().get("reason")) != (503, "NotReady"):
        raise AssertionError(f"it answered {response.status_code}: {response.text}")


@schemathesis.check
def no_use_after_deletion(context, response, case):
    """What was deleted is gone, but not from the past."""
    if not {"at", "sequence"} & set(case.query or {}):
        return use_after_free(context, response, case)


@schemathesis.hook
def after_call(context, case, response):
    answered[case.operation.label][response.status_code] += 1


def prepare(client):
    """Makes what THERE names."""
    quota = {"spec": {"hard": {"pods": "1000", "requests.cpu": "10"}}}
    widget = {"type": "ADDED", "namespace": "team-a", "resource": "widgets.example.com", "name": "w", "uid": "w",
              "resourceVersion": "1", "usage": {"pods": "1"}}
    namespace = {"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "team-a", "uid": "n", "resourceVersion": "1", "labels": {"team": "a"}}}}
    pods = [{"namespace": "team-a", "reservedBy": {"uid": uid}, "reserved": {"pods": "1"}, "ttl": "10m"}
            for uid in THERE["uid"]]
    group = {"selector": {"labels": {"matchLabels": {"team": "a"}}}, "hard": {"pods": "1000"}}
    client("PUT", "/v1/namespaces/team-a/quotas/compute", quota)
    client("PUT", "/v1/groups/compute", group)
    client("POST", "/v1/events", [namespace, widget])
    client("POST", "/v1/reservations:batch", {"items": pods})


def described(api, directory):
    """Runs schemathesis: whether all was as described, what it says, and how often each operation answered what."""
    report = directory / "answered.json"
    command = [Path(sys.executable).parent / "schemathesis", "--no-color", "run", f"{api}/openapi.json",
               f"--seed={SEED}", f"--max-time={BUDGET}", "--checks=" + ",".join(CHECKS), f"--exclude-path={ENDLESS}",
               "--request-timeout=20", "--suppress-health-check=all", "--no-shrink", "--continue-on-failure"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "described", "PYTHONPATH": str(Path(__file__).parent),
                   ANSWERED: str(report)}
    run = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    return run.returncode == 0, run.stdout + run.stderr, json.loads(report.read_text())


def main():
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        daemon, api = story.start(directory)
        try:
            prepare(lambda method, path, body: story.send(api, method, path, body))
            passed, said, statuses = described(api, directory)
            assert passed, said
            assert daemon.poll() is None, "the daemon has ended"
            succeeded = [operation for operation, of in statuses.items() if any(status < "400" for status in of)]
            assert len(succeeded) >= SUCCESSES, f"hardly anything but refusals: {statuses}"
            requests = sum(count for of in statuses.values() for count in of.values())
            print(f"{requests} requests to {len(statuses)} operations were answered as described; {len(succeeded)} operations succeeded")
        finally:
            daemon.terminate()
            code = daemon.wait()
        assert code == 0, f"the daemon ended with {code}"


if ANSWERED in os.environ:
    atexit.register(lambda: Path(os.environ[ANSWERED]).write_text(json.dumps(answered)))
elif __name__ == "__main__":
    main()
