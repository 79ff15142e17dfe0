// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace ddprun::server {

/// Writes the daemon's log on a separate thread, so that a stopped terminal, or a pipe that is not
/// read, delays no job. Lines beyond `limits::max_log_backlog_bytes` are left out and counted; the
/// count is written once there is room again.
class LogWriter {
public:
    /// The caller keeps `descriptor`, which stays blocking, since other processes may share it.
    explicit LogWriter(int descriptor);
    /// Writes the remaining lines, for at most `limits::log_flush_timeout`.
    ~LogWriter();
    LogWriter(const LogWriter&) = delete;
    LogWriter& operator=(const LogWriter&) = delete;

    /// May be called from any thread; never waits for the descriptor.
    void write(std::string line);

private:
    void run();
    bool write_all(const std::string& text);
    bool may_go_on() const;

    int descriptor_;
    mutable std::mutex mutex_;
    std::condition_variable has_work_;
    std::string backlog_;
    std::size_t lines_left_out_ = 0;
    bool is_ending_ = false;
    std::thread thread_;
};

}  // namespace ddprun::server
