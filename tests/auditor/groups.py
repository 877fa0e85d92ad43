"""Sums up groups by "What counts" of docs/storage-format.md."""

from fractions import Fraction

NAME = "kubernetes.io/metadata.name"
ZERO = Fraction(0)


def holds(requirement, labels):
    """Whether labels meet a requirement."""
    value, values = labels.get(requirement["key"]), requirement["values"]
    return {
        "In": value in values, "NotIn": value not in values,
        "Exists": value is not None, "DoesNotExist": value is None,
    }.get(requirement["operator"], False)


def meets(selector, labels):
    """Whether labels meet a label selector."""
    return all(labels.get(key) == value for key, value in selector["match_labels"].items()) and all(
        holds(requirement, labels) for requirement in selector["match_expressions"])


def asks(selector):
    """The keys that a label selector asks about."""
    return {*selector["match_labels"], *(requirement["key"] for requirement in selector["match_expressions"])}


class Groups:
    """The groups of a ledger, and what they count of it."""

    def __init__(self, groups, observed_namespaces, counts):
        """`counts` is whether a spec counts a footprint."""
        self.groups, self.observed_namespaces, self.counts_spec = groups, observed_namespaces, counts

    def children(self, name):
        return [child for child, group in self.groups.items()
                if group["spec"]["extensions"]["parent"] == name and child != name]

    def selects(self, name, namespace):
        """Whether a group's own selector is for a namespace."""
        selector = self.groups[name]["spec"]["selector"]
        wanted = selector["labels"] or {"match_labels": {}, "match_expressions": []}
        keys, record = asks(wanted), self.observed_namespaces.get(namespace)
        if not keys and not selector["annotations"]:
            return False
        if record is None:
            # Nothing but the name is certain.
            return keys == {NAME} and not selector["annotations"] and meets(wanted, {NAME: namespace})
        annotations = record["annotations"]
        return meets(wanted, {**record["labels"], NAME: namespace}) and all(
            annotations.get(key) == value for key, value in selector["annotations"].items())

    def counts(self, name, namespace, footprint):
        """Whether a group counts a footprint of a namespace: by itself, or because one below it does."""
        spec = self.groups[name]["spec"]
        objects = spec["extensions"]["objects"]
        own = (self.selects(name, namespace) and self.counts_spec(spec["quota"], footprint)
               and (objects is None or meets(objects, footprint["labels"])))
        return own or any(self.counts(child, namespace, footprint) for child in self.children(name))

    def set_aside(self, name, guaranteed, resource, held):
        """What is guaranteed to the groups below one, and not used or reserved by them. `held` is what one uses and
        has reserved."""
        aside = ZERO
        for child in self.children(name):
            own = held(child)
            claimed = own + self.set_aside(child, guaranteed, resource, held)
            aside += max(guaranteed[child].get(resource, ZERO), claimed) - own
        return aside
