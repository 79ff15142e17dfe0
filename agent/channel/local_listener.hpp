// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/random.hpp"
#include "rendezvous/base/result.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <string>

namespace ddprun::agent::channel {

/// The peer of a local socket, as reported by the system; pid 0: the peer is in another pid
/// namespace.
struct LocalPeer {
    int pid = 0;
    unsigned user = 0;
};

/// Listens at an abstract local socket: it is no file, vanishes with the process, and is closed in
/// every program that this process starts. Lives on the thread of its `io_context`.
class LocalListener {
public:
    /// Passes on a non-blocking socket, which the callee owns.
    using OnCaller = std::function<void(int socket, LocalPeer peer)>;

    LocalListener(boost::asio::io_context& io, OnCaller on_caller);
    LocalListener(const LocalListener&) = delete;
    LocalListener& operator=(const LocalListener&) = delete;

    /// Listens at `name`, or if that is taken, at `name` with `-` and 8 random digits. Two
    /// containers that share a network may each have a process with the same pid.
    Result<> listen(const std::string& name, Random& random);
    /// The name as `ss` shows it, with `@`; empty: not listening.
    const std::string& name() const { return name_; }

private:
    using Descriptor = boost::asio::posix::stream_descriptor;

    void wait_for_callers();
    void accept_all();

    OnCaller on_caller_;
    Descriptor listener_;
    std::string name_;
    boost::asio::steady_timer accept_again_;
};

}  // namespace ddprun::agent::channel
