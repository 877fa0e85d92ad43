"""What the tests of deploy/ share: the repository, the programs, and the chart rendered."""

import functools
import os
import subprocess
from pathlib import Path

import helm_python
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
CHART = DEPLOY / "helm/quota-ledger"
PROGRAMS = Path(os.environ["PROGRAMS"])
NAMESPACE = "quota-system"
RELEASE = "quota-ledger"


def program(name, *arguments, **options):
    """Runs one of the programs to its end, without this environment."""
    return subprocess.run(
        [PROGRAMS / name, *arguments], env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options
    )


def printed(name, *arguments):
    """What a program prints, as YAML."""
    done = program(name, *arguments)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)


def values_of(path):
    return yaml.safe_load(path.read_text())


def cases():
    """Sets of values: the defaults, and those in ci/."""
    return {"defaults": {}} | {path.stem: values_of(path) for path in sorted((CHART / "ci").glob("*-values.yaml"))}


def merged(values):
    """The values that are in force."""
    with chart() as loaded:
        return loaded.merge_values(values)


def chart():
    return helm_python.Chart.load(CHART)


def texts(values=None):
    """The rendered templates by file name."""
    with chart() as loaded:
        rendered = loaded.render(values, name=RELEASE, namespace=NAMESPACE)
    return {name.split("/templates/", 1)[1]: text for name, text in rendered.items()}


def is_test(item):
    """Whether only `helm test` makes it."""
    return item["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"


class Rendered:
    """The chart with certain values: its objects and its notes."""

    def __init__(self, values=None):
        files = texts(values)
        self.values = merged(values)
        self.notes = files.pop("NOTES.txt")
        items = [item for text in files.values() for item in yaml.safe_load_all(text) if item]
        self.tests = [item for item in items if is_test(item)]
        self.objects = [item for item in items if not is_test(item)]

    def all(self, *kinds):
        return [item for item in self.objects if item["kind"] in kinds]

    def one(self, kind, suffix=""):
        found = [item for item in self.all(kind) if item["metadata"]["name"].endswith(suffix)]
        assert len(found) == 1, (kind, suffix, [item["metadata"]["name"] for item in found])
        return found[0]

    def workloads(self):
        """Of the chart's own programs."""
        return [item for item in self.all_workloads() if item["metadata"]["labels"]["app.kubernetes.io/component"] != "nats"]

    def all_workloads(self):
        return self.all("StatefulSet", "Deployment")

    def config(self, suffix):
        (text,) = self.one("ConfigMap", suffix)["data"].values()
        return text


@functools.cache
def rendered_cases():
    return {name: Rendered(values) for name, values in cases().items()}
