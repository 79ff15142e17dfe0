# SPDX-License-Identifier: Apache-2.0
"""BIN FOLDER NAME... [--check]: runs benches one after the other, each in a process with a deadline, and prints one table.
--markdown PAGE FOLDER: puts the headline figures of FOLDER's results between the markers of PAGE."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import processes
import table

HERE = pathlib.Path(__file__).resolve().parent
BENCH_BOUND_S = 400
END_BOUND_S = 30


def say(text):
    print(f"[{time.monotonic() - float(os.environ['DDPRUN_BENCH_BEGAN']):5.0f} s] {text}", file=sys.stderr, flush=True)


def end(process):
    """The bench prints and writes its results so far, and then must end."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_BOUND_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_one(binaries, folder, name, bound_s=BENCH_BOUND_S, script=None):
    """Runs one bench and returns its status. A result of an earlier run does not count as one of
    this run."""
    result = folder / f"{name}.json"
    result.unlink(missing_ok=True)
    # In its own session, so that Ctrl-C reaches the bench only once, from here.
    process = subprocess.Popen(
        [sys.executable, script or HERE / f"{name}.py", binaries, result, "--no-table"], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(bound_s)
    except subprocess.TimeoutExpired:
        say(f"{name}: not done within {bound_s} s, ended")
        end(process)
        return 1
    except KeyboardInterrupt:
        end(process)
        raise


def interrupted(*_):
    raise KeyboardInterrupt


def run_all(binaries, folder, names, is_checked):
    os.environ["DDPRUN_BENCH_BEGAN"] = str(time.monotonic())
    signal.signal(signal.SIGTERM, interrupted)
    folder.mkdir(parents=True, exist_ok=True)
    status, begun = 0, []
    try:
        with processes.marked_run():
            for name in names:
                begun.append(name)
                status = max(status, 1 if run_one(binaries, folder, name) else 0)
    except KeyboardInterrupt:
        status = 130
    results = read(folder, begun)
    print("\n".join(table.lines_of(results)))
    for name in names:
        if name not in {result["bench"] for result in results}:
            print(f"{name}: not measured")
    if missed := table.missed(results):
        print("missed: " + "; ".join(missed))
    return status or (1 if missed and is_checked else 0)


def read(folder, names):
    return [json.loads(path.read_text()) for path in (folder / f"{name}.json" for name in names) if path.exists()]


def write_markdown(page, folder):
    results = {result["bench"]: result for result in read(folder, sorted(path.stem for path in folder.glob("*.json")))}
    page.write_text(table.replace_marked(page.read_text(), table.markdown(results)))
    return 0


def main(arguments):
    if arguments[0] == "--markdown":
        try:
            return write_markdown(pathlib.Path(arguments[1]), pathlib.Path(arguments[2]))
        except ValueError as wrong:
            print(f"{arguments[1]}: {wrong}", file=sys.stderr)
            return 2
    names = [name for name in arguments[2:] if not name.startswith("--")]
    return run_all(pathlib.Path(arguments[0]), pathlib.Path(arguments[1]), names, "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
