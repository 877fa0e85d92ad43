#!/usr/bin/env python3
"""A second reader of the ledger, written from docs/storage-format.md alone.

    audit.py decode PAGE FIRST COUNT < PAYLOAD     the entries of a batch, as JSON
    audit.py answers PAGE ARCHIVE BACKUP < ANSWERS folds archive and backup, and compares what they amount to with
                                                   answers of /v1/namespaces/{namespace}/usage and of
                                                   /v1/groups/{name}/usage, one a line
    audit.py report PAGE BACKUP < REPORTS          integrates the entries of a backup that begins with the first one, and
                                                   compares the result with answers of /v1/report, one a line
"""

import json
import re
import sys
from fractions import Fraction

import files
import report as reports
from fold import Ledger
from layout import Layouts, Wrong, entries

SUFFIXES = {suffix: Fraction(1000) ** power for power, suffix in enumerate("num kMGTPE", -3) if suffix != " "}
SUFFIXES |= {suffix + "i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)} | {"": Fraction(1)}


def quantity(text):
    """A quantity of an answer as a number."""
    match = re.fullmatch(r"([+-]?[0-9]*\.?[0-9]*)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))", text)
    number = Fraction(match[1])
    return number * Fraction(10) ** int(match[2]) if match[2] else number * SUFFIXES[match[3] or ""]


def answered(answer):
    """What an answer says, as `Ledger.usage` or `Ledger.group_usage` has it."""
    figures = ("used", "reserved")
    if "group" in answer:
        of_group = ("hard", *figures, "guaranteedToOthers")
        resources = {item["resource"]: tuple(quantity(item.get(name, "0")) for name in of_group)
                     for item in answer["resources"]}
        members = {}
        for member in answer["namespaces"]:
            used, reserved = (member.get(name, {}) for name in figures)
            of = {name: tuple(quantity(given.get(name, "0")) for given in (used, reserved)) for name in resources}
            members[member["namespace"]] = {name: taken for name, taken in of.items() if any(taken)}
        return {"resources": resources, "members": {name: taken for name, taken in members.items() if taken}}
    resources = {item["resource"]: tuple(quantity(item[name]) for name in figures) for item in answer["resources"]}
    # Of what nothing counts for, nothing need be said.
    resources = {name: sum for name, sum in resources.items() if any(sum)}
    quotas = {}
    for quota in answer["quotas"]:
        # Nothing is said of what nothing is measured of.
        of = {item["resource"]: (quantity(item["hard"]), *(quantity(item.get(name, "0")) for name in figures))
              for item in quota["resources"]}
        quotas[quota["name"]] = of
    return {"resources": resources, "quotas": quotas}


def answers(page, archive, backup):
    layouts = Layouts(page)
    batches, begin, end = files.archive(archive)
    if begin != files.NOTHING:
        raise Wrong("the archive does not begin with the first entry")
    kept, before, last, snapshots = files.backup(backup)
    if before != end:
        raise Wrong(f"the backup begins behind {before[0]}, and the archive ends with {end[0]}")
    wanted = [json.loads(line) for line in sys.stdin]
    wanted.sort(key=lambda answer: answer["asOf"]["sequence"])
    ledger, figures, of_groups, sequence = Ledger(), 0, 0, 0

    def compare(until):
        nonlocal figures, of_groups
        while wanted and wanted[0]["asOf"]["sequence"] < until:
            answer = wanted.pop(0)
            at, group = answer["asOf"]["sequence"], answer.get("group")
            subject = f"group {group}" if group else answer["namespace"]
            mine, theirs = ledger.group_usage(group) if group else ledger.usage(subject), answered(answer)
            if mine != theirs:
                raise Wrong(f"usage of {subject} at {at}: {mine} and not {theirs}")
            if group:
                of_groups += 4 * len(mine["resources"]) + sum(2 * len(taken) for taken in mine["members"].values())
            else:
                figures += 2 * len(mine["resources"]) + sum(3 * len(quota) for quota in mine["quotas"].values())

    for batch in batches + kept:
        found = entries(layouts, batch["first"], batch["count"], batch["payload"])
        if found[-1]["time"] != batch["time"]:
            raise Wrong(f"the time of the batch of {batch['first']} is not that of its last entry")
        for entry in found:
            compare(entry["sequence"])
            ledger.apply(entry)
            sequence = entry["sequence"]
    compare(sequence + 1)
    if wanted or sequence != last[0]:
        raise Wrong(f"the ledger ends with {sequence}")
    return {"entries": sequence, "head": last[1].hex(), "figures": figures, "groups": of_groups, "snapshots": len(snapshots),
            "tags": sorted(ledger.tags)}


def decode(page, first, count):
    found = entries(Layouts(page), int(first), int(count), sys.stdin.buffer.read())
    return {"entries": found, "tags": sorted({entry["event"]["tag"] for entry in found})}


def report(page, backup):
    batches, before, _, _ = files.backup(backup)
    if before != files.NOTHING:
        raise Wrong("the backup does not begin with the first entry")
    figures = reports.compare(Layouts(page), batches, [json.loads(line) for line in sys.stdin], quantity)
    return {"figures": figures}


def main(command, page, *arguments):
    with open(page, encoding="utf-8") as text:
        page = text.read()
    try:
        result = {"decode": decode, "answers": answers, "report": report}[command](page, *arguments)
    except Wrong as wrong:
        sys.exit(f"wrong: {wrong}")
    print(json.dumps(result, default=lambda raw: raw.hex()))


if __name__ == "__main__":
    main(*sys.argv[1:])
