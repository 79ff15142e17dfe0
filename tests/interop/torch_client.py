# SPDX-License-Identifier: Apache-2.0
"""Everything torch.distributed.TCPStore can do, against the store server at HOST PORT.

Ends with 0 and prints `ok` if every answer is what PyTorch's own server would have given.
"""
import sys
import threading
import time
from datetime import timedelta

import torch.distributed as dist

HOST, PORT = sys.argv[1], int(sys.argv[2])
WORLD = 2


def connect(**options):
    return dist.TCPStore(HOST, PORT, is_master=False, timeout=timedelta(seconds=60), **options)


def expect(got, wanted, what):
    assert got == wanted, f"{what}: got {got!r}, expected {wanted!r}"


def expect_timeout(call, words):
    try:
        call()
    except dist.DistStoreError as error:
        assert words in str(error), f"{words!r} is not in {error}"
    else:
        raise AssertionError(f"no timeout: {words}")


def keys_and_values(store):
    expect(store.num_keys(), 1, "init/ is a key")
    store.set("k", "v")
    expect(store.get("k"), b"v", "get")
    store.set("k", "")
    expect(store.get("k"), b"", "an empty value")
    big = "x" * (5 * 1024 * 1024)
    store.set("big", big)
    expect(store.get("big"), big.encode(), "a value of 5 MiB")
    expect(store.delete_key("big"), True, "delete_key")
    expect(store.delete_key("big"), False, "delete_key again")
    expect([store.add("c", n) for n in (1, 2, 3, -7)], [1, 3, 6, -1], "add")
    expect(store.get("c"), b"-1", "a counter is text")
    store.set("t", "5")
    expect(store.add("t", 1), 6, "add to text")
    expect(store.check(["k", "c"]), True, "check")
    expect(store.check(["k", "nothing"]), False, "check of a missing key")
    store.append("a", "po")
    store.append("a", "tato")
    expect(store.get("a"), b"potato", "append")
    store.multi_set(["m1", "m2"], ["1", "22"])
    expect(store.multi_get(["m2", "m1", "m2"]), [b"22", b"1", b"22"], "multi_get")
    many = [f"many/{i}" for i in range(3000)]
    store.multi_set(many, [str(i) for i in range(3000)])
    expect(store.multi_get(many), [str(i).encode() for i in range(3000)], "3000 keys")
    for name in many:
        store.delete_key(name)
    expect(store.num_keys(), 7, "num_keys")
    expect(sorted(store.list_keys()), ["a", "c", "k", "m1", "m2", "t"], "list_keys")


def compare_and_set(store):
    expect(store.compare_set("s", "", "first"), b"first", "missing key, nothing expected")
    expect(store.compare_set("s", "wrong", "x"), b"first", "another value")
    expect(store.compare_set("s", "first", "second"), b"second", "the expected value")
    expect(store.compare_set("missing", "old", "x"), b"old", "missing key, a value expected")
    expect(store.check(["missing"]), False, "that created nothing")


def waits(store, other):
    store.wait(["k", "c"])
    expect_timeout(lambda: store.wait(["late"], timedelta(milliseconds=50)), "wait timeout")
    store.set("usable", "yes")
    expect(store.get("usable"), b"yes", "usable after a timeout")

    results = []
    waiter = threading.Thread(target=lambda: results.append(other.get("late")))
    waiter.start()
    time.sleep(0.05)
    store.set("late", "now")
    waiter.join(60)
    expect(results, [b"now"], "a waiting get")

    waiter = threading.Thread(target=lambda: results.append(other.multi_get(["w1", "w2"])))
    waiter.start()
    store.add("w1", 1)
    store.append("w2", "x")
    waiter.join(60)
    expect(results[1:], [[b"1", b"x"]], "a waiting multi_get")


def queues(store, other):
    expect(store.queue_len("q"), 0, "an empty queue")
    try:
        store.queue_pop("q", block=False)
        raise AssertionError("popped from an empty queue")
    except dist.QueueEmptyError:
        pass
    store.queue_push("q", "one")
    store.queue_push("q", "two")
    expect(store.queue_len("q"), 2, "queue_len")
    expect(store.check(["q"]), True, "a queue counts for check")
    expect([store.queue_pop("q"), store.queue_pop("q")], [b"one", b"two"], "first in, first out")

    poppers = [connect() for _ in range(4)]
    popped = []
    threads = [threading.Thread(target=lambda s=s: popped.append(s.queue_pop("work"))) for s in poppers]
    for thread in threads:
        thread.start()
    for i in range(4):
        store.queue_push("work", f"item {i}")
    for thread in threads:
        thread.join(60)
    expect(sorted(popped), [f"item {i}".encode() for i in range(4)], "each element is popped once")


def barriers(store, other, key):
    passed = []
    member = threading.Thread(target=lambda: passed.append(other.barrier(key, WORLD)))
    member.start()
    store.barrier(key, WORLD)
    member.join(60)
    expect(passed, [None], "barrier")


def prefixes(store, other):
    mine = dist.PrefixStore("outer", dist.PrefixStore("inner", store))
    theirs = dist.PrefixStore("outer", dist.PrefixStore("inner", other))
    mine.set("k", "prefixed")
    expect(theirs.get("k"), b"prefixed", "through a prefix")
    expect(store.get("inner/outer/k"), b"prefixed", "the joined key")
    expect(mine.list_keys(), ["k"], "list_keys of a prefix")
    mine.queue_push("q", "x")
    expect(theirs.queue_pop("q"), b"x", "a queue through a prefix")
    barriers(mine, theirs, "bar")
    copy = mine.clone()
    expect(copy.get("k"), b"prefixed", "a clone")


def main():
    store = connect(world_size=WORLD)
    other = connect()
    keys_and_values(store)
    compare_and_set(store)
    waits(store, other)
    queues(store, other)
    barriers(store, other, "bar")
    expect_timeout(lambda: (store.set_timeout(timedelta(milliseconds=50)), store.get("never")), "wait timeout")
    store.set_timeout(timedelta(seconds=60))
    prefixes(store, other)
    expect(store.clone().get("k"), b"", "a clone of the store")
    print("ok")


main()
