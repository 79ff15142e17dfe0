// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/xid_line.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

namespace ddprun::agent {

/// Follows the kernel's log from its end for errors of GPUs. Has no effect where there is no NVIDIA
/// driver or the log cannot be read. At most 1,000 records a second are read: the kernel keeps the
/// rest as long as it has room. Lives on the agent's thread.
class GpuErrors {
public:
    using OnXid = std::function<void(health::XidLine)>;

    GpuErrors(boost::asio::io_context& io, OnXid on_xid);

    /// Call once.
    void follow();

private:
    void wait();
    void read();
    void take(std::string_view record);
    void begin_second();

    OnXid on_xid_;
    boost::asio::posix::stream_descriptor log_;
    boost::asio::steady_timer second_;
    /// A read of /dev/kmsg fails if a record is longer.
    std::array<char, 8192> buffer_{};
    /// How many records were read in this second; 0: no second has begun.
    int records_ = 0;
    /// The errors passed on in this second: a fault may write the same error hundreds of times.
    std::set<std::tuple<std::string, int, std::optional<int>, std::string>> seen_;
    bool has_missed_ = false;
};

/// Why GPU errors cannot be noticed here; empty: they can.
std::string why_no_gpu_errors();

}  // namespace ddprun::agent
