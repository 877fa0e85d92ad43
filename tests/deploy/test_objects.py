"""The rendered objects: Kubernetes can read them, and they fit each other."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import kubernetes_validate
import yaml

import support
from support import NAMESPACE, Rendered, rendered_cases

# The oldest and the newest version of Kubernetes that the chart is for.
VERSIONS = ("1.28", "1.37")
# Of other projects; checked below by hand.
WITHOUT_SCHEMA = {"Issuer", "Certificate", "ServiceMonitor", "PodMonitor"}


class Objects(unittest.TestCase):
    def each(self):
        for name, rendered in rendered_cases().items():
            with self.subTest(values=name):
                yield rendered

    def test_kubernetes_knows_every_field(self):
        checked = 0
        for rendered in self.each():
            for item in rendered.objects:
                if item["kind"] in WITHOUT_SCHEMA:
                    continue
                for version in VERSIONS:
                    kubernetes_validate.validate(item, version, strict=True)
                checked += 1
        self.assertGreater(checked, 40)

    def test_a_field_that_kubernetes_does_not_know_is_found(self):
        item = Rendered().one("Deployment")
        item["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Always"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(item, VERSIONS[0], strict=True)

    def test_rendering_is_the_same_each_time(self):
        # A CA that a template makes would be another one each time.
        self.assertEqual(support.texts(), support.texts())
        for path in (support.CHART / "templates").rglob("*.*"):
            for function in ("lookup", "genCA", "genSelfSigned", "genSignedCert", "rand", "uuidv4", "now"):
                self.assertNotRegex(path.read_text(), r"\b%s\b *[\"($]" % function)

    def test_names_are_unique_and_in_the_namespace_of_the_release(self):
        cluster_wide = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "ValidatingWebhookConfiguration"}
        for rendered in self.each():
            watched = set(rendered.values["bridge"]["namespaces"])
            seen = set()
            for item in rendered.objects:
                metadata = item["metadata"]
                key = (item["kind"], metadata.get("namespace"), metadata["name"])
                self.assertNotIn(key, seen)
                seen.add(key)
                if item["kind"] in cluster_wide:
                    self.assertNotIn("namespace", metadata)
                elif item["kind"] in {"Role", "RoleBinding"}:
                    self.assertIn(metadata["namespace"], watched | {NAMESPACE})
                else:
                    self.assertEqual(metadata["namespace"], NAMESPACE)
                self.assertEqual(metadata["labels"]["app.kubernetes.io/part-of"], "quota-ledger")

    def test_labels_of_stateful_sets_are_short_enough_and_upgrades_replace_pods_that_are_not_ready(self):
        for names in ({}, {"nameOverride": "x" * 50}, {"fullnameOverride": "x" * 45}):
            rendered = Rendered({"nats": {"embedded": {"enabled": True}}} | names)
            for made in rendered.all("StatefulSet"):
                with self.subTest(name=made["metadata"]["name"]):
                    # A pod's label controller-revision-hash: the name, and a hash of ten characters.
                    self.assertLessEqual(len(made["metadata"]["name"]) + 11, 63)
                    self.assertEqual(made["spec"]["podManagementPolicy"], "Parallel")

    def test_pods_may_call_what_is_configured(self):
        rule = {"ports": [{"port": 4318}]}
        rendered = Rendered({"networkPolicy": {"quotadEgress": [rule]}, "nats": {"ports": [4333], "embedded": {"enabled": True}}})
        egress = rendered.one("NetworkPolicy", "-quotad")["spec"]["egress"]
        self.assertIn(rule, egress)
        self.assertIn({"ports": [{"port": 4333}, {"port": 4222}]}, egress)
        usual = Rendered({"nats": {"embedded": {"enabled": True}}}).one("NetworkPolicy", "-quotad")["spec"]["egress"]
        self.assertIn({"ports": [{"port": 4222}]}, usual)

    def test_selectors_find_their_pods_and_no_others(self):
        for rendered in self.each():
            pods = {item["metadata"]["name"]: item["spec"]["template"]["metadata"]["labels"] for item in rendered.all_workloads()}
            selecting = [
                (item["metadata"]["name"], labels)
                for item in rendered.objects
                for labels in [self.selector(item)]
                if labels is not None
            ]
            self.assertGreaterEqual(len(selecting), 2)
            for name, wanted in selecting:
                found = [pod for pod, labels in pods.items() if wanted.items() <= labels.items()]
                self.assertEqual(found, [name])

    @staticmethod
    def selector(item):
        spec = item.get("spec", {})
        match item["kind"]:
            case "Service":
                return spec["selector"]
            case "NetworkPolicy":
                return spec["podSelector"]["matchLabels"]
            case "StatefulSet" | "Deployment" | "PodDisruptionBudget" | "PodMonitor":
                return spec["selector"]["matchLabels"]
        return None

    def test_pods_fit_the_restricted_standard(self):
        for rendered in self.each():
            for workload in rendered.all_workloads():
                pod = workload["spec"]["template"]["spec"]
                security = pod["securityContext"]
                self.assertTrue(security["runAsNonRoot"])
                self.assertEqual(security["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertEqual(pod.get("hostNetwork", False), rendered.values["quotad"]["hostNetwork"] and "quotad" in workload["metadata"]["name"])
                kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
                self.assertLessEqual(kinds, {"configMap", "secret"})
                for container in pod["containers"]:
                    security = container["securityContext"]
                    self.assertFalse(security["allowPrivilegeEscalation"])
                    self.assertTrue(security["readOnlyRootFilesystem"])
                    self.assertEqual(security["capabilities"], {"drop": ["ALL"]})

    def test_what_pods_refer_to_is_there(self):
        for rendered in self.each():
            secrets = self.secrets(rendered)
            accounts = {item["metadata"]["name"] for item in rendered.all("ServiceAccount")}
            configs = {item["metadata"]["name"] for item in rendered.all("ConfigMap")}
            for workload in rendered.all_workloads():
                pod = workload["spec"]["template"]["spec"]
                self.assertIn(pod["serviceAccountName"], accounts)
                volumes = {volume["name"] for volume in pod["volumes"]}
                volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
                (container,) = pod["containers"]
                self.assertEqual(volumes, {mount["name"] for mount in container["volumeMounts"]})
                for volume in pod["volumes"]:
                    if "secret" in volume:
                        self.assertIn(volume["secret"]["secretName"], secrets)
                    if "configMap" in volume:
                        self.assertIn(volume["configMap"]["name"], configs)
                ports = {port["name"] for port in container["ports"]}
                for probe in ("livenessProbe", "readinessProbe"):
                    self.assertIn(container[probe]["httpGet"]["port"], ports)

    @staticmethod
    def secrets(rendered):
        """Secrets that are made, also by cert-manager, or that the values name."""
        values = rendered.values
        made = {item["spec"]["secretName"] for item in rendered.all("Certificate")}
        made |= {item["metadata"]["name"] for item in rendered.all("Secret")}
        return made | {
            values["webhook"]["certificates"]["existing"]["secret"],
            values["webhook"]["client"]["caSecret"],
            values["quotad"]["tokensSecret"],
            values["groups"]["status"]["tokenSecret"],
            values["nats"]["credentialsSecret"],
            values["nats"]["caSecret"],
        } - {""}

    def test_quotad_may_do_nothing_in_the_cluster(self):
        for rendered in self.each():
            pod = rendered.one("StatefulSet", "-quotad")["spec"]["template"]["spec"]
            self.assertIs(pod["automountServiceAccountToken"], False)
            bound = [
                subject["name"]
                for item in rendered.all("RoleBinding", "ClusterRoleBinding")
                for subject in item["subjects"]
            ]
            self.assertNotIn(pod["serviceAccountName"], bound)

    def test_the_service_leads_to_the_container(self):
        for rendered in self.each():
            service = rendered.one("Service", "-quotad")
            stateful = rendered.one("StatefulSet", "-quotad")
            self.assertEqual(stateful["spec"]["serviceName"], service["metadata"]["name"])
            (container,) = stateful["spec"]["template"]["spec"]["containers"]
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            for port in service["spec"]["ports"]:
                self.assertIn(port["targetPort"], ports)
            allowed = [
                port["port"]
                for policy in rendered.all("NetworkPolicy")
                if policy["metadata"]["name"] == service["metadata"]["name"]
                for rule in policy["spec"]["ingress"]
                for port in rule["ports"]
            ]
            if rendered.values["networkPolicy"]["enabled"]:
                self.assertEqual(sorted(allowed), sorted(ports.values()))

    def test_the_certificate_is_for_the_service(self):
        for rendered in self.each():
            if not rendered.all("Certificate"):
                continue
            service = rendered.one("Service", "-quotad")["metadata"]["name"]
            serving = rendered.one("Certificate", "-quotad")["spec"]
            self.assertIn(f"{service}.{NAMESPACE}.svc", serving["dnsNames"])
            issuers = {(item["kind"], item["metadata"]["name"]) for item in rendered.all("Issuer")}
            for item in rendered.all("Certificate"):
                issuer = item["spec"]["issuerRef"]
                if issuer["kind"] == "Issuer":
                    self.assertIn(("Issuer", issuer["name"]), issuers)
            for hook in rendered.all("ValidatingWebhookConfiguration"):
                self.assertEqual(
                    hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
                    f"{NAMESPACE}/{rendered.one('Certificate', '-quotad')['metadata']['name']}",
                )

    def test_the_priority_is_allowed_for_all_pods(self):
        rendered = Rendered({"bridge": {"replicas": 3}, "nats": {"embedded": {"enabled": True}}})
        quota = rendered.one("ResourceQuota")["spec"]
        self.assertEqual(quota["scopeSelector"]["matchExpressions"][0]["values"], ["system-cluster-critical"])
        pods = sum(item["spec"]["replicas"] for item in rendered.all_workloads())
        self.assertGreaterEqual(int(quota["hard"]["pods"]), pods + 1)
        for priority in ("", "own-class"):
            self.assertEqual(Rendered({"priorityClassName": priority}).all("ResourceQuota"), [])

    def test_a_changed_configuration_starts_the_pods_anew(self):
        def checksum(values):
            annotations = Rendered(values).one("StatefulSet", "-quotad")["spec"]["template"]["metadata"]["annotations"]
            return annotations["checksum/config"]

        self.assertEqual(checksum({}), checksum({"webhook": {"timeoutSeconds": 5}}))
        self.assertNotEqual(checksum({}), checksum({"quotad": {"config": {"log": {"level": "debug"}}}}))

    def test_monitors_name_ports_that_are_there(self):
        rendered = Rendered({"serviceMonitor": {"enabled": True}})
        ports = {port["name"] for port in rendered.one("Service", "-quotad")["spec"]["ports"]}
        self.assertIn(rendered.one("ServiceMonitor")["spec"]["endpoints"][0]["port"], ports)
        (container,) = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        self.assertIn(rendered.one("PodMonitor")["spec"]["podMetricsEndpoints"][0]["port"], ports)

    def test_alerts_link_to_the_runbooks_that_a_value_names(self):
        rules = Rendered({"prometheusRule": {"enabled": True, "runbooks": "https://docs.corp/alerts", "labels": {"release": "p"}}})
        (rule,) = rules.all("PrometheusRule")
        self.assertEqual(rule["metadata"]["labels"]["release"], "p")
        shipped = yaml.safe_load((support.DEPLOY / "monitoring/alerts.yaml").read_text())

        def alerts(spec):
            return [rule for group in spec["groups"] for rule in group["rules"]]
        self.assertEqual([rule["expr"] for rule in alerts(rule["spec"])], [rule["expr"] for rule in alerts(shipped)])
        for rule in alerts(rule["spec"]):
            self.assertEqual(rule["annotations"]["runbook_url"], f"https://docs.corp/alerts#{rule['alert'].lower()}")


    def test_the_embedded_nats_is_what_the_programs_call(self):
        rendered = rendered_cases()["evaluation-values"]
        service = rendered.one("Service", "-nats")
        stateful = rendered.one("StatefulSet", "-nats")
        url = f'nats://{service["metadata"]["name"]}.{NAMESPACE}.svc:4222'
        for suffix in ("-quotad", "-bridge"):
            self.assertIn(f'url = "{url}"', rendered.config(suffix))
        self.assertEqual(stateful["spec"]["serviceName"], service["metadata"]["name"])
        (container,) = stateful["spec"]["template"]["spec"]["containers"]
        self.assertEqual(container["image"], rendered.values["nats"]["embedded"]["image"])
        (policy,) = [item for item in rendered.all("NetworkPolicy") if item["metadata"]["name"].endswith("-nats")]
        (caller,) = policy["spec"]["ingress"][0]["from"]
        for workload in rendered.workloads():
            labels = workload["spec"]["template"]["metadata"]["labels"]
            for expression in caller["podSelector"]["matchExpressions"]:
                self.assertIn(labels[expression["key"]], expression["values"])
        with self.assertRaisesRegex(Exception, "nats.embedded"):
            Rendered({"nats": {"embedded": {"enabled": True}, "caSecret": "ca"}})

    def test_nats_takes_its_configuration(self):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "nats.conf"
            text = rendered_cases()["evaluation-values"].config("-nats")
            # Debian's is older than the key.
            file.write_text(text.replace("sync_interval: always", ""))
            done = subprocess.run(["nats-server", "-t", "-c", file], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_helm_test_asks_the_service_and_is_let_in(self):
        for rendered in self.each():
            (pod,) = rendered.tests
            kubernetes_validate.validate(pod, VERSIONS[0], strict=True)
            service = rendered.one("Service", "-quotad")
            (port,) = [port["port"] for port in service["spec"]["ports"] if port["name"] == "metrics"]
            host = f'{service["metadata"]["name"]}.{NAMESPACE}.svc:{port}'
            self.assertIn(f"http://{host}/readyz?verbose", pod["spec"]["containers"][0]["command"])
            for policy in rendered.all("NetworkPolicy"):
                if policy["metadata"]["name"].endswith("-quotad"):
                    callers = [caller.get("podSelector", {}).get("matchLabels", {}) for rule in policy["spec"]["ingress"] for caller in rule.get("from", []) if rule["ports"] == [{"port": port}]]
                    self.assertTrue(any(labels and labels.items() <= pod["metadata"]["labels"].items() for labels in callers))


class Manifests(unittest.TestCase):
    DIRECTORY = support.DEPLOY / "manifests"

    def test_they_are_the_rendered_chart(self):
        parts = [text.strip() for name, text in sorted(support.texts().items()) if name != "NOTES.txt" and not name.startswith("tests/")]
        text = "# The chart with its default values. Written by `make manifests`.\n"
        text += "".join(f"---\n{part}\n" for part in parts if part)
        file = self.DIRECTORY / "quota-ledger.yaml"
        if support.os.environ.get("UPDATE_MANIFESTS"):
            file.write_text(text)
        self.assertEqual(file.read_text(), text, "make manifests")

    def test_kustomize_takes_them(self):
        done = subprocess.run(["kubectl", "kustomize", self.DIRECTORY], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        objects = list(yaml.safe_load_all(done.stdout))
        self.assertEqual(len(objects), len(Rendered().objects) + 1)
        images = {
            container["image"]
            for item in objects
            if item["kind"] in {"StatefulSet", "Deployment"}
            for container in item["spec"]["template"]["spec"]["containers"]
        }
        self.assertEqual(images, {"quota-ledger:0.1.0"})

    def test_kustomize_names_them_all(self):
        customization = yaml.safe_load((self.DIRECTORY / "kustomization.yaml").read_text())
        files = {path.name for path in self.DIRECTORY.glob("*.yaml")} - {"kustomization.yaml"}
        self.assertEqual(set(customization["resources"]), files)
        self.assertEqual(customization["images"][0]["name"], Rendered().values["image"]["repository"])
        namespace = yaml.safe_load((self.DIRECTORY / "namespace.yaml").read_text())
        kubernetes_validate.validate(namespace, VERSIONS[0], strict=True)
        self.assertEqual(namespace["metadata"]["name"], NAMESPACE)
