"""The list of what the programs are made of."""

import json
import subprocess
import tomllib
import unittest

from support import DEPLOY, REPOSITORY


def sbom():
    return subprocess.run([DEPLOY / "sbom"], capture_output=True, text=True, check=True).stdout


class Sbom(unittest.TestCase):
    def test_it_names_what_is_linked_and_nothing_that_only_tests(self):
        text = sbom()
        self.assertEqual(text, sbom())
        document = json.loads(text)
        components = {item["bom-ref"]: item for item in document["components"]}
        self.assertEqual(len(components), len(document["components"]))
        names = {item["name"] for item in components.values()}
        self.assertLessEqual({"quotad", "quotactl", "quota-bridge", "rustls", "sled", "async-nats"}, names)
        self.assertFalse({"proptest", "criterion", "cc"} & names)
        locked = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
        checksums = {(package["name"], package["version"]): package.get("checksum") for package in locked}
        for item in components.values():
            self.assertTrue(item["licenses"][0]["expression"], item["name"])
            self.assertEqual(item["purl"], f"pkg:cargo/{item['name']}@{item['version']}")
            own = checksums[item["name"], item["version"]]
            self.assertEqual([one["content"] for one in item.get("hashes", [])], [own] if own else [])
        for dependency in document["dependencies"]:
            self.assertIn(dependency["ref"], components)
            self.assertLessEqual(set(dependency["dependsOn"]), set(components))

    def test_the_first_build_of_quotad_is_of_few_packages(self):
        """Of what somebody waits for who tries it: without the features that packages and images have."""
        command = ["cargo", "tree", "--package=quotad", "--edges=normal", "--prefix=none", "--no-dedupe", "--locked"]
        tree = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
        packages = {tuple(line.split()[:2]) for line in tree.splitlines()}
        self.assertIn("quotad", {name for name, _ in packages})
        self.assertLessEqual(len(packages), 250)
        self.assertFalse({"opentelemetry", "nkeys"} & {name for name, _ in packages})
