# SPDX-License-Identifier: Apache-2.0
"""Reports the progress of a training script that runs under ddprun:

    import ddprun

    for step in range(steps):
        train(step)
        ddprun.report(step)         # steps done
    with ddprun.phase("eval"):      # start, train, eval, save, compile or data
        evaluate()

The status page of the rendezvous server shows both for each rank. The report of a failed job shows
the last ones of the rank that failed. All ranks can save the same step before a node is taken away:

        if ddprun.should_save(step):
            save(step)
            ddprun.saved(step)

Under torchrun or alone the calls do nothing, and should_save is False. docs/python-module.md has the rest, and
docs/recovery.md what PyTorch scripts need to keep their processes when another worker fails."""
import os as _os
import sys as _sys
import time as _time

__all__ = ["phase", "report", "saved", "should_save"]

_PAGE_BYTES = 4096
_MAGIC = 0x314E414843504444  # "DDPCHAN1"
_VERSION_AND_SIZE = _PAGE_BYTES << 32 | 1
# Indices of words: agent/channel/FORMAT.md.
_ASKED, _STEP, _REPORTED_AT, _PHASE, _PHASE_SINCE, _ANSWER, _SAVE, _WAIT_ENDS_AT = 8, 9, 10, 11, 12, 13, 24, 25
_PHASES = {"start": 1, "train": 2, "eval": 3, "save": 4, "compile": 5, "data": 6}
_TIME_LIMIT = 0.1  # seconds, for the one attempt to connect

# The layout of a save word: ballot (8 bits), state (2), step (54).
_BALLOT, _STATE, _STEP_MASK = 56, 54, (1 << 54) - 1
_AGREED, _CANCELLED = 2, 3
_SAVING, _SAVED, _DECLINED = 1, 2, 3
_WAIT = 5_000_000_000  # nanoseconds to wait for an agreement when the agent gives no end
_POLL = 0.001

_clock = _time.clock_gettime_ns
_BOOTTIME = _time.CLOCK_BOOTTIME

# The page as 512 numbers: the agent's, or memory of our own that no other process reads. None before the first call.
_words = None
_says_smaller = True
# Stays open as long as the page is this process's.
_connection = None


def report(step):
    """Reports how many steps are done: an integer from 0 to 2**64 - 1. Any thread."""
    words = _words
    if words is None:
        words = _attach()
    try:
        words[_STEP] = step
    except (TypeError, ValueError):
        raise ValueError(f"ddprun.report: a step is an integer from 0 to 2**64 - 1, not {step!r}") from None
    words[_REPORTED_AT] = _clock(_BOOTTIME)


def should_save(step):
    """Whether all ranks must save now: True once, in the same step on each of them, before a node
    is taken away. Every rank calls it at the same place of each step. Steps grow, from 0 to 2**54 -
    3; for a smaller step than before the result is False. One thread."""
    words = _words
    if words is None:
        words = _attach()
    try:
        # The step plus one; 0 means never asked. Written before the agent's word is read: if this
        # read misses a new word, the agent reads this step.
        if not 0 <= step < _STEP_MASK - 1:
            raise ValueError
        if step + 1 < words[_ASKED]:
            return _say_smaller(step, words[_ASKED] - 1)
        words[_ASKED] = step + 1
    except (TypeError, ValueError):
        raise ValueError(f"ddprun.should_save: a step is an integer from 0 to 2**54 - 3, not {step!r}") from None
    save = words[_SAVE]
    return save != 0 and _answer(words, step, save)


def _say_smaller(step, highest):
    """Warns once in a process. Raises no error: otherwise a second loop would end a job although no
    node is about to be taken away."""
    global _says_smaller
    if _says_smaller:
        _says_smaller = False
        try:
            print(f"ddprun.should_save: step {step} after {highest}: False until a step is above that", file=_sys.stderr, flush=True)
        except (AttributeError, OSError, ValueError):
            pass  # there is no stderr
    return False


def _answer(words, step, save):
    """Requires: there is a save point. Returns whether this rank saves now. While the save point is
    only proposed, the other ranks may be about to save: this rank waits until the agent has
    decided, or until the time for the save is over."""
    began_at = _clock(_BOOTTIME)
    while True:
        ballot, state = save >> _BALLOT, save >> _STATE & 3
        if state == _CANCELLED or step < save & _STEP_MASK or words[_ANSWER] >> _BALLOT == ballot:
            return False
        if state == _AGREED:
            words[_ANSWER] = ballot << _BALLOT | _SAVING << _STATE | step
            return True
        if _clock(_BOOTTIME) >= (words[_WAIT_ENDS_AT] or began_at + _WAIT):
            words[_ANSWER] = ballot << _BALLOT | _DECLINED << _STATE | step
            return False
        _time.sleep(_POLL)
        save = words[_SAVE]
        if save == 0:
            return False


def saved(step):
    """Reports that the save for which should_save(step) was True is complete and survives the end
    of this process. Any other step has no effect. Any thread."""
    words = _words
    if words is None:
        return
    answer = words[_ANSWER]
    if answer >> _STATE & 3 == _SAVING and answer & _STEP_MASK == step:
        words[_ANSWER] = answer ^ (_SAVING ^ _SAVED) << _STATE


class phase:
    """Sets this process's phase within the block, and restores the previous phase after it. Blocks
    may be nested. When an exception leaves the block the phase stays set: the report of a failure
    has the phase in which it happened."""

    __slots__ = ("_number", "_before")

    def __init__(self, name):
        if name not in _PHASES:
            raise ValueError(f"ddprun.phase: {name!r} is none of {', '.join(_PHASES)}")
        self._number = _PHASES[name]

    def __enter__(self):
        words = _words
        if words is None:
            words = _attach()
        self._before = words[_PHASE]
        words[_PHASE_SINCE] = _clock(_BOOTTIME)
        words[_PHASE] = self._number
        return self

    def __exit__(self, error, *_):
        if error is not None:
            return
        # Read again: in a forked child the words are others.
        words = _words
        words[_PHASE_SINCE] = _clock(_BOOTTIME)
        words[_PHASE] = self._before


def _own_words():
    return memoryview(bytearray(_PAGE_BYTES)).cast("Q")


def _attach():
    """Runs once in a process. Afterwards there are words, whatever went wrong."""
    global _words, _connection
    words = connection = None
    try:
        words, connection = _ask_agent(_os.environ.get("DDPRUN_CHANNEL", ""))
    except (OSError, ValueError, ImportError):
        # There is no agent, it does not answer in time, or its page has another version.
        pass
    if _words is None:  # no other thread has attached meanwhile
        _words, _connection = words or _own_words(), connection
    return _words


def _ask_agent(way):
    """The words of the agent's page and the connection to it. Raises OSError or ValueError."""
    import socket

    name, _, token = way.rpartition("/")
    if not name.startswith("@"):
        raise ValueError("not started by ddprun")
    until = _time.monotonic() + _TIME_LIMIT
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_TIME_LIMIT)
        connection.connect("\0" + name[1:])
        connection.sendall(f"ddprun-worker/1 {token} {_os.getpid()} python\n".encode())
        connection.settimeout(max(until - _time.monotonic(), 0.001))
        return _receive_page(connection), connection
    except BaseException:
        connection.close()
        raise


def _receive_page(connection):
    import array
    import socket

    came = array.array("i")
    line, more, _, _ = connection.recvmsg(64, socket.CMSG_SPACE(8 * came.itemsize), socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in more:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            came.frombytes(data[:len(data) - len(data) % came.itemsize])
    try:
        if line != b"attached 1\n" or len(came) != 1:
            raise ValueError("refused")
        return _map(came[0])
    finally:
        for descriptor in came:
            _os.close(descriptor)


def _map(descriptor):
    import fcntl
    import mmap

    # Memory that could shrink would kill its readers. (Python names these numbers from 3.9 on.)
    get_seals, seal_shrink = 1034, 2
    if _os.fstat(descriptor).st_size != _PAGE_BYTES or not fcntl.fcntl(descriptor, get_seals) & seal_shrink:
        raise ValueError("not a page")
    words = memoryview(mmap.mmap(descriptor, _PAGE_BYTES)).cast("Q")
    if words[0] != _MAGIC or words[1] != _VERSION_AND_SIZE:
        raise ValueError("a page of another version")
    return words


def _detach():
    """Runs in a forked child, because the page is its parent's."""
    global _words, _connection
    _words = _own_words()
    _os.environ.pop("DDPRUN_CHANNEL", None)  # for processes that the child starts
    if _connection is not None:
        _connection.close()
        _connection = None


_os.register_at_fork(after_in_child=_detach)


def __getattr__(name):
    # These need PyTorch: it is imported with the first of them.
    if name in ("State", "elastic", "init_process_group"):
        from ddprun import _elastic

        return getattr(_elastic, name)
    raise AttributeError(f"module 'ddprun' has no attribute {name!r}")
