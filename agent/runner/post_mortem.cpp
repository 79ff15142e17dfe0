// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/post_mortem.hpp"

#include "agent/process/proc_files.hpp"
#include "agent/report/kernel_text.hpp"
#include "agent/runner/replace_file.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

namespace ddprun::agent {
namespace {

/// Reads the first `most_bytes` of a small file of the kernel or of a worker. None: the file cannot
/// be opened. Empty: it is no regular file, since reading must not block on a pipe, or it belongs
/// to another user than `owner`, if that is given.
std::optional<std::string> read_file(
    const std::string& path,
    std::size_t most_bytes,
    int flags = 0,
    std::optional<uid_t> owner = std::nullopt) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (file < 0) return std::nullopt;
    std::string text;
    struct stat about {};
    const bool is_meant =
        ::fstat(file, &about) == 0 && S_ISREG(about.st_mode) && (!owner || about.st_uid == *owner);
    if (is_meant) {
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

std::string read_kernel_file(const std::string& path) {
    return read_file(path, limits::max_kernel_file_bytes).value_or(std::string{});
}

std::optional<std::uint64_t> count_oom_kills(const MemoryCgroup& cgroup) {
    const auto* name = cgroup.version == 2 ? "/memory.events" : "/memory.oom_control";
    return oom_kill_count(read_kernel_file(cgroup.folder + name));
}

/// A limit of a parent cgroup applies too, e.g. a pod's or a Slurm job's.
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

void read_kernel_log(int log, int pid, MachineFacts& facts) {
    std::array<char, 8 * 1024> record{};
    for (std::size_t count = 0; count < limits::max_kernel_log_records; ++count) {
        const auto size = ::read(log, record.data(), record.size());
        // Some records were overwritten before they were read.
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

}  // namespace

/// Reads machine facts before and after a worker's death: the memory cgroup's counters, the
/// kernel's log if it may be read, /dev/shm. Every call may block. From any thread.
class MachineWatch {
public:
    MachineWatch() = default;
    ~MachineWatch();
    MachineWatch(const MachineWatch&) = delete;
    MachineWatch& operator=(const MachineWatch&) = delete;

    /// A round's workers are about to start: counting begins here.
    void begin();
    /// Call after the death of the worker `pid`.
    MachineFacts look(int pid);

private:
    struct Before {
        std::optional<MemoryCgroup> cgroup;
        std::optional<std::uint64_t> oom_kills;
        int kernel_log = -1;
    };

    std::mutex mutex_;
    Before before_;
};

MachineWatch::~MachineWatch() {
    if (before_.kernel_log >= 0) ::close(before_.kernel_log);
}

void MachineWatch::begin() {
    auto cgroup = find_memory_cgroup(
        read_kernel_file("/proc/self/cgroup"), read_kernel_file("/proc/self/mountinfo"));
    const auto oom_kills = cgroup ? count_oom_kills(*cgroup) : std::nullopt;
    const std::lock_guard lock(mutex_);
    before_.cgroup = std::move(cgroup);
    before_.oom_kills = oom_kills;
    if (before_.kernel_log < 0 && has_machine_pids())
        before_.kernel_log = ::open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    // Skips records from before the round.
    if (before_.kernel_log >= 0) ::lseek(before_.kernel_log, 0, SEEK_END);
}

MachineFacts MachineWatch::look(int pid) {
    const auto before = [this] {
        const std::lock_guard lock(mutex_);
        return before_;
    }();
    MachineFacts facts;
    if (before.cgroup && before.oom_kills) {
        const auto now = count_oom_kills(*before.cgroup);
        if (now) facts.oom_kills = *now - std::min(*now, *before.oom_kills);
        facts.memory_limit_bytes = tightest_limit(*before.cgroup);
    }
    facts.shared_memory = look_at_shared_memory();
    if (before.kernel_log >= 0) read_kernel_log(before.kernel_log, pid, facts);
    return facts;
}

/// The folder for the workers' error files, open and locked: programs that clean up temporary files
/// (systemd-tmpfiles) skip a locked folder, even if it is old and empty. From any thread.
class ErrorFolder {
public:
    ErrorFolder() = default;
    ~ErrorFolder();
    ErrorFolder(const ErrorFolder&) = delete;
    ErrorFolder& operator=(const ErrorFolder&) = delete;

    /// Makes the folder, unless an earlier round made it.
    void make(const std::string& path);
    /// The owner of the files in the folder. Differs from this user's number if the file system
    /// maps users (root on NFS).
    uid_t owner();

private:
    std::mutex mutex_;
    int folder_ = -1;
};

ErrorFolder::~ErrorFolder() {
    if (folder_ >= 0) ::close(folder_);
}

void ErrorFolder::make(const std::string& path) {
    const bool is_new = ::mkdir(path.c_str(), 0700) == 0;
    const std::lock_guard lock(mutex_);
    if (folder_ >= 0 && !is_new) return;
    if (folder_ >= 0) ::close(folder_);
    folder_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    // On a file system without locks no clean-up program checks for a lock.
    if (folder_ >= 0) ::flock(folder_, LOCK_SH | LOCK_NB);
}

uid_t ErrorFolder::owner() {
    const std::lock_guard lock(mutex_);
    struct stat about {};
    return folder_ >= 0 && ::fstat(folder_, &about) == 0 ? about.st_uid : ::geteuid();
}

std::int64_t unix_time_now() {
    return static_cast<std::int64_t>(std::time(nullptr));
}

PostMortem::PostMortem(boost::asio::io_context& agent)
    : machine_(std::make_shared<MachineWatch>()),
      error_folder_(std::make_shared<ErrorFolder>()),
      thread_(agent) {}

std::function<void()> PostMortem::beginning(std::string folder) const {
    return [machine = machine_, held = error_folder_, folder = std::move(folder)] {
        if (!folder.empty()) held->make(folder);
        machine->begin();
    };
}

void PostMortem::examine(Death death, OnFound on_found) {
    const auto now = unix_time_now();
    thread_.post(
        [machine = machine_,
         folder = error_folder_,
         death = std::move(death),
         on_found = std::move(on_found),
         now]() -> BlockingThread::Answer {
            Finding finding;
            const auto facts = machine->look(death.pid);
            finding.cause = cause_in_words(death.end, facts);
            // The user's log folder may be on a file system that does not report real owners.
            const auto owner =
                death.keeps_error_file ? std::nullopt : std::optional{folder->owner()};
            auto text =
                read_file(death.error_file, limits::max_error_file_bytes + 1, O_NOFOLLOW, owner);
            if (text) finding.report = parse_error_file(*text);
            if (finding.report) finding.original = std::move(*text);
            if (text && !death.keeps_error_file) ::unlink(death.error_file.c_str());
            finding.unix_time = finding.report ? finding.report->unix_time.value_or(now) : now;
            return [on_found, finding = std::move(finding)]() mutable {
                on_found(std::move(finding));
            };
        });
}

void PostMortem::remove(std::vector<std::string> paths) {
    thread_.post([paths = std::move(paths)]() -> BlockingThread::Answer {
        for (const auto& path : paths)
            ::unlink(path.c_str());
        return {};
    });
}

void PostMortem::write(std::string path, std::string text) {
    thread_.post([path = std::move(path), text = std::move(text)]() -> BlockingThread::Answer {
        const int problem = replace_file(path, text);
        if (problem != 0)
            log::warning(
                "report.not_written",
                {{"path", path}, {"reason", std::generic_category().message(problem)}});
        return {};
    });
}

}  // namespace ddprun::agent
