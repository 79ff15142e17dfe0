// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/error_file.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// Reads and removes what workers wrote about their own failure, on a thread of its own: a disk
/// that hangs must not stop the agent.
class ErrorFileReader {
public:
    using OnRead = std::function<void(std::optional<ErrorReport>)>;

    /// Answers are posted to `agent`.
    explicit ErrorFileReader(boost::asio::io_context& agent) : agent_(agent) {}

    /// Nothing when there is no such file or it makes no sense; it is removed in any case.
    void read(std::string path, OnRead on_read);
    /// Whether they exist or not.
    void remove(std::vector<std::string> paths);

private:
    boost::asio::io_context& agent_;
    /// Its destructor waits for what was asked.
    boost::asio::thread_pool thread_{1};
};

}  // namespace ddprun::agent
