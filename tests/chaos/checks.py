# SPDX-License-Identifier: Apache-2.0
"""The checks from outside: what must be true of the facts that the workers wrote (counting_worker.cpp), whatever the faults."""
import time

from cluster import Wrong


def worlds_of(facts):
    """{world: its facts}, in the order in which the worlds began to act."""
    worlds = {}
    for fact in facts:
        worlds.setdefault(fact.world, []).append(fact)
    return worlds


def check_one_world_at_a_time(facts, thawed=()):
    """No world acts once a later one has. thawed: (host, from, until) where a host that was frozen past its fence
    may act before its keeper, which was frozen as well, gets to it."""
    counted = [f for f in facts if not any(f.host == h and a <= f.when <= b for h, a, b in thawed)]
    worlds = list(worlds_of(counted).items())
    for (_, earlier), (_, later) in zip(worlds, worlds[1:]):
        if earlier[-1].when >= later[0].when:
            late_ms = (earlier[-1].when - later[0].when) / 1e6
            raise Wrong(f"two worlds at once: {earlier[-1]}, {late_ms:.1f} ms after {later[0]}")
    last = {}
    for (incarnation, number), _ in worlds:
        if number <= last.get(incarnation, -1):
            raise Wrong(f"round {number} after round {last[incarnation]} of the same incarnation")
        last[incarnation] = number


def check_ranks(facts):
    """In each world every rank has the same size, and each rank is one process."""
    for world, of_it in worlds_of(facts).items():
        sizes = {fact.world_size for fact in of_it}
        if len(sizes) != 1:
            raise Wrong(f"round {world[1]}: world sizes {sorted(sizes)}")
        holders = {}
        for fact in of_it:
            holders.setdefault(fact.rank, set()).add((fact.host, fact.pid))
        for rank, held_by in holders.items():
            if len(held_by) != 1 or not 0 <= rank < min(sizes):
                raise Wrong(f"round {world[1]}: rank {rank} is held by {sorted(held_by)}")


def check_ended(facts):
    """The last world ended completely."""
    last = list(worlds_of(facts).values())[-1]
    ended = sorted(fact.rank for fact in last if fact.event == "ended")
    if ended != list(range(last[0].world_size)):
        raise Wrong(f"of {last[0].world_size} ranks only {ended} ended in round {last[0].round}")


SAMPLES_PER_STEP = 24


def check_curve(saved, steps=None):
    """The longest curve kept is the undisturbed one; returns its length."""
    curves = [list(map(int, path.read_text().split())) for path in saved.glob("*.curve")]
    longest = max(curves, key=len, default=[])
    w = 1
    for step, found in enumerate(longest):
        first = step * SAMPLES_PER_STEP
        w = (w + sum((w * 31 + sample * 17) % 1009 for sample in range(first, first + SAMPLES_PER_STEP))) % 1000003
        if found != w:
            raise Wrong(f"the curve leaves its way at step {step}: {found} instead of {w}")
    if steps is not None and len(longest) != steps:
        raise Wrong(f"the curve has {len(longest)} of {steps} steps")
    return len(longest)


def traces(cluster):
    """What could be left on any host: processes, open ports, temporary files."""
    found = set()
    for host in cluster.hosts.values():
        found |= {f"{host.name}: process {pid}" for pid in host.processes()}
        found |= {f"{host.name}: port {port} is open" for port in host.listening()}
        found |= {f"{host.name}: {path}" for path in host.temporary.rglob("*")}
    return found


def remove_error_files(host):
    """A killed agent cannot remove those of its workers: a known limit."""
    for path in sorted(host.temporary.rglob("*"), reverse=True):
        if path.is_file():
            path.unlink()
        else:
            path.rmdir()


def check_nothing_left(cluster, bound_s=60):
    until = time.monotonic() + bound_s
    while left := traces(cluster):
        if time.monotonic() > until:
            raise Wrong("left behind: " + "; ".join(sorted(left)))
        time.sleep(0.05)
