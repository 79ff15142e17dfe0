// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What a worker process does at this moment, seen from outside: it is neither stopped nor asked,
/// and need not contain anything of ddprun. Two samples give a `Site` (classify.hpp).
namespace ddprun::agent::health {

/// One call in a Python stack. Names are printable and bounded.
struct PythonFrame {
    /// "all_reduce", "Loader.read": its qualified name, from the innermost function on.
    std::string function;
    /// As the interpreter knows it, usually the whole path.
    std::string file;
    /// 0: not known.
    int line = 0;

    bool operator==(const PythonFrame&) const = default;
};

struct PythonThread {
    /// The kernel's number; the main thread has the process's. 0: not known.
    int tid = 0;
    /// Innermost first. Empty: the thread runs no Python code.
    std::vector<PythonFrame> frames;
    /// Where the innermost frame is: another value when the code goes on. 0 without frames.
    std::uint64_t instruction = 0;
    /// The innermost function calls something that is named `wait`, here or elsewhere.
    bool calls_wait = false;
    /// How long the thread has run on a processor so far; nothing where that is not shown.
    std::optional<Duration> run_time = std::nullopt;

    bool operator==(const PythonThread&) const = default;
};

/// One worker at one moment.
struct Sample {
    int pid = 0;
    /// Of the main thread: R, S, D, T, t, Z ...; '?' when that is not shown or there is no process.
    char state = '?';
    /// By a debugger that is attached to the process.
    bool is_traced = false;
    /// User and system time of the process and of the processes below it.
    Duration cpu_time{};
    /// What they have read and written: of files, pipes and sockets.
    std::uint64_t io_bytes = 0;
    /// Addresses with which the process is establishing a TCP connection (SYN_SENT): "10.0.0.7:80".
    std::vector<std::string> connecting_to;
    /// It has a connection to the round's store (MASTER_PORT of its environment) established;
    /// nothing where that is not shown.
    std::optional<bool> is_store_connected = std::nullopt;
    /// Where in the kernel the main thread is: "futex_wait_queue". Empty: in none, or not shown.
    std::string wait_channel;
    /// The main thread's system call: "read(2)". Empty: in none, or not shown.
    std::string system_call;
    /// What that call is about: "/data/shard-17", "pipe:[4711]", "socket to 10.0.0.1:29500". May be
    /// empty.
    std::string system_call_object;
    /// That is the connection to the round's store.
    bool is_at_store = false;
    /// One for each thread that the interpreter knows.
    std::vector<PythonThread> threads;
    /// Why there are no `threads`: "no Python interpreter", "Python 3.10 ...".
    std::string no_frames;
    /// Of a worker that reports it (the C++ SDK): it is inside a collective call.
    std::optional<bool> in_collective = std::nullopt;

    bool is_there() const { return state != '?'; }
    bool operator==(const Sample&) const = default;
};

}  // namespace ddprun::agent::health
