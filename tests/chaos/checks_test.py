#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of cluster.py can fail: each is shown what it has to object to."""
import pathlib
import sys
import tempfile

import checks
import cluster as made


def facts(*rows):
    """(event, incarnation, round, rank, milliseconds); two ranks, rank r on host h<r>."""
    return sorted((made.Fact(f"h{rank}", f"{event} {life} {number} {rank} 2 5 {100 + 10 * number + rank} {ms * 1000000}")
                   for event, life, number, rank, ms in rows), key=lambda fact: fact.when)


GOOD = [("began", "x", 0, 0, 10), ("began", "x", 0, 1, 11), ("ticked", "x", 0, 1, 30), ("began", "x", 1, 0, 40),
        ("began", "x", 1, 1, 41), ("ended", "x", 1, 0, 90), ("ended", "x", 1, 1, 91)]


def objects(check, *arguments):
    try:
        check(*arguments)
    except made.Wrong as wrong:
        return str(wrong)
    return None


def curve(values):
    folder = tempfile.TemporaryDirectory(prefix="ddprun-chaos-")
    pathlib.Path(folder.name, "x.0.curve").write_text("\n".join(map(str, values)))
    return folder


def main():
    late = facts(*GOOD, ("ticked", "x", 0, 1, 42))
    first = (1 + sum((1 * 31 + sample * 17) % 1009 for sample in range(24))) % 1000003
    with curve([first]) as right, curve([first + 1]) as wrong:
        wanted = [
            ("a good job: one world", objects(checks.check_one_world_at_a_time, facts(*GOOD)), None),
            ("a good job: ranks", objects(checks.check_ranks, facts(*GOOD)), None),
            ("a good job: its end", objects(checks.check_ended, facts(*GOOD)), None),
            ("a rank acts after the next world began", objects(checks.check_one_world_at_a_time, late), "two worlds"),
            ("it may on a host that was just thawed",
             objects(checks.check_one_world_at_a_time, late, [("h1", 41500000, 43000000)]), None),
            ("a round number comes again",
             objects(checks.check_one_world_at_a_time, facts(("began", "x", 1, 0, 1), ("began", "x", 0, 0, 2))), "same incarnation"),
            ("a rank is two processes",
             objects(checks.check_ranks, [*facts(("began", "x", 0, 0, 1)), made.Fact("h9", "began x 0 0 2 5 77 2")]), "held by"),
            ("one rank never ended", objects(checks.check_ended, facts(*GOOD[:-1])), "only [0] ended"),
            ("the right curve", objects(checks.check_curve, pathlib.Path(right), 1), None),
            ("another curve", objects(checks.check_curve, pathlib.Path(wrong)), "leaves its way"),
            ("a short curve", objects(checks.check_curve, pathlib.Path(right), 2), "1 of 2"),
        ]
    failures = [f"{what}: {objection}" for what, objection, words in wanted
                if (objection is None) != (words is None) or (words and words not in objection)]
    sys.exit("\n".join(failures) or 0)


if __name__ == "__main__":
    main()
