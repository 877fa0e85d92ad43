"""The chart's values: all that there are, and no others."""

import copy
import json
import tomllib
import unittest

import helm_python

import support
from support import CHART, Rendered

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = support.values_of(CHART / "values.yaml")


def mappings(schema, values, path=()):
    """The paths of all mappings whose keys the schema knows."""
    if "properties" not in schema:
        return
    yield path, schema, values
    for key, inner in schema["properties"].items():
        if inner.get("type") == "object":
            yield from mappings(inner, values.get(key, {}), path + (key,))


def with_value(path, value):
    """Values with this one at the path."""
    for key in reversed(path):
        value = {key: value}
    return value


class Values(unittest.TestCase):
    def refused(self, values, *words):
        with self.assertRaises(helm_python.HelmError) as caught:
            Rendered(values)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_the_schema_knows_the_defaults_and_nothing_else(self):
        for path, schema, values in mappings(SCHEMA, DEFAULTS):
            # The parts of Kubernetes' own types, and `global`, which is Helm's, need no default.
            if path[-1:] not in [("resources",), ("issuerRef",), ("monitoring",)]:
                self.assertEqual(set(schema["properties"]) - {"global"}, set(values), path)
            self.assertLessEqual(set(values), set(schema["properties"]), path)

    def test_unknown_values_are_refused_everywhere(self):
        paths = [path for path, _, _ in mappings(SCHEMA, DEFAULTS) if path != ("global",)]
        self.assertIn(("webhook", "certificates", "certManager"), paths)
        for path in paths:
            with self.subTest(path=path):
                self.refused(with_value(path + ("unknownKey",), "x"), "unknownKey")

    def test_values_of_a_wrong_type_are_refused(self):
        for path, schema, values in mappings(SCHEMA, DEFAULTS):
            for key, inner in schema["properties"].items():
                if inner.get("type") == "object":
                    continue
                wrong = "x" if inner.get("type") in ("integer", "boolean", "array") else 7.5
                with self.subTest(path=path + (key,)):
                    self.refused(with_value(path + (key,), wrong), key)

    def test_what_cannot_work_is_refused(self):
        for values, word in [
            ({"webhook": {"failurePolicy": "Sometimes"}}, "failurePolicy"),
            ({"webhook": {"timeoutSeconds": 31}}, "timeoutSeconds"),
            ({"webhook": {"exempt": ["Not_A_Name"]}}, "exempt"),
            ({"cluster": "two words"}, "cluster"),
            ({"image": {"digest": "sha256:12"}}, "digest"),
            ({"webhook": {"certificates": {"mode": "none"}}}, "mode"),
            ({"bridge": {"enabled": False}}, "internal certificates"),
            ({"webhook": {"enabled": False}}, "internal certificates"),
            ({"webhook": {"certificates": {"mode": "existing", "existing": {"caBundle": "x"}}}}, "existing.secret"),
            ({"webhook": {"certificates": {"mode": "existing", "existing": {"secret": "s"}}}}, "existing.caBundle"),
            ({"quotad": {"hostNetwork": True}}, "tokensSecret"),
            ({"webhook": {"client": {"caSecret": "s"}}}, "allowedNames"),
            ({"fullnameOverride": "x" * 46}, "fullnameOverride"),
            ({"groups": {"status": {"tokenSecret": "t"}}}, "quotad.tokensSecret"),
            ({"groups": {"status": {"tokenSecret": "t"}}, "quotad": {"tokensSecret": "t"}, "bridge": {"namespaces": ["a"]}}, "all namespaces"),
        ]:
            with self.subTest(values=values):
                self.refused(values, word)

    def test_fail_needs_exempt_namespaces(self):
        self.refused({"webhook": {"failurePolicy": "Fail"}}, "webhook.exempt", "iKnow")
        for more in ({"exempt": ["cni-system"]}, {"iKnow": True}):
            hook = Rendered({"webhook": {"failurePolicy": "Fail"} | more}).one("ValidatingWebhookConfiguration")
            self.assertEqual(hook["webhooks"][0]["failurePolicy"], "Fail")

    def test_watermarks_are_required_only_of_a_bridge_that_sees_all_namespaces(self):
        # quotad would never be ready: a kind that was listed in some namespaces is not complete.
        for bridge, expected in [({}, "bridge"), ({"namespaces": ["team-a"]}, "poll")]:
            config = tomllib.loads(Rendered({"bridge": bridge}).config("-quotad"))
            self.assertEqual(config["nats"]["watermark"], expected, bridge)

    def test_keys_that_the_chart_sets_cannot_be_set_beside_it(self):
        self.refused({"quotad": {"config": {"nats": {"url": "nats://other"}}}}, "quotad.config.nats.url")
        self.refused({"quotad": {"config": {"data_dir": "/tmp"}}}, "quotad.config.data_dir")
        self.refused({"bridge": {"config": {"lease": {"name": "other"}}}}, "bridge.config.lease.name")

    def test_the_chart_can_be_linted(self):
        for name, values in support.cases().items():
            with self.subTest(values=name):
                report = helm_python.lint(CHART, copy.deepcopy(values), strict=True, kube_version="v1.36.0")
                self.assertEqual(report["errors"], [])
                errors = {message["error"] for message in report["messages"] if message["severity"] > 0}
                self.assertLessEqual(errors, {"icon is recommended"})
