#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the benches rely on: a peer's failure is a row, what was measured is never lost, no process is left, and
README's figures are those of the files. The peers are real processes."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-bench-test-"))
sys.argv[1:] = [str(FOLDER), str(FOLDER / "rows.json")]
sys.path.insert(0, str(HERE))
import bench  # noqa: E402  (reads sys.argv)
import processes  # noqa: E402
import run_benches  # noqa: E402
import table  # noqa: E402

BOUND_S = 30
ABORTS = [sys.executable, "-c", "import os, sys; print('first'); print('the store is gone', flush=True); os.abort()"]
# A worker in its own session, as torchrun starts them, and a launcher that waits for it.
HANGS = ["/bin/sh", "-c", "setsid sleep 1000 & wait"]
# A bench with one row, which then performs the given action; it prints a line when it has begun.
BENCH = f"""
import sys, subprocess, time
sys.path.insert(0, {str(HERE)!r})
import bench
def measure_all(rows):
    rows.append(bench.row("first", "ms", [3.0]))
    if {{action!r}} == "fail":
        bench.run({ABORTS!r})
    process = subprocess.Popen({HANGS!r})
    print("hanging", flush=True)
    # Python does not see a signal that comes just before it begins to wait: no wait without an end.
    while process.poll() is None:
        time.sleep(0.02)
sys.exit(bench.main("fake", measure_all))
"""


def fake_bench(action):
    path = FOLDER / f"{action}.py"
    path.write_text(BENCH.format(action=action))
    program = FOLDER / "ddprun"
    program.write_text("#!/bin/sh\necho ddprun 0.0\n")
    program.chmod(0o755)
    return path


def result_of(path):
    return json.loads(path.read_text())


class Peers(unittest.TestCase):
    def row_of(self, command, bound_s=BOUND_S):
        peer = bench.Peer("peer", bound_s=bound_s)
        ours = bench.take_turns(4, lambda: 2.0, (peer, lambda: bench.run(command), 2))
        self.assertEqual(ours, [2.0] * 4)
        return bench.row("case", "ms", ours, peer, "quicker", lambda a, b: a < b)

    def test_one_that_aborts_is_a_row_with_its_last_line(self):
        row = self.row_of(ABORTS)
        self.assertIn("was ended by SIGABRT: the store is gone", row["peer_error"])
        self.assertEqual((row["ours"], row["peer"], row["met"]), (2.0, None, None))

    def test_one_that_hangs_is_ended_with_its_descendants(self):
        with processes.marked_run() as mark:
            row = self.row_of(HANGS, bound_s=0.5)
            self.assertEqual(processes.marked(mark), [])
        self.assertEqual(row["peer_error"], "hung, ended after 0.5 s")

    def test_one_that_is_missing_is_a_row(self):
        self.assertIn("missing: ", self.row_of([FOLDER / "no_such_program"])["peer_error"])

    def test_a_target_without_the_peer_is_judged_all_the_same(self):
        peer = bench.Peer("peer", "missing")
        self.assertIs(bench.row("case", "ms", [2.0], peer, "under 5", lambda a, _: a < 5, alone=True)["met"], True)

    def test_turns_are_spread_evenly(self):
        order, peer = [], bench.Peer("peer")
        bench.take_turns(4, lambda: order.append("ours"), (peer, lambda: order.append("peer"), 2))
        self.assertEqual(order, ["ours", "ours", "peer", "ours", "ours", "peer"])


class Ends(unittest.TestCase):
    def test_a_failure_of_ours_is_an_error_and_the_rows_stay(self):
        out = FOLDER / "fail.json"
        done = subprocess.run([sys.executable, fake_bench("fail"), FOLDER, out], capture_output=True, text=True, timeout=BOUND_S)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the store is gone", result_of(out)["ended"])
        self.assertIn("first", done.stdout)

    def test_a_signal_leaves_the_rows_and_no_process(self):
        for signal_sent in (signal.SIGINT, signal.SIGTERM):
            out = FOLDER / f"cut{signal_sent}.json"
            with processes.marked_run() as mark:
                process = subprocess.Popen(
                    [sys.executable, fake_bench("hang"), FOLDER, out], stdout=subprocess.PIPE, text=True)
                self.assertEqual(process.stdout.readline(), "hanging\n")
                process.send_signal(signal_sent)
                printed = process.communicate(timeout=BOUND_S)[0]
                self.assertEqual(processes.marked(mark), [])
            self.assertEqual(process.returncode, 130)
            self.assertIn("fake: not whole: cut off", printed)
            self.assertEqual(result_of(out)["rows"][0]["ours"], 3.0)

    def test_a_bench_past_its_deadline_is_cut_off(self):
        os.environ["DDPRUN_BENCH_BEGAN"] = "0"
        with processes.marked_run() as mark:
            status = run_benches.run_one(FOLDER, FOLDER, "late", 2, fake_bench("hang"))
            self.assertEqual(processes.marked(mark), [])
        self.assertEqual(status, 1)
        self.assertEqual(result_of(FOLDER / "late.json")["ended"], "cut off")


def launch_result(**row):
    whole = {"case": "2 workers", "unit": "ms", "ours": 2.0, "peer": 1000.0, "peer_name": "torchrun", "peer_error": "",
             "ratio": 0.002, "target": "quicker", "met": True, **row}
    return {"bench": "launch", "machine": "2 x chip", "versions": "ddprun 1", "torch": "2.15.0", "ended": "", "rows": [whole]}


class Pages(unittest.TestCase):
    def test_the_table_names_what_was_missed_and_why_there_is_no_peer(self):
        result = launch_result(peer=None, ratio=None, met=False, peer_error="hung, ended after 60 s")
        text = "\n".join(table.lines_of([result]))
        self.assertIn("torchrun: hung, ended after 60 s", text)
        self.assertIn("NO", text)
        self.assertIn("machine: 2 x chip", text)
        self.assertEqual(table.missed([result]), ["launch: 2 workers"])

    def test_a_headline_has_the_figures_of_its_row(self):
        text = table.markdown({"launch": launch_result()})
        self.assertIn("| 2 ms | 1,000 ms (torchrun) | 500 × better |", text)
        self.assertIn("Medians beside PyTorch 2.15.0, measured on: 2 x chip", text)
        self.assertIn("not measured", text)

    def test_a_headline_says_that_ddprun_is_worse_or_its_peer_failed(self):
        self.assertIn("2 × worse", table.markdown({"launch": launch_result(ours=2000.0)}))
        self.assertIn("hung (torchrun", table.markdown({"launch": launch_result(peer=None, peer_error="hung")}))

    def test_only_what_is_between_the_markers_is_replaced(self):
        page = f"a\n{table.BEGIN}\nold\n{table.END}\nb\n"
        self.assertEqual(table.replace_marked(page, "new"), f"a\n{table.BEGIN}\nnew\n{table.END}\nb\n")
        for wrong in ("none", table.END + table.BEGIN, page + page):
            with self.assertRaises(ValueError):
                table.replace_marked(wrong, "new")


def tearDownModule():
    shutil.rmtree(FOLDER)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
