// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/cause_in_words.hpp"
#include "agent/report/error_file.hpp"
#include "agent/runner/blocking_thread.hpp"
#include "rendezvous/control/message.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::agent {

class ErrorFolder;
class MachineWatch;

/// What is found out about a dead worker and kept of it: its error file and the machine's facts
/// are read, reports are written. Lives on the agent's thread; the disk is touched on another.
class PostMortem {
public:
    struct Death {
        std::string error_file;
        /// The file belongs to the user's logs and stays.
        bool keeps_error_file = false;
        int pid = 0;
        control::WorkerEnd end;
    };
    struct Finding {
        std::optional<ErrorReport> report;
        /// The error file as it is; empty when there is none or it makes no sense.
        std::string original;
        CauseInWords cause;
        std::int64_t unix_time = 0;
    };
    using OnFound = std::function<void(Finding)>;

    explicit PostMortem(boost::asio::io_context& agent);
    PostMortem(const PostMortem&) = delete;
    PostMortem& operator=(const PostMortem&) = delete;

    /// To be called, on any thread, when a round's workers are about to start. May block. Makes
    /// `folder` for their error files, if it is not empty; where it cannot be made they have none.
    /// It stays locked until this object ends; the keeper removes it.
    std::function<void()> beginning(std::string folder) const;
    /// Any other look at the workers that may block.
    void look(BlockingThread::Work work) { thread_.post(std::move(work)); }
    void examine(Death death, OnFound on_found);
    /// Whether they exist or not.
    void remove(std::vector<std::string> paths);
    /// Atomically where the folder allows it: a reader sees the whole text or what was there. A
    /// file that cannot be written is logged.
    void write(std::string path, std::string text);

private:
    std::shared_ptr<MachineWatch> machine_;
    std::shared_ptr<ErrorFolder> error_folder_;
    BlockingThread thread_;
};

/// Seconds since 1970, for people.
std::int64_t unix_time_now();

}  // namespace ddprun::agent
