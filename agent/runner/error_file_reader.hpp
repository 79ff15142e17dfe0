// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/error_file.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

/// Reads and removes what workers wrote about their own failure, on a thread of its own: a disk
/// that hangs must not stop the agent, nor its end.
class ErrorFileReader {
public:
    using OnRead = std::function<void(std::optional<ErrorReport>)>;

    /// Answers are posted to `agent`.
    explicit ErrorFileReader(boost::asio::io_context& agent);
    /// Waits a moment for what was asked; a disk that hangs is left to itself.
    ~ErrorFileReader();
    ErrorFileReader(const ErrorFileReader&) = delete;
    ErrorFileReader& operator=(const ErrorFileReader&) = delete;

    /// Nothing when there is no such file or it makes no sense; it is removed in any case.
    void read(std::string path, OnRead on_read);
    /// Whether they exist or not.
    void remove(std::vector<std::string> paths);

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
