# SPDX-License-Identifier: Apache-2.0
"""Training that goes on in the same processes when another worker has failed: docs/recovery.md."""
import contextlib
import datetime
import functools
import os
import socket
import sys
import threading
import time
import traceback
import urllib.parse
import weakref

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

import ddprun
from ddprun._sockets import Sockets
from ddprun._state import State

# Seconds. An error of a collective is the end of the round if the agent says so within this time: the peer that has failed
# may take long to end.
_END_OF_ROUND = 60
_SAYS_ROUND_ENDS = 5
# The timeout of the default group until all ranks are in their elastic functions. It bounds the making of the mesh, which
# a rank that dies meanwhile would hold up, and a collective call that a new process makes too early.
_FORMING = 30
_SAYS_MISSING = 20
_SHUT_AGAIN = 0.01
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.005
_LONGEST_LINE = 1 << 20

_sockets = Sockets()
_wrappers = weakref.WeakSet()  # the DistributedDataParallel objects of this round
_arguments = None  # of init_process_group
_excepthook = None  # what was there before the default group
_refusal = "ddprun.init_process_group was not called"  # why workers cannot be kept; None: they can
_is_forming = False
_received = None  # the round for which this process has received the state
_was_called = False  # an elastic function
_open_channel = None


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, *rest, **more):
    """torch.distributed.init_process_group, with its arguments. With it the function that is `elastic` can go on when
    a worker has failed: with the backend gloo, and with rank, world and store from the environment."""
    global _arguments, _excepthook, _refusal
    is_of_environment = init_method in (None, "env://") and world_size == rank == -1 and store is None and not rest
    _refusal = _why_not(backend, is_of_environment, more)
    _arguments = backend, timeout or c10d.default_pg_timeout, more
    _excepthook = sys.excepthook
    if _refusal is None and _awaited_state() is not None:
        _form()
        return
    with _sockets.opening(is_default=True):
        dist.init_process_group(backend, init_method, timeout, world_size, rank, store, *rest, **more)


def _why_not(backend, is_of_environment, more):
    if backend is None or str(backend).lower() != "gloo":
        return f"the backend is {backend}; workers are kept with init_process_group(\"gloo\")"
    if not is_of_environment:
        return "init_process_group has a rank, a world or a store other than those of the environment"
    if more.get("enable_reconfigure"):
        return "the group is reconfigured by the program"
    if os.environ.get("TORCH_GLOO_LAZY_INIT", "0").lower() in ("1", "true", "on"):
        return "TORCH_GLOO_LAZY_INIT opens connections later"
    if not callable(getattr(c10d, "_new_process_group_helper", None)):
        return f"PyTorch {torch.__version__} makes groups in another way"
    return None


def _watch():
    """Groups are made by the first function, also those of new_group and of a DeviceMesh for the CPU."""
    make = getattr(c10d, "_new_process_group_helper", None)
    build = DistributedDataParallel.__init__
    if make is None:
        return

    @functools.wraps(make)
    def make_watched(*args, **more):
        _refuse_too_early("groups are")
        with _sockets.opening():
            return make(*args, **more)

    @functools.wraps(build)
    def build_watched(self, *args, **more):
        _refuse_too_early("DistributedDataParallel is")
        build(self, *args, **more)
        _wrappers.add(self)

    c10d._new_process_group_helper = make_watched
    DistributedDataParallel.__init__ = build_watched


def _refuse_too_early(what):
    """In a new process: the others make none there, and a group's own timeout is half an hour."""
    if _refusal is None and not _is_forming and _awaited_state() is not None:
        raise RuntimeError(f"{what} made in the elastic function: the other ranks, which have kept their processes, are there")


def _awaited_state():
    """(rank, step) of the state with which the round begins. None: there is none, or this process has received it."""
    rank, _, step = os.environ.get("DDPRUN_STATE_SOURCE", "").partition("/")
    return (int(rank), int(step)) if step and _received != os.environ.get("DDPRUN_ROUND") else None


def _form():
    """Makes the default group of a round in which some processes are kept and others are new."""
    global _is_forming
    backend, timeout, more = _arguments
    with _sockets.opening(is_default=True):
        store, rank, world = next(dist.rendezvous("env://", timeout=timeout))
    _meet(store, "forming", rank, world, timeout, "called init_process_group")
    _is_forming = True
    try:
        with _sockets.opening(is_default=True):
            dist.init_process_group(
                backend, store=dist.PrefixStore("default_pg", store), rank=rank, world_size=world,
                timeout=datetime.timedelta(seconds=_FORMING), **more)
    finally:
        _is_forming = False
    store.set_timeout(timeout)


def _meet(store, point, rank, world, timeout, what):
    """Waits until all ranks are at this point. A new process may take long: it imports, and prepares its data."""
    store.set(f"ddprun/{point}/{rank}", "1")
    all_there = f"ddprun/{point}/all"
    if rank != 0:
        store.wait([all_there], timeout)
        return
    missing = list(range(1, world))
    pause = _SHORTEST_PAUSE
    began_at = says_at = time.monotonic()
    while missing := [one for one in missing if not store.check([f"ddprun/{point}/{one}"])]:
        now = time.monotonic()
        if now - began_at > timeout.total_seconds():
            raise RuntimeError(f"rank {missing[0]} has not {what} within {timeout}")
        if now - says_at > _SAYS_MISSING:
            says_at = now
            _say(f"rank {missing[0]} has not {what} for {now - began_at:.0f} s")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    store.set(all_there, "1")


def _say(text):
    with contextlib.suppress(AttributeError, OSError, ValueError):  # there may be no stderr
        print(f"ddprun: {text}", file=sys.stderr, flush=True)


class _Channel:
    """The connection over which the agent holds this process instead of stopping it. agent/channel/FORMAT.md."""

    def __init__(self):
        global _open_channel
        _, self._connection = ddprun._ask_agent(os.environ.get("DDPRUN_CHANNEL", ""))
        self._connection.settimeout(None)
        self._connection.sendall(b"recoverable\n")
        self._changed = threading.Condition()
        self._ended = None  # the round whose end was announced
        self._next = None
        self._is_closed = False
        self._holds = threading.Event()
        _open_channel = self
        threading.Thread(target=self._read, name="ddprun recovery", daemon=True).start()

    def close(self):
        global _open_channel
        _open_channel = None
        self._is_closed = True
        self._holds.set()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close_copy(self):
        self._connection.close()

    def _read(self):
        rest = b""
        try:
            with contextlib.suppress(OSError, ValueError):
                while len(rest) <= _LONGEST_LINE and (came := self._connection.recv(65536)):
                    *lines, rest = (rest + came).split(b"\n")
                    for line in lines:
                        self._take(line.decode().split(" "))
        finally:
            with self._changed:
                self._is_closed = True
                self._changed.notify_all()

    def _take(self, words):
        if words[0] == "hold" and len(words) == 3:
            self._end_round(int(words[1]))
        elif words[0] == "go" and len(words) > 2:
            variables = dict(_variable(word) for word in words[2:])
            with self._changed:
                self._next = variables
                self._changed.notify_all()

    def _end_round(self, number):
        with self._changed:
            self._ended = number
            self._holds.clear()
            self._changed.notify_all()
        # Again and again: the main thread may be about to open others.
        while not self._is_closed:
            _sockets.shut()
            if self._holds.wait(_SHUT_AGAIN):
                return

    def is_ended(self):
        return self._ended is not None

    def is_round_over(self):
        """Whether an error is the end of the round and not this rank's own failure."""
        with self._changed:
            if self._ended is None and _sockets.have_lost_peer() and not self._wait_for_end(_SAYS_ROUND_ENDS):
                _say("a connection to another rank is broken; this worker waits for the end of the round, "
                     f"{_END_OF_ROUND} s at most")
                self._wait_for_end(_END_OF_ROUND)
            return self._ended is not None and not self._is_closed

    def _wait_for_end(self, seconds):
        return self._changed.wait_for(lambda: self._ended is not None or self._is_closed, seconds)

    def next_round(self, committed, is_clean):
        with self._changed:
            number, self._ended = self._ended, None
            self._holds.set()
            step = "none" if committed is None else committed
            self._connection.sendall(f"holding {number} {step} {'clean' if is_clean else 'dirty'}\n".encode())
            self._changed.wait_for(lambda: self._next is not None or self._is_closed)
            if self._next is None:
                raise RuntimeError("this worker does not go on in another round: it is being stopped")
            variables, self._next = self._next, None
        os.environ.update(variables)


def _variable(word):
    name, _, value = word.partition("=")
    if not name:
        raise ValueError(word)
    return name, os.fsdecode(urllib.parse.unquote_to_bytes(value))


def elastic(function):
    """Calls `function(state, ...)` again, in the same process, when another worker has failed: in the next round, with
    the state of the last complete step on all ranks, new processes included. What belongs to a round
    (DistributedDataParallel, groups, samplers, loaders) is made in the function. Elsewhere it is called once."""

    @functools.wraps(function)
    def run(state, *args, **more):
        if not isinstance(state, State):
            raise TypeError(f"ddprun.elastic: the first argument of {function.__name__} is a ddprun.State, not {type(state).__name__}")
        state.check()
        channel = _channel()
        if channel is None:
            _begin(state)
            return function(state, *args, **more)
        try:
            state.is_round_over = channel.is_ended
            is_new = True
            while True:
                try:
                    if not is_new:
                        _form()
                    _begin(state)
                    return function(state, *args, **more)
                except Exception as error:
                    if not channel.is_round_over():
                        raise
                    _say_if_own(error)
                    _forget_frames(error)
                _leave()
                state.undo_step()
                channel.next_round(*state.reached())
                is_new = False
        finally:
            channel.close()

    return run


def _channel():
    global _refusal, _was_called
    if "DDPRUN_CHANNEL" not in os.environ:
        return None
    if _was_called:
        _refusal = "a process has one call of an elastic function"
    _was_called = True
    if _refusal is not None:
        _say(f"ddprun.elastic: this worker is stopped when another one fails: {_refusal}")
        return None
    try:
        return _Channel()
    except (OSError, ValueError) as error:
        _say(f"ddprun.elastic: this worker is stopped when another one fails: it has no connection to its agent: {error}")
        return None


def _begin(state):
    global _received
    source = _awaited_state()
    if source is None:
        return
    timeout = _arguments[1]
    _meet(c10d._get_default_store(), "state", dist.get_rank(), dist.get_world_size(), timeout,
          "called its elastic function (before it a new process makes no collective calls)")
    set_timeout = getattr(dist, "set_timeout", None) or c10d._set_pg_timeout  # PyTorch 2.15 and 2.13
    set_timeout(timeout)
    state.receive(*source)
    _received = os.environ.get("DDPRUN_ROUND")


def _say_if_own(error):
    """The round is over because of another rank. What this one has raised itself would be lost."""
    if not isinstance(error, RuntimeError):
        place = traceback.extract_tb(error.__traceback__)[-1]
        _say(f"{type(error).__name__} at the end of the round: {error} ({place.filename}:{place.lineno})")


def _forget_frames(error):
    """They have the groups of the round, whose connections would stay open."""
    found, left = [], [error]
    while left:
        one = left.pop()
        if one is None or any(one is known for known in found):
            continue
        found.append(one)
        traceback.clear_frames(one.__traceback__)
        left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _leave():
    _sockets.shut()
    for wrapper in _wrappers:
        wrapper.forward = _refuse_wrapper
    _wrappers.clear()
    if dist.is_initialized():
        dist.destroy_process_group()
    # A group that was not finished has been counted, and new processes begin at 0.
    c10d._world.group_count = 0
    _sockets.forget()
    # The default group has put one around it, which prints the old rank.
    sys.excepthook = _excepthook


def _refuse_wrapper(*_, **__):
    raise RuntimeError("this DistributedDataParallel is one of an earlier round: build it in the elastic function")


def _detach():
    """Runs in a forked child: the connection is its parent's, and another thread may have had the lock."""
    global _sockets
    _sockets = Sockets()
    if _open_channel is not None:
        _open_channel.close_copy()


os.register_at_fork(after_in_child=_detach)
_watch()
