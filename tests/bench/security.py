# SPDX-License-Identifier: Apache-2.0
"""The cost of a secret: the workers' store on the node that has it and through another node's
tunnel, compared with a store that accepts every caller; the start of a job. The store and both
agents are on this machine, so there is no network between them, and they share its cores with the
load."""
import os
import sys
import time

import bench
import store

REPETITIONS = 5
SECONDS = 0.4
CASES = ["get", "set", "add", "wait_and_wake"]
CONNECTIONS = [1, 64]
BARRIERS = [1_000, 4_000]
TUNNEL_RATIO = 2.0
HERE_RATIO = 1.1
BARRIER_RATIO = 1.5
START_MS = 5.0
DIRECT = (bench.BIN / "store_bench_server",)
MEMBERS = {place: (bench.BIN / "members_store_server", place) for place in ("here", "tunnel")}


def per_operation_us(server, case, connections):
    rate = server.figures("store_bench", case, connections, SECONDS)[0]
    return connections * 1e6 / rate


def measure_store(rows, place, ratio):
    members, direct = store.Server(*MEMBERS[place]), store.Server(*DIRECT)
    for case in CASES:
        for connections in CONNECTIONS:
            name = f"{case}, {store.plural(connections)}, {place}"
            bench.progress(f"security: {name}")
            peer = bench.Peer("direct store")
            mine = store.take_turns(
                REPETITIONS, lambda: per_operation_us(members, case, connections),
                peer, lambda: per_operation_us(direct, case, connections))
            is_bound = connections == 1
            rows.append(bench.row(
                name, "us", mine, peer, f"<= {ratio:g}x" if is_bound else "",
                (lambda a, b: a <= b * ratio) if is_bound else None))
    members.close()
    direct.close()


def measure_barriers(rows):
    for clients in BARRIERS:
        name = f"barrier of {clients:,} clients, tunnel"
        bench.progress(f"security: {name}")
        peer = bench.Peer("direct store", bound_s=bench.BOUND_S)
        mine = store.take_turns(
            3, lambda: store.once(MEMBERS["tunnel"], "barrier", clients, 0)[0],
            peer, lambda: store.once(DIRECT, "barrier", clients, 0)[0])
        rows.append(bench.row(name, "ms", mine, peer, f"<= {BARRIER_RATIO:g}x", lambda a, b: a <= b * BARRIER_RATIO))


def start_ms(variables):
    environment = {name: value for name, value in os.environ.items() if name != "DDPRUN_SECRET"}
    begin = time.perf_counter()
    bench.run([bench.BIN / "ddprun", "--standalone", "--no-python", "/bin/true"], env={**environment, **variables})
    return (time.perf_counter() - begin) * 1e3


def measure_start(rows):
    bench.progress("security: start")
    secret = {"DDPRUN_SECRET": "ddprun-secret-1:" + "A" * 43}
    peer = bench.Peer("without a secret")
    mine = store.take_turns(20, lambda: start_ms(secret), peer, lambda: start_ms({}))
    rows.append(bench.row(
        "one worker, start to end", "ms", mine, peer, f"<= +{START_MS:g} ms", lambda a, b: a <= b + START_MS))


def measure_all(rows):
    measure_store(rows, "here", HERE_RATIO)
    measure_store(rows, "tunnel", TUNNEL_RATIO)
    measure_barriers(rows)
    measure_start(rows)


if __name__ == "__main__":
    sys.exit(bench.main("security", measure_all))
