#!/usr/bin/env python3
"""A second reader of the ledger, written from docs/storage-format.md alone.

    audit.py decode PAGE FIRST COUNT < PAYLOAD     the entries of a batch, as JSON
    audit.py answers PAGE ARCHIVE BACKUP < ANSWERS folds archive and backup, and compares what they amount to with
                                                   answers of /v1/namespaces/{namespace}/usage, one a line
"""

import json
import re
import sys
from fractions import Fraction

import files
from fold import Ledger
from layout import Layouts, Wrong, entries

SUFFIXES = {suffix: Fraction(1000) ** power for power, suffix in enumerate("num kMGTPE", -3) if suffix != " "}
SUFFIXES |= {suffix + "i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)} | {"": Fraction(1)}


def quantity(text):
    """A quantity of an answer as a number."""
    match = re.fullmatch(r"([+-]?[0-9]*\.?[0-9]*)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))", text)
    number = Fraction(match[1])
    return number * Fraction(10) ** int(match[2]) if match[2] else number * SUFFIXES[match[3] or ""]


def told(answer):
    """What an answer says, as `Ledger.usage` has it."""
    figures = ("used", "reserved")
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
    ledger, figures, sequence = Ledger(), 0, 0

    def compare(until):
        nonlocal figures
        while wanted and wanted[0]["asOf"]["sequence"] < until:
            answer = wanted.pop(0)
            namespace, at = answer["namespace"], answer["asOf"]["sequence"]
            mine, theirs = ledger.usage(namespace), told(answer)
            if mine != theirs:
                raise Wrong(f"usage of {namespace} at {at}: {mine} and not {theirs}")
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
    return {"entries": sequence, "head": last[1].hex(), "figures": figures, "snapshots": len(snapshots),
            "tags": sorted(ledger.tags)}


def decode(page, first, count):
    found = entries(Layouts(page), int(first), int(count), sys.stdin.buffer.read())
    return {"entries": found, "tags": sorted({entry["event"]["tag"] for entry in found})}


def main(command, page, *arguments):
    with open(page, encoding="utf-8") as text:
        page = text.read()
    try:
        result = {"decode": decode, "answers": answers}[command](page, *arguments)
    except Wrong as wrong:
        sys.exit(f"wrong: {wrong}")
    print(json.dumps(result, default=lambda raw: raw.hex()))


if __name__ == "__main__":
    main(*sys.argv[1:])
