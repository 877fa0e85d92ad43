"""The chart and the programs: configuration that they take, and the objects that quotactl generates."""

import tempfile
import tomllib
import unittest
from pathlib import Path

from support import NAMESPACE, Rendered, printed, program, rendered_cases


def generated(rendered, what, *arguments):
    """What quotactl generates with these values."""
    values = rendered.values
    for flag in ("count", "charge"):
        if values[flag]:
            arguments += (f"--{flag}={','.join(values[flag])}",)
    return printed("quotactl", "generate", what, *arguments)


def rules(item):
    """Rules without an order: apart per group, resource and name."""
    return {
        (group, resource, name, tuple(sorted(rule["verbs"])))
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [None])
    }


class Programs(unittest.TestCase):
    def check_config(self, name, text):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "config.toml"
            file.write_text(text)
            return program(name, "check-config", "--config", file)

    def test_they_take_their_configuration(self):
        for case, rendered in rendered_cases().items():
            with self.subTest(values=case):
                quotad = self.check_config("quotad", rendered.config("-quotad"))
                self.assertEqual(quotad.returncode, 0, quotad.stderr)
                # In a pod the network policy says who reaches the listeners, which quotad cannot know.
                lines = [line for line in quotad.stderr.splitlines() if not line.startswith("warning: ")]
                self.assertEqual(lines, [])
                values = rendered.values["bridge"]
                sees_all = values["enabled"] and not values.get("namespaces")
                self.assertIn(f'watermark = "{"bridge" if sees_all else "poll"}"', quotad.stdout)
                if values["enabled"]:
                    bridge = self.check_config("quota-bridge", rendered.config("-bridge"))
                    self.assertEqual((bridge.returncode, bridge.stderr), (0, ""))

    def test_the_api_is_served_by_the_names_of_the_service(self):
        for case, rendered in rendered_cases().items():
            hosts = tomllib.loads(rendered.config("-quotad")).get("http", {}).get("allowed_hosts", [])
            with self.subTest(values=case):
                service = rendered.one("Service", "-quotad")
                name = f"{service['metadata']['name']}.{NAMESPACE}.svc"
                self.assertEqual(name in hosts, "api" in [port["name"] for port in service["spec"]["ports"]])

    def test_further_keys_reach_them(self):
        rendered = rendered_cases()["fail-values"]
        quotad = self.check_config("quotad", rendered.config("-quotad")).stdout
        for line in ("queue = 8192", "warn_ratio = 0.8", "adopt = false", '{ "Widget.example.com" = "widgets" }'):
            self.assertIn(line, quotad)
        self.assertIn("page = 1000", self.check_config("quota-bridge", rendered.config("-bridge")).stdout)

    def test_they_refuse_what_they_do_not_know(self):
        rendered = Rendered({"quotad": {"config": {"limits": {"cue": 1}}}, "bridge": {"config": {"lists": {"page": 1}}}})
        for name, suffix, key in (("quotad", "-quotad", "limits.cue"), ("quota-bridge", "-bridge", "lists")):
            done = self.check_config(name, rendered.config(suffix))
            self.assertEqual(done.returncode, 3)
            self.assertIn(key, done.stderr)

    def test_files_in_the_configuration_are_mounted(self):
        for case, rendered in rendered_cases().items():
            for workload in rendered.workloads():
                suffix = "-quotad" if workload["kind"] == "StatefulSet" else "-bridge"
                (container,) = workload["spec"]["template"]["spec"]["containers"]
                mounts = [mount["mountPath"] + "/" for mount in container["volumeMounts"]]
                named = [part for part in rendered.config(suffix).split('"') if part.startswith("/")]
                named += [part.split("=", 1)[1] for part in container["command"] if "=" in part]
                self.assertGreater(len(named), 0)
                for path in named:
                    with self.subTest(values=case, path=path):
                        self.assertTrue(any(path.startswith(mount) for mount in mounts))

    def test_ports_in_the_configuration_are_those_of_the_containers(self):
        for case, rendered in rendered_cases().items():
            for workload in rendered.workloads():
                suffix = "-quotad" if workload["kind"] == "StatefulSet" else "-bridge"
                (container,) = workload["spec"]["template"]["spec"]["containers"]
                listening = {
                    int(line.rsplit(":", 1)[1].strip('"'))
                    for line in rendered.config(suffix).splitlines()
                    if line.startswith("listen") and "127.0.0.1" not in line
                }
                with self.subTest(values=case, workload=suffix):
                    self.assertEqual(listening, {port["containerPort"] for port in container["ports"]})

    def test_the_bridge_may_do_what_quotactl_says(self):
        for case, rendered in rendered_cases().items():
            if not rendered.values["bridge"]["enabled"]:
                continue
            with self.subTest(values=case):
                arguments = ["--name", rendered.one("Deployment")["metadata"]["name"], "--bridge-namespace", NAMESPACE]
                if rendered.values["bridge"]["namespaces"]:
                    arguments += ["--namespaces", ",".join(rendered.values["bridge"]["namespaces"])]
                if rendered.values["webhook"]["keepRules"]:
                    arguments.append("--webhook=" + rendered.one("ValidatingWebhookConfiguration")["metadata"]["name"])
                if rendered.values["groups"]["status"]["tokenSecret"]:
                    arguments.append("--status")
                wanted = generated(rendered, "bridge", *arguments)["items"]

                def shape(item):
                    metadata = item["metadata"]
                    key = (item["kind"], metadata.get("namespace"), metadata["name"])
                    if "rules" in item:
                        return key, rules(item)
                    return key, (item.get("roleRef"), item.get("subjects"))

                made = rendered.all("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount")
                made = [item for item in made if not item["metadata"]["name"].endswith(("-quotad", "-certificates"))]
                self.assertEqual(dict(map(shape, made)), dict(map(shape, wanted)))

    def test_the_bridge_keeps_the_certificate_that_quotad_serves(self):
        rendered = rendered_cases()["defaults"]
        kept = tomllib.loads(rendered.config("-bridge"))["certificates"]
        service = rendered.one("Service", "-quotad")["metadata"]["name"]
        self.assertEqual(kept["names"], [f"{service}.{NAMESPACE}.svc"])
        self.assertEqual(kept["webhook"], rendered.one("ValidatingWebhookConfiguration")["metadata"]["name"])
        secret = rendered.one("Secret")
        self.assertEqual(kept["secret"], secret["metadata"]["name"])
        self.assertNotIn("data", secret)
        volumes = rendered.one("StatefulSet", "-quotad")["spec"]["template"]["spec"]["volumes"]
        self.assertIn(kept["secret"], [volume.get("secret", {}).get("secretName") for volume in volumes])
        (mounted,) = (volume["secret"] for volume in volumes if volume["name"] == "tls")
        self.assertEqual([item["key"] for item in mounted["items"]], ["tls.crt", "tls.key"], "not the CA's key")
        # It may touch these two objects, and no others.
        granted = rules(rendered.one("Role", "-certificates")) | rules(rendered.one("ClusterRole", "-certificates"))
        self.assertEqual(
            granted,
            {
                ("", "secrets", kept["secret"], ("get", "update")),
                (
                    "admissionregistration.k8s.io",
                    "validatingwebhookconfigurations",
                    kept["webhook"],
                    ("get", "update"),
                ),
            },
        )
        for kind in ("RoleBinding", "ClusterRoleBinding"):
            binding = rendered.one(kind, "-certificates")
            account = rendered.one("Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
            self.assertEqual([subject["name"] for subject in binding["subjects"]], [account])
            self.assertEqual(binding["roleRef"]["name"], binding["metadata"]["name"])

    def test_quotad_knows_what_the_webhook_is_asked_about(self):
        for case, rendered in rendered_cases().items():
            with self.subTest(values=case):
                count = tomllib.loads(rendered.config("-quotad"))["admission"]["count"]
                kept = rendered.values["webhook"]["keepRules"]
                self.assertEqual(count, ["*"] if kept else rendered.values["count"])
                if rendered.values["bridge"]["enabled"]:
                    rules = tomllib.loads(rendered.config("-bridge")).get("webhook", {}).get("rules")
                    hooks = [item["metadata"]["name"] for item in rendered.all("ValidatingWebhookConfiguration")]
                    self.assertEqual([rules], hooks if kept else [None])
        with self.assertRaisesRegex(Exception, "keepRules"):
            Rendered({"webhook": {"keepRules": True, "certificates": {"mode": "certManager"}}, "bridge": {"enabled": False}})

    def test_the_webhook_is_the_one_that_quotactl_makes(self):
        compared = 0
        for case, rendered in rendered_cases().items():
            for made in rendered.all("ValidatingWebhookConfiguration"):
                values = rendered.values["webhook"]
                service = rendered.one("Service", "-quotad")["metadata"]["name"]
                (hook,) = made["webhooks"]
                wanted = generated(
                    rendered,
                    "webhook",
                    f"--name={made['metadata']['name']}",
                    f"--service={NAMESPACE}/{service}",
                    f"--failure-policy={values['failurePolicy']}",
                    f"--exempt={','.join(hook['namespaceSelector']['matchExpressions'][0]['values'])}",
                )
                hook["clientConfig"].pop("caBundle", None)
                (expected,) = wanted["webhooks"]
                if values["keepRules"]:
                    # The bridge writes them: an upgrade must not take them away.
                    expected.pop("rules")
                with self.subTest(values=case):
                    self.assertEqual(hook, expected)
                compared += 1
        self.assertGreater(compared, 2)
