"""The match conditions of the webhook, evaluated by Google's implementation of CEL: what the API server asks about."""

import unittest

from cel_expr_python import cel
from support import rendered_cases

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/kept"]}


def holds(expression, review):
    # In an API server, too, the types of these variables are not known when it compiles an expression.
    environment = cel.NewEnv(variables=dict.fromkeys(("request", "object", "oldObject"), cel.Type.DYN))
    result = environment.compile(expression).eval(data=review)
    assert result.type() == cel.Type.BOOL, (expression, result.value())
    return result.value()


def update(resource, old, new, sub_resource=None, groups=("system:authenticated",)):
    request = {"operation": "UPDATE", "resource": {"resource": resource}, "userInfo": {"groups": list(groups)}}
    if sub_resource:
        request["subResource"] = sub_resource
    return {"request": request, "object": new, "oldObject": old}


def creation(resource, new, **options):
    review = update(resource, None, new, **options)
    review["request"]["operation"] = "CREATE"
    return review


def item(spec=None, **metadata):
    return {"metadata": metadata} | ({} if spec is None else {"spec": spec})


def claim(storage, **metadata):
    return item({"resources": {"requests": {"storage": storage}}}, **metadata)


class Conditions(unittest.TestCase):
    def check(self, review, expected):
        hooks = {}
        for rendered in rendered_cases().values():
            for made in rendered.all("ValidatingWebhookConfiguration"):
                for hook in made["webhooks"]:
                    conditions = tuple(condition["expression"] for condition in hook["matchConditions"])
                    hooks[conditions] = all(holds(expression, review) for expression in conditions)
        self.assertEqual(set(hooks.values()), {expected}, review)

    def test_growth_is_asked_about_although_the_object_is_being_deleted(self):
        self.check(update("persistentvolumeclaims", claim("1Gi", **DELETED), claim("10Ti", **DELETED)), True)
        for resource, old, new in (
            ("services", {"type": "ClusterIP"}, {"type": "LoadBalancer", "ports": [{"port": 80}]}),
            ("deployments", {"replicas": 1, "template": {}}, {"replicas": 900, "template": {}}),
            ("deployments", None, {"replicas": 900}),
        ):
            self.check(update(resource, item(old, **DELETED), item(new, **DELETED)), True)
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        larger = {"name": "c", "resources": {"requests": {"cpu": "9"}}}
        pods = [item({"containers": [it]}, **DELETED) for it in (container, larger)]
        self.check(update("pods", *pods, sub_resource="resize"), True)

    def test_an_end_is_not_asked_about(self):
        ended = DELETED | {"finalizers": [], "labels": {"a": "b"}, "resourceVersion": "2"}
        for resource, spec in (
            ("persistentvolumeclaims", {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"}),
            ("services", {"type": "ClusterIP", "ports": [{"port": 80, "targetPort": 80}]}),
            ("pods", {"containers": [{"name": "c", "args": ["a", "b"]}], "priority": 0}),
            ("configmaps", None),
        ):
            self.check(update(resource, item(spec, **DELETED), item(spec, **ended)), False)
        self.check(update("configmaps", item({}, **DELETED), item(None, **DELETED)), False)

    def test_other_changes_are_asked_about(self):
        self.check(update("persistentvolumeclaims", claim("1Gi"), claim("2Gi")), True)
        self.check(update("persistentvolumeclaims", claim("1Gi"), claim("1Gi", labels={"a": "b"})), True)
        self.check(creation("pods", item({"containers": []})), True)
        self.check(creation("configmaps", item()), True)

    def test_nodes_and_mere_labels_of_pods_are_not_asked_about(self):
        nodes = ("system:nodes", "system:authenticated")
        self.check(creation("pods", item({"containers": []}), groups=nodes), False)
        pod = {"containers": [{"name": "c"}]}
        self.check(update("pods", item(pod), item(pod, labels={"a": "b"})), False)
        self.check(update("pods", item(pod), item(pod | {"activeDeadlineSeconds": 5})), True)


if __name__ == "__main__":
    unittest.main()
