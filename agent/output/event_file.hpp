// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/event.hpp"

#include <memory>
#include <string>

namespace ddprun::agent {

/// Appends events to a file, on a separate thread: a disk that does not answer delays no other
/// work. An error is logged once; the job goes on. Without a path it does nothing.
class EventFile {
public:
    explicit EventFile(std::string path);
    /// Writes pending events, for at most limits::console_flush_timeout.
    ~EventFile();
    EventFile(const EventFile&) = delete;
    EventFile& operator=(const EventFile&) = delete;

    /// Adds the time of day to the event. Never blocks; when limits::max_waiting_events are already
    /// waiting, the event is dropped.
    void write(Event event);

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace ddprun::agent
