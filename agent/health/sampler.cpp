// SPDX-License-Identifier: Apache-2.0
#include "agent/health/sampler.hpp"

#include "agent/health/find_python.hpp"
#include "agent/health/kernel_facts.hpp"
#include "agent/health/python_frames.hpp"
#include "agent/plan/socket_table.hpp"
#include "rendezvous/base/descriptor.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/printable.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <span>
#include <string_view>

namespace ddprun::agent::health {
namespace {

std::string file_of(int pid, std::string_view name) {
    return "/proc/" + std::to_string(pid) + "/" + std::string{name};
}

/// The beginning of a file; empty when it cannot be read.
std::string content_of(const std::string& path, std::size_t most_bytes) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text;
    if (file.get() < 0) return text;
    constexpr std::size_t at_once = 16 * 1024;
    while (text.size() < most_bytes) {
        const auto before = text.size();
        text.resize(std::min(before + at_once, most_bytes));
        const auto size = ::read(file.get(), text.data() + before, text.size() - before);
        text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        if (size <= 0) break;
    }
    return text;
}

std::string content_of(int pid, std::string_view name) {
    return content_of(file_of(pid, name), limits::max_process_file_bytes);
}

std::string target_of(const std::string& link) {
    std::array<char, 4096> target;
    const auto size = ::readlink(link.c_str(), target.data(), target.size());
    return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : std::string{};
}

/// Names in a folder that are numbers, the first `most` of them.
std::vector<int> numbers_in_folder(const std::string& path, std::size_t most) {
    struct CloseDirectory {
        void operator()(DIR* folder) const { ::closedir(folder); }
    };
    const std::unique_ptr<DIR, CloseDirectory> folder(::opendir(path.c_str()));
    std::vector<int> numbers;
    if (!folder) return numbers;
    while (const auto* entry = ::readdir(folder.get())) {
        if (numbers.size() == most) break;
        const std::string_view name{entry->d_name};
        int number = 0;
        const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
        if (parsed.ec == std::errc{}) numbers.push_back(number);
    }
    return numbers;
}

ReadMemory memory_of(int pid) {
    return [pid](std::uint64_t address, std::span<std::byte> into) {
        const iovec local{into.data(), into.size()};
        // An address of the other process, which only the kernel dereferences.
        const iovec remote{
            reinterpret_cast<void*>(address), into.size()};  // NOLINT(performance-no-int-to-ptr)
        const auto size = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
        return size == static_cast<ssize_t>(into.size());
    };
}

// ---- the process and those below it -------------------------------------------------------------

void add_children_of(int pid, std::vector<int>& pids) {
    for (const int thread : numbers_in_folder(file_of(pid, "task"), limits::max_sampled_threads)) {
        const auto text = content_of(pid, "task/" + std::to_string(thread) + "/children");
        const auto* at = text.data();
        const auto* const end = at + text.size();
        for (int child = 0; pids.size() < limits::max_sampled_processes; ++at) {
            const auto parsed = std::from_chars(at, end, child);
            if (parsed.ec != std::errc{}) break;
            pids.push_back(child);
            at = parsed.ptr;
            if (at == end) break;
        }
    }
}

void add_use(int pid, Sample& sample) {
    std::vector<int> pids{pid};
    const auto ticks_per_second = static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
    std::uint64_t ticks = 0;
    for (std::size_t i = 0; i < pids.size(); ++i) {
        if (const auto stat = parse_stat(content_of(pids[i], "stat"))) ticks += stat->cpu_ticks;
        sample.io_bytes += io_bytes_in(content_of(pids[i], "io"));
        add_children_of(pids[i], pids);
    }
    constexpr std::uint64_t per_second = 1'000'000'000;
    sample.cpu_time = Duration{static_cast<Duration::rep>(ticks * (per_second / ticks_per_second))};
}

// ---- connections --------------------------------------------------------------------------------

/// The connections of one network, by the inodes of their sockets.
struct Connections {
    std::map<std::uint64_t, TcpConnection> by_inode;
    bool is_readable = false;
};

/// Reading them takes the kernel a millisecond or more, however few there are, so processes of one
/// network share them.
class Networks {
public:
    const Connections& of(int pid) {
        auto name = target_of(file_of(pid, "ns/net"));
        if (name.empty()) name = std::to_string(pid);
        const auto [network, is_new] = by_name_.try_emplace(std::move(name));
        if (is_new)
            for (const char* table : {"net/tcp", "net/tcp6"})
                add(file_of(pid, table), network->second);
        return network->second;
    }

private:
    static void add(const std::string& path, Connections& connections) {
        const auto text = content_of(path, limits::max_process_list_bytes);
        connections.is_readable |= !text.empty();
        for (auto& connection : tcp_connections(text))
            connections.by_inode.emplace(connection.inode, std::move(connection));
    }

    std::map<std::string, Connections> by_name_;
};

/// The kernel's facts about the sockets of a process.
class Sockets {
public:
    Sockets(int pid, const Connections& connections) : pid_(pid), connections_(connections) {
        const auto port = variable_in(content_of(pid, "environ"), "MASTER_PORT").value_or("");
        std::from_chars(port.data(), port.data() + port.size(), store_port_);
    }

    const TcpConnection* of(const std::string& descriptor_target) const {
        const auto found = connections_.by_inode.find(socket_inode(descriptor_target));
        return found == connections_.by_inode.end() ? nullptr : &found->second;
    }

    bool is_to_store(const TcpConnection& connection) const {
        return store_port_ != 0 && connection.remote.port == store_port_;
    }

    /// Examines all descriptors of the process.
    void add_to(Sample& sample) const {
        if (store_port_ != 0 && connections_.is_readable) sample.is_store_connected = false;
        if (connections_.by_inode.empty()) return;
        for (const int number :
             numbers_in_folder(file_of(pid_, "fd"), limits::max_sampled_descriptors)) {
            const auto* const socket = of(target_of(file_of(pid_, "fd/" + std::to_string(number))));
            if (socket == nullptr) continue;
            if (socket->is_established && is_to_store(*socket)) sample.is_store_connected = true;
            const bool is_room = sample.connecting_to.size() < limits::max_sampled_addresses;
            if (!socket->is_established && is_room)
                sample.connecting_to.push_back(socket->remote.to_string());
        }
    }

private:
    int pid_;
    const Connections& connections_;
    std::uint16_t store_port_ = 0;
};

// ---- the system call ----------------------------------------------------------------------------

std::string text_in(const ReadMemory& read, std::uint64_t address) {
    std::string text;
    // Read in small parts, since the memory after the text may not be mapped.
    std::array<char, 16> part;
    while (text.size() < limits::max_sampled_name_bytes) {
        if (!read(address + text.size(), std::as_writable_bytes(std::span{part}))) break;
        const std::string_view all{part.data(), part.size()};
        const auto used = all.substr(0, all.find('\0'));
        text += used;
        if (used.size() < all.size()) break;
    }
    return text;
}

std::optional<int> descriptor_of(const CallSubject& subject, const ReadMemory& read) {
    if (subject.kind == SubjectKind::descriptor) return static_cast<int>(subject.value);
    pollfd first{};
    if (subject.kind != SubjectKind::descriptors ||
        !read(subject.value, std::as_writable_bytes(std::span{&first, 1})))
        return std::nullopt;
    return first.fd;
}

void add_system_call(const ReadMemory& read, const Sockets& sockets, Sample& sample) {
    const auto call = parse_system_call(content_of(sample.pid, "syscall"));
    if (!call) return;
    sample.system_call = name_of(*call);
    const auto subject = subject_of(*call);
    if (subject.kind == SubjectKind::path)
        sample.system_call_object = printable_line(text_in(read, subject.value));
    const auto descriptor = descriptor_of(subject, read);
    if (!descriptor || *descriptor < 0) return;
    const auto target = target_of(file_of(sample.pid, "fd/" + std::to_string(*descriptor)));
    const auto* const socket = sockets.of(target);
    if (socket == nullptr) {
        sample.system_call_object =
            printable_line(target).substr(0, limits::max_sampled_name_bytes);
        return;
    }
    sample.system_call_object = "socket to " + socket->remote.to_string();
    sample.is_at_store = socket->is_established && sockets.is_to_store(*socket);
}

// ---- Python -------------------------------------------------------------------------------------

void add_threads(const ReadMemory& read, Sample& sample) {
    const auto maps = content_of(file_of(sample.pid, "maps"), limits::max_process_list_bytes);
    const auto python = find_python(maps, read);
    if (!python.interpreter) {
        sample.no_frames = maps.empty() ? "its memory map cannot be read" : python.why_not;
        return;
    }
    auto read_threads = read_python_threads(*python.interpreter, read);
    sample.threads = std::move(read_threads.threads);
    sample.no_frames = std::move(read_threads.why_not);
    for (auto& thread : sample.threads)
        if (thread.tid != 0)
            thread.run_time = run_time_in(
                content_of(sample.pid, "task/" + std::to_string(thread.tid) + "/schedstat"));
}

/// The program that a shell, `uv run` or a similar wrapper has started and waits for: that program
/// is the worker.
std::optional<int> started_program(const Sample& sample) {
    if (!sample.threads.empty()) return std::nullopt;
    const auto call = parse_system_call(content_of(sample.pid, "syscall"));
    if (!call || !name_of(*call).starts_with("wait")) return std::nullopt;
    const auto name = "task/" + std::to_string(sample.pid) + "/children";
    return only_child_in(content_of(sample.pid, name));
}

Sample sample_of(const int worker, Networks& networks) {
    Sample sample;
    sample.pid = worker;
    auto stat = parse_stat(content_of(worker, "stat"));
    if (worker <= 0 || !stat) return sample;
    add_threads(memory_of(worker), sample);
    for (std::size_t i = 0; i < limits::max_sampled_wrappers; ++i) {
        const auto program = started_program(sample);
        if (!program) break;
        sample = Sample{};
        sample.pid = *program;
        stat = parse_stat(content_of(*program, "stat"));
        if (!stat) return sample;
        add_threads(memory_of(*program), sample);
    }
    const int pid = sample.pid;
    const auto read = memory_of(pid);
    sample.state = stat->state;
    sample.is_traced = tracer_in(content_of(pid, "status")) != 0;
    sample.wait_channel = wait_channel_in(content_of(pid, "wchan"));
    // The main thread's connections only matter while it waits.
    if (sample.state != 'R') {
        const Sockets sockets(pid, networks.of(pid));
        add_system_call(read, sockets, sample);
        sockets.add_to(sample);
    }
    add_use(worker, sample);
    return sample;
}

}  // namespace

Sample take_sample(int pid) {
    Networks networks;
    return sample_of(pid, networks);
}

std::vector<Sample> take_samples(const std::vector<int>& pids) {
    Networks networks;
    std::vector<Sample> samples;
    for (const int pid : pids)
        samples.push_back(sample_of(pid, networks));
    return samples;
}

}  // namespace ddprun::agent::health
