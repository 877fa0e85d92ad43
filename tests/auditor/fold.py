"""Folds entries by "What entries do" of docs/storage-format.md, and sums up by "What counts"."""

import re
from fractions import Fraction

from groups import Groups
from layout import Wrong

LABEL = re.compile(r"(|[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]{0,61}[A-Za-z0-9])")
ZERO = Fraction(0)


class Broken(Exception):
    """A selector that means nothing."""


def uid(value):
    """A uid as text."""
    if value["one"] == "Text":
        return value["is"]
    digits = value["is"].hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def key(event):
    """The key of an object and its reservation."""
    return event["namespace"], uid(event["uid"])


def amount(quantity):
    """A quantity as a number."""
    mantissa = quantity["mantissa"]
    if mantissa["one"] == "Scaled":
        return mantissa["digits"] * Fraction(10) ** mantissa["power"]
    return Fraction(int.from_bytes(bytes(mantissa["is"]), "little", signed=True), 10 ** 9)


KNOWN = {}


def amounts(footprint):
    """The amounts of a footprint, which never changes."""
    if id(footprint) not in KNOWN:
        of = {name: amount(quantity) for name, quantity in footprint["resources"].items()}
        KNOWN[id(footprint)] = footprint, of
    return KNOWN[id(footprint)][1]


class Ledger:
    """Everything that the entries so far amount to."""

    def __init__(self):
        self.quotas, self.objects, self.pending, self.sources = {}, {}, {}, {}
        self.committed, self.bearers, self.commit_bearers = {}, {}, {}
        self.observed_namespaces = {}
        self.groups, self.ended, self.time = {}, set(), 0
        self.tags = set()

    def apply(self, entry):
        event = entry["event"]
        self.time = max(self.time, entry["time"])
        self.tags.add(event["tag"])
        meaning = getattr(self, f"on_{event['one']}", None)
        if meaning is None:
            raise Wrong(f"tests/auditor/fold.py does not know what tag {event['tag']}, {event['one']}, does")
        meaning(event.get("is", event))

    def on_QuotaSet(self, quota):
        self.quotas[quota["namespace"], quota["name"]] = quota

    def on_QuotaDeleted(self, event):
        self.quotas.pop((event["namespace"], event["name"]), None)

    def on_ObjectObserved(self, observed):
        self.objects[key(observed)] = dict(observed)
        self.see(key(observed), observed)

    def see(self, place, event):
        """What was committed counts no more, unless it waits for a later version."""
        if committed := self.committed.get(place):
            if event["version"] == 0 or event["version"] > committed["after_version"]:
                del self.committed[place]
        if event["ends_reservation"]:
            self.pending.pop(place, None)

    def on_ObjectRefreshed(self, event):
        if record := self.objects.get(key(event)):
            record["version"] = event["version"]
            self.see(key(event), event)

    def on_ObjectLapsed(self, event):
        if record := self.objects.get(key(event)):
            record.update(footprint=event["footprint"], lapse=None)

    def on_ObjectDeleted(self, event):
        for table in (self.objects, self.pending, self.committed):
            table.pop(key(event), None)

    def on_ReservationGranted(self, reservation):
        self.bearers.pop(key(reservation), None)
        self.pending[key(reservation)] = dict(reservation)

    def on_ReservationGrown(self, event):
        if pending := self.pending.get(key(event)):
            pending.update(footprint=event["footprint"], expiration=event["expiration"])

    def on_ReservationExtended(self, event):
        if pending := self.pending.get(key(event)):
            pending["expiration"] = event["expiration"]

    def on_ReservationCommitted(self, event):
        if pending := self.pending.pop(key(event), None):
            footprint = {**pending["footprint"], "resources": event["resources"]}
            self.committed[key(event)] = {**pending, "footprint": footprint}
            self.commit_bearers[key(event)] = self.bearers.pop(key(event), None)

    def on_ReservationReturned(self, event):
        self.committed.pop(key(event), None)

    def end(self, event):
        self.pending.pop(key(event), None)

    on_ReservationReleased = on_ReservationExpired = on_ReservationSuperseded = end

    def on_NameAwaited(self, event):
        if key(event) in self.pending and event["uid"] != event["bearer"]:
            self.bearers[key(event)] = (event["namespace"], uid(event["bearer"]))

    def on_VersionAwaited(self, event):
        if pending := self.pending.get(key(event)):
            pending["after_version"] = event["after_version"]

    def on_SourceAdvanced(self, event):
        self.sources[event["source"]] = dict(event["cursor"])

    def on_SourceReset(self, event):
        self.sources[event["source"]] = {"incarnation": event["incarnation"], "position": 0}

    def on_SourceGapped(self, event):
        self.sources.setdefault(event["source"], {"incarnation": ""})["position"] = event["last"]

    def on_ObjectCorrected(self, correction):
        self.on_ObjectObserved(correction["object"])

    on_ObjectEnded = on_ObjectDeleted
    on_ObjectReplaced = on_ObjectObserved

    def on_WorkloadsCharged(self, event):
        for record in self.objects.values():
            traits = record["footprint"]["traits"]
            if traits["one"] == "Template" and record["resource"] not in event["kinds"]:
                kept = {name: amount for name, amount in record["footprint"]["resources"].items()
                        if name not in traits["replica"]}
                plain = {"resources": kept, "traits": {"tag": 0, "one": "Plain"}}
                record["footprint"] = {**record["footprint"], **plain}

    def on_NamespaceObserved(self, namespace):
        self.observed_namespaces[namespace["name"]] = namespace

    def on_NamespaceDeleted(self, event):
        record = self.observed_namespaces.get(event["name"])
        if record and uid(record["uid"]) == uid(event["uid"]):
            del self.observed_namespaces[event["name"]]

    def on_GroupSet(self, group):
        self.groups[group["name"]] = group
        self.begin((None, group["name"]), group["spec"]["extensions"]["override"])

    def on_GroupDeleted(self, event):
        self.groups.pop(event["name"], None)

    def on_OverrideEnded(self, event):
        self.ended.add((event["namespace"], event["quota"]))

    def begin(self, subject, limits):
        """An override begins, unless its time is over."""
        self.ended.discard(subject)
        if limits and limits["until"] <= self.time:
            self.ended.add(subject)

    def nothing(self, _):
        pass

    on_MessageRejected = on_RelistBegan = on_ObjectsListed = on_RelistClosed = on_RelistEnded = nothing
    on_EndedBounded = on_ObjectLabelsChanged = nothing
    on_WatermarksAdvanced = on_ResourceListed = on_VersionsReset = on_EventRejected = nothing
    on_LeaderChanged = nothing

    def namespaces(self):
        """Those that have anything."""
        named = [namespace for namespace, _ in (*self.objects, *self.pending, *self.committed)]
        return {*named, *(namespace for namespace, _ in self.quotas)}

    def content(self, namespace):
        """What counts in a namespace: objects, and commits and reservations with what counts already of each."""
        def footprints(table):
            return {place: item["footprint"] for place, item in table.items() if place[0] == namespace}
        objects, pending, committed = map(footprints, (self.objects, self.pending, self.committed))
        claims = [
            [(item, objects.get(place, objects.get(bearers.get(place)))) for place, item in table.items()]
            for table, bearers in ((committed, self.commit_bearers), (pending, self.bearers))
        ]
        return objects, claims

    def group_usage(self, name):
        """The limits of a group with what counts against each, and what its members have of each."""
        groups = Groups(self.groups, self.observed_namespaces, counts)
        content = {namespace: self.content(namespace) for namespace in self.namespaces()}

        def taken_of(group, namespace, resource):
            matches = lambda item: groups.counts(group, namespace, item)
            return count(*content[namespace], matches)(resource)

        def held(group, resource):
            return sum((sum(taken_of(group, namespace, resource)) for namespace in content), ZERO)

        spec = self.groups[name]["spec"]
        hard, limits = dict(spec["quota"]["hard"]), spec["extensions"]["override"]
        if limits and (None, name) not in self.ended:
            hard |= limits["hard"]
        guaranteed = {
            child: {of: amount(value) for of, value in group["spec"]["extensions"]["guaranteed"].items()}
            for child, group in self.groups.items()
        }
        resources, members = {}, {}
        for resource, limit in hard.items():
            each = {namespace: taken_of(name, namespace, resource) for namespace in content}
            used, reserved = (sum((taken[at] for taken in each.values()), ZERO) for at in (0, 1))
            aside = groups.set_aside(name, guaranteed, resource, lambda group: held(group, resource))
            resources[resource] = (amount(limit), used, reserved, aside)
            for namespace, taken in each.items():
                if any(taken):
                    members.setdefault(namespace, {})[resource] = taken
        return {"resources": resources, "members": members}

    def usage(self, namespace):
        """Sums and quotas of a namespace: used and reserved of each resource."""
        objects, claims = self.content(namespace)
        every = (*objects.values(), *(item for table in claims for item, _ in table))
        names = {name for footprint in every for name in footprint["resources"]}
        sums = count(objects, claims, lambda _: True)
        quotas = {}
        for (place, name), quota in self.quotas.items():
            if place == namespace:
                counted = count(objects, claims, lambda item, spec=quota["spec"]: counts(spec, item))
                hard = {resource: amount(limit) for resource, limit in quota["spec"]["hard"].items()}
                quotas[name] = {resource: (limit, *counted(resource)) for resource, limit in hard.items()}
        resources = {name: sums(name) for name in names}
        return {"resources": {name: sum for name, sum in resources.items() if any(sum)}, "quotas": quotas}


def count(objects, claims, matches):
    """What is used and reserved of a resource, of those footprints that match."""
    def of(resource):
        committed, pending = (list(taken(claim, resource, matches)) for claim in claims)
        seen = [(item, amounts(item).get(resource, ZERO)) for item in objects.values() if matches(item)]
        used = total(resource, seen + committed)
        return used, total(resource, seen + committed + pending) - used
    return of


def total(resource, parts):
    """All that is plain, and the larger of what is charged and what is claimed."""
    sums = {"plain": ZERO, "charged": ZERO, "claimed": ZERO}
    for footprint, amount in parts:
        sums[manner(footprint, resource)] += amount
    return sums["plain"] + max(sums["charged"], sums["claimed"])


def manner(footprint, resource):
    """How the amount of a resource counts."""
    traits = footprint["traits"]
    if traits["one"] == "Template" and resource in traits["replica"]:
        return "charged"
    if traits["one"] == "Replica" and not resource.startswith("count/"):
        return "claimed"
    return "plain"


def taken(claims, resource, matches):
    """What claims take of a resource beside what counts already in the same manner."""
    for wanted, seen in claims:
        if matches(wanted):
            held = amounts(wanted).get(resource, ZERO)
            if seen and matches(seen) and manner(seen, resource) == manner(wanted, resource):
                held = max(held - amounts(seen).get(resource, ZERO), ZERO)
            yield wanted, held


def counts(spec, footprint):
    """Whether a footprint counts for a quota."""
    scopes = [(name, "Exists", []) for name in spec["scopes"]]
    for expression in (spec["selector"] or {}).get("match_expressions", []):
        scopes.append((expression["scope_name"], expression["operator"], expression["values"]))
    try:
        # All of them: one that is broken makes the quota count nothing.
        return all([matches(*scope, footprint["traits"]) for scope in scopes])
    except Broken:
        return False


def matches(scope, operator, values, traits):
    kind = traits["one"]
    if kind == "VolumeClaim":
        return scope == "VolumeAttributesClass" and present(operator, values, traits["attributes_classes"])
    if kind == "Plain":
        return False
    pod = traits["pod"] if kind == "Template" else traits["is"]
    if scope == "PriorityClass":
        return present(operator, values, [pod["priority_class"]] if pod["priority_class"] else [])
    return {
        "Terminating": pod["terminating"], "NotTerminating": not pod["terminating"],
        "BestEffort": pod["best_effort"], "NotBestEffort": not pod["best_effort"],
        "CrossNamespacePodAffinity": pod["cross_namespace_affinity"],
    }.get(scope, False)


def present(operator, values, there):
    if operator == "Exists":
        return bool(there)
    wrong = {"In": not values, "NotIn": not values, "DoesNotExist": bool(values)}
    if wrong.get(operator, True) or not all(LABEL.fullmatch(value) for value in values):
        raise Broken
    if operator == "In":
        return any(value in values for value in there)
    if operator == "NotIn":
        return not there or any(value not in values for value in there)
    return not there
