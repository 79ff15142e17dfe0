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

/// The other end of a local socket, as the system says; pid 0: of another pid namespace.
struct LocalPeer {
    int pid = 0;
    unsigned user = 0;
};

/// Listens at an abstract local socket: no file, gone with the process, closed in every program
/// that this process starts. Lives on the thread of its `io_context`.
class LocalListener {
public:
    /// The socket does not block, and belongs to the callee.
    using OnCaller = std::function<void(int socket, LocalPeer peer)>;

    LocalListener(boost::asio::io_context& io, OnCaller on_caller);
    LocalListener(const LocalListener&) = delete;
    LocalListener& operator=(const LocalListener&) = delete;

    /// At `name`, or where that is taken at one with `-` and 8 random digits behind it: of two
    /// containers that share a network each may have a process of the same number.
    Result<> listen(const std::string& name, Random& random);
    /// As `ss` shows it, with `@`; empty: it does not listen.
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
