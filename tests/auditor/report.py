"""Integrates a report from the entries alone: every namespace is recounted after every entry about it."""

from datetime import datetime, timedelta, timezone
from fractions import Fraction

from fold import ZERO, Ledger, amount
from layout import Wrong, entries

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
BILLIONTH = Fraction(1, 10 ** 9)
HOUR = 3600 * 10 ** 9
NOTHING = (ZERO, ZERO, None)


def instant(text):
    """A time of an answer in nanoseconds; answers have microseconds."""
    return (datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH) // timedelta(microseconds=1) * 1000


def rounded(number):
    """To a billionth, halves away from zero; amounts are not negative."""
    return (number / BILLIONTH + Fraction(1, 2)).__floor__() * BILLIONTH


class Curve:
    """A number as a step function: what it was from which time on, and by which entry."""

    def __init__(self, begin):
        self.steps = [(begin, 0, NOTHING)]

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


class Period:
    """What is integrated of a period, as its entries are folded."""

    def __init__(self, begin, end):
        self.begin, self.end, self.before = begin, end, 0
        self.curves, self.grants, self.ends = {}, {}, []

    def note(self, entry, chain_hash, changed):
        time, sequence, event = entry["time"], entry["sequence"], entry["event"]
        if time >= self.end:
            return
        if time < self.begin:
            self.before = sequence
        else:
            self.ends = [*self.ends[:1], (sequence, chain_hash)]
        for place, value in changed.items():
            curve = self.curves.setdefault(place, Curve(self.begin))
            curve.set(max(time, self.begin), sequence, value)
        if event["one"] in ("ReservationGranted", "ReservationGrown") and time >= self.begin:
            event = event.get("is", event)
            for resource, asked in event["footprint"]["resources"].items():
                if amount(asked) > 0:
                    place = event["namespace"], resource
                    self.grants[place] = self.grants.get(place, 0) + 1

    def rows(self):
        rows = {}
        for place, curve in self.curves.items():
            known = any(value != NOTHING for *_, value in curve.over(self.begin, self.end))
            if known or place in self.grants:
                figures = curve.figures(self.begin, self.end, self.before)
                rows.setdefault(place[0], {})[place[1]] = {**figures, "grants": self.grants.get(place, 0)}
        return rows


def namespace_of(event):
    """The namespace that an event is about, if it is about one alone."""
    content = event.get("is", event)
    content = content.get("object", content) if isinstance(content.get("object"), dict) else content
    return content.get("namespace")


def integrate(layouts, batches, periods):
    """Folds the entries once for all periods."""
    ledger, known = Ledger(), {}
    end = max(period.end for period in periods)
    for batch in batches:
        for entry in entries(layouts, batch["first"], batch["count"], batch["payload"]):
            if entry["time"] >= end:
                return
            ledger.apply(entry)
            of, changed = namespace_of(entry["event"]), {}
            for namespace in [of] if of else ledger.namespaces():
                now, before = levels(ledger, namespace), known.get(namespace, {})
                for resource in set(now) | set(before):
                    if now.get(resource, NOTHING) != before.get(resource, NOTHING):
                        changed[namespace, resource] = now.get(resource, NOTHING)
                known[namespace] = now
            for period in periods:
                period.note(entry, batch["hash"].hex(), changed)


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


def compare(layouts, batches, reports, quantity):
    """Compares reports by namespace with the entries; counts the figures."""
    periods = [Period(instant(report["from"]), instant(report["to"])) for report in reports]
    integrate(layouts, batches, periods)
    count = 0
    for report, period in zip(reports, periods):
        said = [(report.get(f"{end}Sequence"), report.get(f"{end}Hash")) for end in ("first", "last")]
        if [period.ends[0], period.ends[-1]] != said:
            raise Wrong(f"report: its entries are {period.ends} and not {said}")
        mine, theirs = period.rows(), {row["key"]["namespace"]: row["resources"] for row in report["rows"]}
        for namespace in set(mine) | set(theirs):
            own_of, their_of = mine.get(namespace, {}), theirs.get(namespace, {})
            for resource in set(own_of) | set(their_of):
                own, other = own_of.get(resource), their_of.get(resource)
                found = other and answered(other, quantity)
                # What was nothing all the time need not be said.
                if own != found and not (own is None and not found["peak"] and found["hard"] is None):
                    raise Wrong(f"report of {namespace} and {resource}: {own} and not {found}")
                count += len(own or {})
    return count
