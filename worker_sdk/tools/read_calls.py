#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the calls that the ranks of a failed group have written (calls.jsonl, see
docs/sdk-call-trace.md) and names the rank behind and the call in which ranks differ.

    read_calls.py PATH...      files, or folders that are searched for calls.jsonl
"""
import json
import pathlib
import sys


def files_in(paths):
    for path in map(pathlib.Path, paths):
        yield from sorted(path.rglob("calls.jsonl")) if path.is_dir() else [path]


def entries_in(path):
    """Titles and calls. What follows a torn line, up to the next title, is reported and left out."""
    is_torn = False
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line)
            except ValueError:
                print(f"{path}:{number}: not a line of a call trace; "
                      "it is left out, with all up to the next title", file=sys.stderr)
                is_torn = True
                continue
            is_torn = is_torn and "ddprun_calls" not in entry
            if not is_torn:
                yield number, entry


def read(paths):
    """{group: {rank: (title, [call, ...])}}; a rank's later trace replaces its earlier one."""
    groups = {}
    for path in files_in(paths):
        calls = None
        for number, entry in entries_in(path):
            if "ddprun_calls" in entry:
                if entry["ddprun_calls"] != 1:
                    sys.exit(f"{path}: written by a later version of ddprun")
                calls = []
                groups.setdefault(entry["group"], {})[entry["rank"]] = (entry, calls)
            elif calls is None:
                sys.exit(f"{path}:{number}: a call before the first title")
            else:
                calls.append(entry)
    return groups


def ranks_text(ranks):
    ranks = sorted(ranks)
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def by_text(calls):
    """{text of the call: ranks}, for one call by rank."""
    texts = {}
    for rank, call in calls.items():
        texts.setdefault(call["call"], []).append(rank)
    return texts


def first_difference(collectives):
    numbers = sorted({number for calls in collectives.values() for number in calls})
    for number in numbers:
        here = {rank: calls[number] for rank, calls in collectives.items() if number in calls}
        if len(by_text(here)) > 1:
            yield "ranks differ: " + "; ".join(
                f"{ranks_text(ranks)}: {text}" for text, ranks in sorted(by_text(here).items()))
            return


def ranks_behind(collectives):
    last = {rank: max(calls, default=0) for rank, calls in collectives.items()}
    newest = max(last.values(), default=0)
    for number in sorted(set(last.values()) - {newest}):
        behind = [rank for rank in last if last[rank] == number]
        ahead = next(calls[newest] for calls in collectives.values() if newest in calls)
        where = collectives[behind[0]][number]["call"] if number else "no call"
        yield f"{ranks_text(behind)} behind: last launched {where}; others are at {ahead['call']}"


def messages_without_peer(ranks):
    ends = {}
    for rank, (_, calls) in ranks.items():
        for call in calls:
            if call["queue"] != "collective":
                place = call["call"].split(":")[0]
                ends.setdefault(place, {})[call["queue"]] = (rank, call)
    for place, both in sorted(ends.items()):
        if len(both) == 2:
            texts = {call["call"] for _, call in both.values()}
            if len(texts) > 1:
                yield f"the ends of {place} differ: " + "; ".join(sorted(texts))
            continue
        (queue, (_, call)), = both.items()
        if call["state"] in ("launched", "running", "failed"):
            done = "not received" if queue == "send" else "not sent"
            yield f"{call['call']}: {done} by its other end"


def findings(ranks):
    world_size = next(iter(ranks.values()))[0]["world_size"]
    missing = set(range(world_size)) - set(ranks)
    if missing:
        yield f"{ranks_text(missing)} wrote nothing: lost, or did not notice the failure"
    collectives = {
        rank: {call["number"]: call for call in calls if call["queue"] == "collective"}
        for rank, (_, calls) in ranks.items()}
    yield from first_difference(collectives)
    yield from ranks_behind(collectives)
    yield from messages_without_peer(ranks)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    groups = read(sys.argv[1:])
    if not groups:
        sys.exit("no calls.jsonl there")
    for name, ranks in sorted(groups.items()):
        print(f"group {name}")
        for rank, (title, _) in sorted(ranks.items()):
            print(f"  rank {rank} failed with: {title['error']}")
        found = list(findings(ranks))
        for line in found or ["all ranks have launched the same calls"]:
            print(f"  {line}")


if __name__ == "__main__":
    main()
