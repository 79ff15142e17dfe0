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

/// Collects and keeps the facts about a dead worker: reads its error file and the machine's facts,
/// writes reports. Lives on the agent's thread; the disk is accessed on another thread.
class PostMortem {
public:
    struct Death {
        std::string error_file;
        /// The file belongs to the user's logs and is kept.
        bool keeps_error_file = false;
        int pid = 0;
        control::WorkerEnd end;
    };
    struct Finding {
        std::optional<ErrorReport> report;
        /// The unchanged error file; empty: there is none, or it is invalid.
        std::string original;
        CauseInWords cause;
        std::int64_t unix_time = 0;
    };
    using OnFound = std::function<void(Finding)>;

    explicit PostMortem(boost::asio::io_context& agent);
    PostMortem(const PostMortem&) = delete;
    PostMortem& operator=(const PostMortem&) = delete;

    /// Returns the work for the moment before a round's workers start. The work runs on any thread
    /// and may block. It makes `folder` for the workers' error files, unless the name is empty; if
    /// that fails, they have no error files. The folder is locked until this object ends; the
    /// keeper removes it.
    std::function<void()> beginning(std::string folder) const;
    /// Runs any other inspection of the workers that may block.
    void look(BlockingThread::Work work) { thread_.post(std::move(work)); }
    void examine(Death death, OnFound on_found);
    /// Removes these files; missing ones are ignored.
    void remove(std::vector<std::string> paths);
    /// Atomic if the folder allows it: a reader sees the whole new text or the whole old text. A
    /// failure is logged.
    void write(std::string path, std::string text);

private:
    std::shared_ptr<MachineWatch> machine_;
    std::shared_ptr<ErrorFolder> error_folder_;
    BlockingThread thread_;
};

/// Seconds since 1970 by the system clock, for display only.
std::int64_t unix_time_now();

}  // namespace ddprun::agent
