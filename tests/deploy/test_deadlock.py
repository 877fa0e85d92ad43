"""A cluster whose quotad is down must be able to start quotad, and what that needs."""

import unittest

from support import NAMESPACE, Rendered, rendered_cases

OF_THE_CLUSTER = ("kube-system", "kube-node-lease", "kube-public")


def matches(selector, labels):
    """Whether a label selector matches, as Kubernetes evaluates it."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for expression in selector.get("matchExpressions", []):
        key, values = expression["key"], expression.get("values", [])
        holds = {
            "In": key in labels and labels[key] in values,
            # A label that is not there is not in the list either.
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[expression["operator"]]
        if not holds:
            return False
    return True


def asked_about(hook, namespace, labels=None):
    """Whether the API server asks about creating a pod there; it sets the label with the name itself."""
    labels = (labels or {}) | {"kubernetes.io/metadata.name": namespace}
    return matches(hook["namespaceSelector"], labels)


class Deadlock(unittest.TestCase):
    def hooks(self):
        for case, rendered in rendered_cases().items():
            for item in rendered.all("ValidatingWebhookConfiguration"):
                for hook in item["webhooks"]:
                    with self.subTest(values=case):
                        yield rendered, hook

    def test_the_selector_is_evaluated_as_kubernetes_does(self):
        self.assertTrue(matches({}, {}))
        self.assertTrue(matches({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {}))
        self.assertFalse(matches({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, {}))
        self.assertFalse(matches({"matchLabels": {"a": "b"}}, {"a": "c"}))

    def test_where_the_chart_puts_objects_is_exempt(self):
        for rendered, hook in self.hooks():
            # Of the namespaces that the bridge is confined to only roles are made, and their pods are what is limited.
            namespaces = {
                item["metadata"]["namespace"]
                for item in rendered.objects
                if "namespace" in item["metadata"] and item["kind"] not in {"Role", "RoleBinding"}
            }
            self.assertEqual(namespaces, {NAMESPACE})
            for namespace in namespaces:
                self.assertFalse(asked_about(hook, namespace), namespace)

    def test_what_the_cluster_and_quotad_need_is_exempt(self):
        for rendered, hook in self.hooks():
            needed = [*OF_THE_CLUSTER, *rendered.values["webhook"]["exempt"]]
            if rendered.values["nats"]["namespace"] and not rendered.values["nats"]["embedded"]["enabled"]:
                needed.append(rendered.values["nats"]["namespace"])
            if rendered.all("Certificate"):
                needed.append(rendered.values["webhook"]["certificates"]["certManager"]["namespace"])
            for namespace in needed:
                self.assertFalse(asked_about(hook, namespace), namespace)

    def test_tenants_are_asked_about_whatever_labels_they_set(self):
        for rendered, hook in self.hooks():
            labels = {"kubernetes.io/metadata.name": "kube-system", "name": "kube-system", "control-plane": "true"}
            self.assertTrue(asked_about(hook, "team-a"))
            self.assertTrue(asked_about(hook, "team-a", labels))
            self.assertNotIn("objectSelector", hook)

    def test_the_webhook_is_not_asked_about_its_own_removal(self):
        for rendered, hook in self.hooks():
            rules = hook.get("rules", [])
            groups = {group for rule in rules for group in rule["apiGroups"]}
            self.assertNotIn("*", groups)
            self.assertNotIn("admissionregistration.k8s.io", groups)
            self.assertNotIn("coordination.k8s.io", groups)
            self.assertNotIn("DELETE", {operation for rule in rules for operation in rule["operations"]})

    def test_it_is_an_ordinary_template(self):
        # A hook of Helm would stay after the chart was removed.
        for rendered in rendered_cases().values():
            for item in rendered.objects:
                self.assertNotIn("helm.sh/hook", item["metadata"].get("annotations", {}))

    def test_the_notes_say_how_to_get_out(self):
        for rendered, _ in self.hooks():
            name = rendered.one("ValidatingWebhookConfiguration")["metadata"]["name"]
            self.assertIn(f"kubectl delete validatingwebhookconfiguration {name}\n", rendered.notes)
        self.assertNotIn("kubectl delete", rendered_cases()["alone-values"].notes)

    def test_the_notes_say_what_is_open(self):
        notes = Rendered().notes
        self.assertIn("whoever reaches port 8443", notes)
        self.assertIn("ResourceQuotas of the cluster are adopted", notes)
        closed = rendered_cases()["fail-values"].notes
        self.assertNotIn("whoever reaches port 8443", closed)
        self.assertNotIn("adopted", closed)
