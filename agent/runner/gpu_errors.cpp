// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/gpu_errors.hpp"

#include "rendezvous/base/log.hpp"
#include "rendezvous/base/result.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr const char* kernel_log = "/dev/kmsg";
constexpr const char* driver_folder = "/proc/driver/nvidia";
constexpr int max_records_a_second = 1000;
/// The maximum number of different errors that are passed on in a second.
constexpr std::size_t max_xids_a_second = 64;

bool has_driver() {
    return ::access(driver_folder, F_OK) == 0;
}

/// Opens the kernel's log at its end: records of earlier jobs do not count. The caller closes it.
/// The context of a failure is the message to show.
Result<int> open_log() {
    const int file = ::open(kernel_log, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (file < 0) {
        const auto failed = system_code(errno);
        return Failure{failed, std::string{kernel_log} + ": " + failed.message()};
    }
    // In some containers this path is the console.
    if (::isatty(file) == 1) {
        ::close(file);
        return Failure{system_code(EINVAL), std::string{kernel_log} + ": is a terminal"};
    }
    ::lseek(file, 0, SEEK_END);
    return file;
}

}  // namespace

std::string why_no_gpu_errors() {
    if (!has_driver()) return "no NVIDIA driver here";
    const auto file = open_log();
    if (!file) return file.error().context;
    ::close(*file);
    return {};
}

GpuErrors::GpuErrors(boost::asio::io_context& io, OnXid on_xid)
    : on_xid_(std::move(on_xid)),
      log_(io),
      second_(io) {}

void GpuErrors::follow() {
    if (!has_driver()) return;
    const auto file = open_log();
    if (!file) return log::info("gpu_errors.not_read", {{"reason", file.error().context}});
    boost::system::error_code failed;
    log_.assign(*file, failed);
    if (failed) {
        ::close(*file);
        return log::info("gpu_errors.not_read", {{"reason", failed.message()}});
    }
    wait();
}

void GpuErrors::wait() {
    log_.async_wait(
        boost::asio::posix::stream_descriptor::wait_read,
        [this](const boost::system::error_code& ec) {
            if (!ec) read();
        });
}

void GpuErrors::read() {
    while (records_ < max_records_a_second) {
        const auto count = ::read(log_.native_handle(), buffer_.data(), buffer_.size());
        if (count < 0 && errno == EAGAIN) return wait();
        if (count < 0 && errno == EINTR) continue;
        begin_second();
        // The kernel has overwritten records that were not read; the next read goes on behind them.
        if (count < 0 && errno == EPIPE) {
            if (!std::exchange(has_missed_, true)) log::warning("gpu_errors.missed");
            ++records_;
            continue;
        }
        if (count <= 0) return log_.close();
        // /dev/kmsg gives one record, with its further lines; a pipe gives several.
        std::string_view records{buffer_.data(), static_cast<std::size_t>(count)};
        while (!records.empty()) {
            const auto end = std::min(records.find('\n'), records.size());
            ++records_;
            take(records.substr(0, end));
            records.remove_prefix(std::min(end + 1, records.size()));
        }
    }
}

void GpuErrors::take(std::string_view record) {
    auto line = health::xid_line(record);
    if (!line || seen_.size() >= max_xids_a_second) return;
    if (seen_.emplace(line->gpu, line->code, line->pid, line->text).second)
        on_xid_(std::move(*line));
}

/// At the end of the second, reading continues if the bound had stopped it.
void GpuErrors::begin_second() {
    if (records_ > 0) return;
    second_.expires_after(std::chrono::seconds{1});
    second_.async_wait([this](const boost::system::error_code& ec) {
        if (ec) return;
        const bool is_full = records_ >= max_records_a_second;
        records_ = 0;
        seen_.clear();
        if (is_full && log_.is_open()) read();
    });
}

}  // namespace ddprun::agent
