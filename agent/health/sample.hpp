// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What a worker process does at one moment, observed from outside: the process is not stopped and
/// need not contain anything of ddprun. Two samples give a `Site` (classify.hpp).
namespace ddprun::agent::health {

/// One call in a Python stack. Names are printable and bounded.
struct PythonFrame {
    /// Its qualified name without enclosing functions: "all_reduce", "Loader.read".
    std::string function;
    /// The file as named by the interpreter, usually a whole path.
    std::string file;
    /// 0: not known.
    int line = 0;

    bool operator==(const PythonFrame&) const = default;
};

struct PythonThread {
    /// The kernel's thread id; the main thread's is the process id. 0: not known.
    int tid = 0;
    /// Innermost first. Empty: the thread runs no Python code.
    std::vector<PythonFrame> frames;
    /// The position of the innermost frame, which changes when the code proceeds. 0 without frames.
    std::uint64_t instruction = 0;
    /// The innermost function contains a call of something named `wait`, not necessarily the
    /// current call.
    bool calls_wait = false;
    /// How long the thread has run on a processor so far; none when that is not shown.
    std::optional<Duration> run_time = std::nullopt;

    bool operator==(const PythonThread&) const = default;
};

/// One worker at one moment.
struct Sample {
    int pid = 0;
    /// State of the main thread: R, S, D, T, t, Z ...; '?' when it is not shown or there is no
    /// process.
    char state = '?';
    /// A debugger is attached to the process.
    bool is_traced = false;
    /// User and system time of the process and its descendants.
    Duration cpu_time{};
    /// Bytes that they have read and written: of files, pipes and sockets.
    std::uint64_t io_bytes = 0;
    /// Addresses to which the process is opening TCP connections (SYN_SENT): "10.0.0.7:80".
    std::vector<std::string> connecting_to;
    /// Whether it has an established connection to the round's store (MASTER_PORT in its
    /// environment); none when that is not shown.
    std::optional<bool> is_store_connected = std::nullopt;
    /// The main thread's place in the kernel: "futex_wait_queue". Empty: none, or not shown.
    std::string wait_channel;
    /// The main thread's system call: "read(2)". Empty: none, or not shown.
    std::string system_call;
    /// The object of that call: "/data/shard-17", "pipe:[4711]", "socket to 10.0.0.1:29500". May be
    /// empty.
    std::string system_call_object;
    /// That object is the connection to the round's store.
    bool is_at_store = false;
    /// One for each thread in the interpreter's list.
    std::vector<PythonThread> threads;
    /// Why there are no `threads`: "no Python interpreter", "Python 3.10 ...".
    std::string no_frames;
    /// Whether the worker is inside a collective call, if it reports that (the C++ SDK does).
    std::optional<bool> in_collective = std::nullopt;

    bool is_there() const { return state != '?'; }
    bool operator==(const Sample&) const = default;
};

}  // namespace ddprun::agent::health
