"""The workflows in .github: what they run is here, and what they take from elsewhere is of one version."""

import re
import shlex
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

import yaml

from support import CHART, REPOSITORY

WORKFLOWS = REPOSITORY / ".github/workflows"
# Programs of the machine that a workflow may run, besides what is in the repository.
TOOLS = {"gh", "rustup"}


def workflows():
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted(WORKFLOWS.glob("*.yml"))}


def triggers(workflow):
    # YAML 1.1 takes the key `on` for a truth.
    return workflow[True]


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def commands(workflow):
    lines = [line for step in steps(workflow) for line in step.get("run", "").splitlines()]
    return [shlex.split(line) for line in lines if line.strip()]


def targets():
    """The targets of the Makefile, and those that each needs."""
    rules = re.findall(r"^([a-z][a-z-]*):(?!=)(.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    return {target: needs.split() for target, needs in rules}


class Workflows(unittest.TestCase):
    def test_what_they_run_is_there(self):
        for name, workflow in workflows().items():
            self.assertTrue(commands(workflow), name)
            for first, *arguments in commands(workflow):
                with self.subTest(workflow=name, command=first, arguments=arguments):
                    if first == "make":
                        self.assertTrue(arguments)
                        self.assertLessEqual(set(arguments), set(targets()))
                    elif first not in TOOLS:
                        path = REPOSITORY / first
                        self.assertTrue(path.is_file() and path.stat().st_mode & 0o100)

    def test_what_they_take_from_elsewhere_is_of_one_version(self):
        for name, workflow in workflows().items():
            for step in steps(workflow):
                self.assertEqual(len({"uses", "run"} & set(step)), 1, (name, step))
                if "uses" in step:
                    self.assertRegex(step["uses"], r"^[a-z][a-z0-9/-]*@v\d+\.\d+\.\d+$")
            for job in workflow["jobs"].values():
                self.assertIn("timeout-minutes", job)
                self.assertRegex(job.get("container", "none:1.0.0"), r":\d+\.\d+\.\d+(-[a-z]+)?$")

    def test_they_may_write_only_where_they_publish(self):
        for name, workflow in workflows().items():
            self.assertEqual(workflow["permissions"], {"contents": "read"}, name)
            for job in workflow["jobs"].values():
                publishes = any("gh release" in step.get("run", "") for step in job["steps"])
                self.assertEqual("permissions" in job, publishes, name)

    def test_each_change_is_verified(self):
        ci = workflows()["ci"]
        self.assertLessEqual({"push", "pull_request"}, set(triggers(ci)))
        self.assertIn([".ci/run"], commands(ci))

    def test_a_release_has_all_that_is_shipped(self):
        release = workflows()["release"]
        self.assertEqual(triggers(release), {"push": {"tags": ["v*"]}})
        self.assertIn(["make", "release"], commands(release))
        self.assertLessEqual({"packages", "image", "sbom", "chart"}, set(targets()["release"]))
        (upload,) = [step for step in steps(release) if "upload-artifact" in step.get("uses", "")]
        makefile = (REPOSITORY / "Makefile").read_text()
        self.assertIn(f"RELEASE := {upload['with']['path']}\n", makefile)
        self.assertIn("sha256sum * >SHA256SUMS", makefile)


class Chart(unittest.TestCase):
    def test_its_archive_holds_its_files_and_is_always_the_same(self):
        def archive():
            subprocess.run(["make", "--silent", "-C", REPOSITORY, "chart"], check=True)
            (path,) = (REPOSITORY / "target/chart").iterdir()
            return path.read_bytes()

        first = archive()
        self.assertEqual(first, archive())
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "chart.tgz"
            path.write_bytes(first)
            with tarfile.open(path) as tar:
                held = {item.name.removeprefix("quota-ledger/") for item in tar if item.isfile()}
        files = {str(path.relative_to(CHART)) for path in CHART.rglob("*") if path.is_file()}
        # As .helmignore says.
        self.assertEqual(held, {name for name in files if not name.startswith("ci/")})
