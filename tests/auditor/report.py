"""Integrates a report from the entries alone: every namespace is recounted after every entry about it."""

from datetime import datetime, timedelta, timezone
from fractions import Fraction

from fold import ZERO, Ledger, amount
from layout import Wrong, entries

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
BILLIONTH = Fraction(1, 10 ** 9)
HOUR = 3600 * 10 ** 9


def instant(text):
    """A time of an answer in nanoseconds; answers have microseconds."""
    return (datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH) // timedelta(microseconds=1) * 1000


def rounded(number):
    """To a billionth, halves away from zero; amounts are not negative."""
    return (number / BILLIONTH + Fraction(1, 2)).__floor__() * BILLIONTH


class Curve:
    """A number as a step function: what it was from which time on, and by which entry."""

    def __init__(self, begin):
        self.steps = [(begin, 0, (ZERO, ZERO, None))]

    def set(self, time, sequence, value):
        if value == self.steps[-1][2]:
            return
        # What lasted for no time was not.
        if self.steps[-1][0] == time:
            self.steps.pop()
        self.steps.append((time, sequence, value))

    def over(self, begin, end):
        """The values between two times, with how long they lasted."""
        for (since, sequence, value), (until, *_) in zip(self.steps, self.steps[1:] + [(end, 0, None)]):
            since, until = max(since, begin), min(until, end)
            if since < until:
                yield since, sequence, until - since, value

    def figures(self, begin, end, before):
        """What is shown of the number; `before` is the last entry before the period."""
        parts = list(self.over(begin, end))
        integral = lambda of: sum((of(*value) * length for _, _, length, value in parts), ZERO)
        demands = sorted(((used + reserved, length) for _, _, length, (used, reserved, _) in parts), reverse=True)
        above, p95 = 0, None
        for value, length in demands:
            if p95 is not None and above * 100 > (end - begin) * 5 and value != p95:
                break
            p95, above = value, above + length
        peak, since, sequence = demands[0][0], None, None
        if peak:
            since, sequence = next((since, max(sequence, before)) for since, sequence, _, (used, reserved, _) in parts
                                   if used + reserved == peak)
        figures = {
            "consumed": rounded(integral(lambda used, reserved, hard: used) / HOUR),
            "reservedConsumed": rounded(integral(lambda used, reserved, hard: reserved) / HOUR),
            "mean": rounded(integral(lambda used, reserved, hard: used + reserved) / (end - begin)),
            "peak": peak, "peakTime": since, "peakSequence": sequence, "p95": p95,
            "hard": parts[-1][3][2],
        }
        if any(value[2] is not None for *_, value in parts):
            figures["limitHours"] = rounded(integral(lambda used, reserved, hard: hard or ZERO) / HOUR)
            full = sum(length for _, _, length, (used, reserved, hard) in parts
                       if hard is not None and used + reserved >= hard)
            figures["timeFull"] = Fraction(full, 10 ** 9)
        return figures


def levels(ledger, namespace):
    """What counts in a namespace, with the least limit that counts all of it."""
    usage, hard = ledger.usage(namespace), {}
    for (place, _), quota in ledger.quotas.items():
        spec = quota["spec"]
        if place == namespace and not spec["scopes"] and not (spec["selector"] or {}).get("match_expressions"):
            for resource, limit in spec["hard"].items():
                hard[resource] = min(amount(limit), hard.get(resource, amount(limit)))
    resources = set(usage["resources"]) | set(hard)
    return {name: (*usage["resources"].get(name, (ZERO, ZERO)), hard.get(name)) for name in resources}


def integrate(layouts, batches, begin, end):
    """The rows of a report by namespace, and the entries of its period with the chain hashes of their batches."""
    ledger, curves, grants, ends, before = Ledger(), {}, {}, [], 0
    for batch in batches:
        for entry in entries(layouts, batch["first"], batch["count"], batch["payload"]):
            if entry["time"] >= end:
                continue
            ledger.apply(entry)
            event, time, sequence = entry["event"], entry["time"], entry["sequence"]
            event = {**event, **event.get("is", {})} if isinstance(event.get("is", {}), dict) else event
            if time < begin:
                before = sequence
            else:
                ends = [*ends[:1], (sequence, batch["hash"].hex())]
            of = event.get("object", event).get("namespace") if isinstance(event.get("object"), dict) else event.get("namespace")
            for namespace in [of] if of else ledger.namespaces():
                now = levels(ledger, namespace)
                known = {resource for place, resource in curves if place == namespace}
                for resource in known | set(now):
                    curve = curves.setdefault((namespace, resource), Curve(begin))
                    curve.set(max(time, begin), sequence, now.get(resource, (ZERO, ZERO, None)))
            if event["one"] in ("ReservationGranted", "ReservationGrown") and time >= begin:
                for resource, asked in event["footprint"]["resources"].items():
                    if amount(asked) > 0:
                        grants[of, resource] = grants.get((of, resource), 0) + 1
    rows = {}
    for (namespace, resource), curve in curves.items():
        figures = curve.figures(begin, end, before)
        known = any(value != (ZERO, ZERO, None) for *_, value in curve.over(begin, end))
        if known or (namespace, resource) in grants:
            rows.setdefault(namespace, {})[resource] = {**figures, "grants": grants.get((namespace, resource), 0)}
    return rows, ends


def answered(row, quantity):
    """What an answer says of a resource."""
    texts = {name: row.get(name) for name in ("consumed", "reservedConsumed", "mean", "peak", "p95", "hard")}
    figures = {name: None if text is None else quantity(text) for name, text in texts.items()}
    figures["peakTime"] = instant(row["peakTime"]) if "peakTime" in row else None
    figures["peakSequence"], figures["grants"] = row.get("peakSequence"), row["grants"]
    if "limitHours" in row:
        figures["limitHours"] = quantity(row["limitHours"])
        figures["timeFull"] = quantity(row["timeFull"].removesuffix("s"))
    return figures


def compare(layouts, batches, report, quantity):
    """Compares a report by namespace with the entries; counts the figures."""
    begin, end = instant(report["from"]), instant(report["to"])
    mine, ends = integrate(layouts, batches, begin, end)
    said = [(report.get(f"{end}Sequence"), report.get(f"{end}Hash")) for end in ("first", "last")]
    if [ends[0], ends[-1]] != said:
        raise Wrong(f"report: its entries are {ends} and not {said}")
    theirs = {row["key"]["namespace"]: row["resources"] for row in report["rows"]}
    count = 0
    for namespace in set(mine) | set(theirs):
        for resource in set(mine.get(namespace, {})) | set(theirs.get(namespace, {})):
            own, other = mine.get(namespace, {}).get(resource), theirs.get(namespace, {}).get(resource)
            found = other and answered(other, quantity)
            # What was nothing all the time need not be said.
            if own != found and not (own is None and not found["peak"] and found["hard"] is None):
                raise Wrong(f"report of {namespace} and {resource}: {own} and not {found}")
            count += len(own or {})
    return count
