// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/machine_watch.hpp"

#include "rendezvous/base/limits.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace ddprun::agent {
namespace {

std::string read_kernel_file(const std::string& path) {
    return read_file(path, limits::max_kernel_file_bytes).value_or(std::string{});
}

std::optional<std::uint64_t> count_oom_kills(const MemoryCgroup& cgroup) {
    const auto* name = cgroup.version == 2 ? "/memory.events" : "/memory.oom_control";
    return oom_kill_count(read_kernel_file(cgroup.folder + name));
}

/// A limit further up holds too: a pod's, a Slurm job's.
std::optional<std::uint64_t> tightest_limit(const MemoryCgroup& cgroup) {
    const auto* name = cgroup.version == 2 ? "/memory.max" : "/memory.limit_in_bytes";
    std::optional<std::uint64_t> tightest;
    for (auto folder = cgroup.folder; folder.size() >= cgroup.top.size() && !folder.empty();
         folder.resize(std::min(folder.rfind('/'), folder.size()))) {
        const auto limit = memory_limit(read_kernel_file(folder + name));
        if (limit) tightest = std::min(tightest.value_or(*limit), *limit);
        if (folder.find('/') == std::string::npos) break;
    }
    return tightest;
}

std::optional<MachineFacts::SharedMemory> look_at_shared_memory() {
    struct statvfs about {};
    if (::statvfs("/dev/shm", &about) != 0) return std::nullopt;
    return MachineFacts::SharedMemory{
        static_cast<std::uint64_t>(about.f_blocks) * about.f_frsize,
        static_cast<std::uint64_t>(about.f_bavail) * about.f_frsize};
}

/// The log numbers processes as the machine does; a container's workers have other numbers there.
bool has_machine_pids() {
    constexpr ino_t first_pid_namespace = 0xEFFFFFFC;
    struct stat about {};
    return ::stat("/proc/self/ns/pid", &about) == 0 && about.st_ino == first_pid_namespace;
}

}  // namespace

std::optional<std::string> read_file(const std::string& path, std::size_t most_bytes) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return std::nullopt;
    std::string text;
    struct stat about {};
    if (::fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
        std::array<char, 16 * 1024> chunk{};
        while (text.size() < most_bytes) {
            const auto size = ::read(file, chunk.data(), chunk.size());
            if (size <= 0) break;
            text.append(chunk.data(), static_cast<std::size_t>(size));
        }
    }
    ::close(file);
    if (text.size() > most_bytes) text.resize(most_bytes);
    return text;
}

MachineWatch::~MachineWatch() {
    if (kernel_log_ >= 0) ::close(kernel_log_);
}

void MachineWatch::begin() {
    cgroup_ = find_memory_cgroup(
        read_kernel_file("/proc/self/cgroup"), read_kernel_file("/proc/self/mountinfo"));
    oom_kills_before_ = cgroup_ ? count_oom_kills(*cgroup_) : std::nullopt;
    if (kernel_log_ < 0 && has_machine_pids())
        kernel_log_ = ::open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    // Only what comes from now on.
    if (kernel_log_ >= 0) ::lseek(kernel_log_, 0, SEEK_END);
}

MachineFacts MachineWatch::look(int pid) {
    MachineFacts facts;
    if (cgroup_ && oom_kills_before_) {
        const auto now = count_oom_kills(*cgroup_);
        if (now) facts.oom_kills = *now - std::min(*now, *oom_kills_before_);
        facts.memory_limit_bytes = tightest_limit(*cgroup_);
    }
    facts.shared_memory = look_at_shared_memory();
    read_kernel_log(pid, facts);
    return facts;
}

void MachineWatch::read_kernel_log(int pid, MachineFacts& facts) {
    if (kernel_log_ < 0) return;
    std::array<char, 8 * 1024> record{};
    for (std::size_t count = 0; count < limits::max_kernel_log_records; ++count) {
        const auto size = ::read(kernel_log_, record.data(), record.size());
        // Records that were overwritten before they were read.
        if (size < 0 && errno == EPIPE) continue;
        if (size <= 0) return;
        const std::string_view text(record.data(), static_cast<std::size_t>(size));
        const std::string message{
            kernel_message(text).substr(0, limits::max_failure_message_bytes / 2)};
        if (is_oom_kill_of(message, pid))
            facts.oom_line = message;
        else if (is_about_crash(message, pid))
            facts.crash_line = message;
    }
}

}  // namespace ddprun::agent
