# SPDX-License-Identifier: Apache-2.0
"""Rows as text: the table on the screen and the one of README.md."""

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
# The name of each figure; then bench, case, unit and peer of its row, and whether more is better.
HEADLINES = [
    ("start-up, from the command to the last of 2 workers", "launch", "2 workers", "ms", "torchrun", False),
    ("memory of the launcher, a node", "memory", "launcher, 2 workers", "MB PSS", "torchrun", False),
    ("a worker's death to the restarted workers, one node", "restart", "one node", "ms", "torchrun c10d", False),
    ("a host lost to its job restarted without it", "reform", "host silent: all restarted", "ms", "torchrun c10d", False),
    ("16,000 agents join one server", "rendezvous", "16000 agents: whole join", "s", "", False),
    ("64 agents join one server", "rendezvous", "64 nodes: whole join", "s", "torchrun", False),
    ("store, `get` from 64 connections", "store", "get, 64 connections", "op/s", "TCPStore (libuv)", True),
    ("output of 8 workers through the launcher", "output", "8 workers, tee and prefix", "MB/s", "torchrun", True),
    ("all-reduce of 64 MiB, 2 ranks", "allreduce", "2 ranks, 64 MiB, allocated", "us", "PyTorch gloo", False),
]


def shown(value):
    return "-" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def peer_words(row):
    return f"{row['peer_name']}: {row['peer_error']}" if row.get("peer_error") else row["peer_name"]


def lines_of(results):
    """One table for all results; a line names each result that is not whole."""
    table = [["bench", "case", "unit", "ours", "peer", "ours/peer", "target", "met", "peer's name"]]
    for result in results:
        for row in result["rows"]:
            met = {None: "", True: "yes", False: "NO"}[row["met"]]
            table.append([result["bench"], row["case"], row["unit"], shown(row["ours"]), shown(row["peer"]),
                          shown(row["ratio"]), row["target"], met, peer_words(row)])
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]) - 1)] + [0]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table]
    lines += [f"{result['bench']}: not whole: {result['ended']}" for result in results if result.get("ended")]
    for what in ("machine", "versions"):
        lines += [f"{what}: {text}" for text in dict.fromkeys(result[what] for result in results)]
    return lines


def missed(results):
    return [f"{result['bench']}: {row['case']}" for result in results for row in result["rows"] if row["met"] is False]


def with_unit(value, unit):
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{shown(value)} {unit}"


def advantage(row, more_is_better):
    if row["peer"] is None or not row["ours"] or not row["peer"]:
        return "–"
    factor = row["ours"] / row["peer"] if more_is_better else row["peer"] / row["ours"]
    return f"{shown(factor)} × better" if factor >= 1 else f"{shown(1 / factor)} × worse"


def headline(results, what, bench, case, unit, peer, more_is_better):
    for row in results.get(bench, {"rows": []})["rows"]:
        if (row["case"], row["unit"], row["peer_name"]) == (case, unit, peer):
            theirs = "–"
            if peer:
                value = with_unit(row["peer"], unit) if row["peer"] is not None else row.get("peer_error") or "not measured"
                theirs = f"{value} ({peer})".replace("|", "\\|")
            return f"| {what} | {with_unit(row['ours'], unit)} | {theirs} | {advantage(row, more_is_better)} |"
    return f"| {what} | not measured | – | – |"


def markdown(results):
    """The headline figures of {bench: result}, as they were measured."""
    lines = ["| What is measured | ddprun | Peer | ddprun is |", "|---|---|---|---|"]
    lines += [headline(results, *wanted) for wanted in HEADLINES]
    versions = ", ".join(dict.fromkeys(result["torch"] for result in results.values() if result.get("torch")))
    lines += ["", f"Medians{' beside PyTorch ' + versions if versions else ''}, measured on: " + "; ".join(dict.fromkeys(result["machine"] for result in results.values()))
              + ". `scripts/bench.sh all --markdown` measures and writes this table."]
    return "\n".join(lines)


def replace_marked(page, text):
    """`page` with `text` between the two markers, each of which stands there once."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"the page needs one {BEGIN} and after it one {END}")
    return page[:page.index(BEGIN) + len(BEGIN)] + "\n" + text + "\n" + page[page.index(END):]
