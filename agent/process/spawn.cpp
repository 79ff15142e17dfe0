// SPDX-License-Identifier: Apache-2.0
#include "agent/process/spawn.hpp"

#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/signal_masked_thread.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>

namespace ddprun::agent {
namespace {

constexpr int first_foreign_descriptor = 3;
constexpr unsigned close_range_cloexec = 4;
constexpr rlim_t most_descriptors_tried = 1 << 20;
constexpr std::string_view execute_step = "execute ";

/// The step in which the child failed, named in the error's text. A failed `bind` is not fatal.
enum class Step : int { begin, place_descriptors, bind, execute };

struct ChildFailure {
    Step step;
    int error_number;
};

/// A bit set of CPUs or NUMA nodes, as an array of the kernel's words.
class Mask {
public:
    void add(int number) {
        const auto at = static_cast<std::size_t>(number);
        if (words_.size() <= at / word_bits) words_.resize(at / word_bits + 1);
        words_[at / word_bits] |= 1UL << (at % word_bits);
    }
    const unsigned long* words() const { return words_.data(); }
    std::size_t byte_count() const { return words_.size() * sizeof(unsigned long); }
    std::size_t bit_count() const { return words_.size() * word_bits; }
    bool is_empty() const { return words_.empty(); }

private:
    static constexpr std::size_t word_bits = std::numeric_limits<unsigned long>::digits;

    std::vector<unsigned long> words_;
};

/// All data for the child, prepared before the child exists: the child shares this process's memory
/// and may only make system calls.
struct ChildPlan {
    const char* program;
    char* const* arguments;
    char* const* environment;
    std::array<int, 3> stdio;
    const InheritedState* start;
    const Mask* cpus;
    const Mask* memory_nodes;
    pid_t parent;
    int report;
};

void report(const ChildPlan& plan, Step step) {
    const ChildFailure failure{step, errno};
    // The pipe accepts so few bytes as a whole, or none if the parent has ended.
    [[maybe_unused]] const auto written = ::write(plan.report, &failure, sizeof failure);
}

[[noreturn]] void fail(const ChildPlan& plan, Step step) {
    report(plan, step);
    ::_exit(exit_codes::not_executable);
}

/// Exec resets handlers to the default by itself, but ignored signals stay ignored.
void restore_dispositions(const InheritedState& start) {
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction action {};
        action.sa_handler = start.ignores(signal) ? SIG_IGN : SIG_DFL;
        ::sigaction(signal, &action, nullptr);
    }
}

bool place_descriptors(std::array<int, 3> source) {
    // Descriptors are moved out of the way first, so that no descriptor is overwritten before its
    // use.
    for (int target = 0; target < first_foreign_descriptor; ++target) {
        auto& descriptor = source[static_cast<std::size_t>(target)];
        const bool is_in_the_way = descriptor >= 0 && descriptor < first_foreign_descriptor;
        if (!is_in_the_way || descriptor == target) continue;
        descriptor = ::fcntl(descriptor, F_DUPFD_CLOEXEC, first_foreign_descriptor);
        if (descriptor < 0) return false;
    }
    for (int target = 0; target < first_foreign_descriptor; ++target) {
        const int descriptor = source[static_cast<std::size_t>(target)];
        if (descriptor < 0) continue;
        const int result =
            descriptor == target ? ::fcntl(target, F_SETFD, 0) : ::dup2(descriptor, target);
        if (result < 0) return false;
    }
    return true;
}

int parse_descriptor(const char* name) {
    int number = 0;
    for (; *name != '\0'; ++name) {
        if (*name < '0' || *name > '9') return -1;
        number = number * 10 + (*name - '0');
    }
    return number;
}

/// Marks the descriptors in /proc/self/fd. In a vforked child this folder lists the child's own
/// table.
bool mark_listed_descriptors() {
    const int directory = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return false;
    alignas(dirent64) std::array<char, 2048> entries;
    for (;;) {
        const auto size = ::syscall(SYS_getdents64, directory, entries.data(), entries.size());
        if (size <= 0) break;
        for (long at = 0; at < size;) {
            const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
            const int descriptor = parse_descriptor(entry->d_name);
            if (descriptor >= first_foreign_descriptor) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
            at += entry->d_reclen;
        }
    }
    ::close(directory);
    return true;
}

/// Descriptors are marked, not closed: the pipe of the error report must live until exec.
void close_the_rest_on_exec() {
    if (::syscall(SYS_close_range, first_foreign_descriptor, ~0U, close_range_cloexec) == 0) return;
    // The call is missing in kernels before 5.11, and refused by some containers' filters.
    if (mark_listed_descriptors()) return;
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const auto end = static_cast<int>(std::min(limit.rlim_cur, most_descriptors_tried));
    for (int descriptor = first_foreign_descriptor; descriptor < end; ++descriptor)
        ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

/// Sets the CPUs and the memory policy. The kernel keeps both for each thread, so they apply only
/// to this child, although it shares the parent's memory. Threads of the program inherit both.
void bind(const ChildPlan& plan) {
    if (plan.cpus->is_empty()) return;
    if (::syscall(SYS_sched_setaffinity, 0, plan.cpus->byte_count(), plan.cpus->words()) != 0)
        return report(plan, Step::bind);
    if (plan.memory_nodes->is_empty()) return;
    // An explicit policy (numactl --interleave) is kept. Many containers refuse both calls; memory
    // then comes from the node of the CPUs, which has the same effect as long as that node has free
    // memory.
    int policy = MPOL_DEFAULT;
    if (::syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL) != 0) return;
    if (policy != MPOL_DEFAULT) return;
    // The kernel uses one bit less than the given number.
    ::syscall(
        SYS_set_mempolicy,
        MPOL_PREFERRED,
        plan.memory_nodes->words(),
        plan.memory_nodes->bit_count() + 1);
}

[[noreturn]] void become(const ChildPlan& plan) {
    // Dispositions come before the mask: no handler of the parent may run in the child.
    restore_dispositions(*plan.start);
    if (::setsid() < 0) fail(plan, Step::begin);
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(plan, Step::begin);
    // The parent may have died before the line above. The pid is not compared with 1, since 1 may
    // be the parent's pid.
    if (::getppid() != plan.parent) ::_exit(exit_codes::not_executable);
    if (!place_descriptors(plan.stdio)) fail(plan, Step::place_descriptors);
    close_the_rest_on_exec();
    if (plan.start->descriptor_limit) ::setrlimit(RLIMIT_NOFILE, &*plan.start->descriptor_limit);
    bind(plan);
    ::sigprocmask(SIG_SETMASK, &plan.start->mask, nullptr);
    ::execve(plan.program, plan.arguments, plan.environment);
    fail(plan, Step::execute);
}

/// A separate function: after vfork the parent returns into a frame that the child has used.
[[gnu::noinline]] pid_t start_child(const ChildPlan& plan) {
#if defined(__SANITIZE_THREAD__)
    // ThreadSanitizer's data does not survive a child in the same memory.
    const pid_t pid = ::fork();
#else
    const pid_t pid = ::vfork();
#endif
    if (pid == 0) become(plan);
    return pid;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (const auto& text : texts)
        pointers.push_back(const_cast<char*>(text.c_str()));  // execve's signature; never written
    pointers.push_back(nullptr);
    return pointers;
}

/// A pipe that stays empty when exec succeeds.
class ReportPipe {
public:
    ReportPipe() {
        if (::pipe2(ends_.data(), O_CLOEXEC) != 0) return;
        // In a process started without stdio, the pipe would occupy the numbers of the worker's
        // stdio.
        if (ends_[1] < first_foreign_descriptor) {
            const int moved = ::fcntl(ends_[1], F_DUPFD_CLOEXEC, first_foreign_descriptor);
            ::close(std::exchange(ends_[1], moved));
        }
    }
    ~ReportPipe() {
        close(ends_[0]);
        close(ends_[1]);
    }
    ReportPipe(const ReportPipe&) = delete;
    ReportPipe& operator=(const ReportPipe&) = delete;

    bool is_open() const { return ends_[0] >= 0 && ends_[1] >= 0; }
    int write_end() const { return ends_[1]; }

    /// Waits for the next failure after the child was started; none once exec has succeeded.
    std::optional<ChildFailure> wait() {
        close(ends_[1]);
        ChildFailure failure{};
        ssize_t size = 0;
        do {
            size = ::read(ends_[0], &failure, sizeof failure);
        } while (size < 0 && errno == EINTR);
        if (size != sizeof failure) return std::nullopt;
        return failure;
    }

private:
    static void close(int& descriptor) {
        if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
    }

    std::array<int, 2> ends_{-1, -1};
};

std::string describe(const SpawnSpec& spec, const ChildFailure& failure) {
    switch (failure.step) {
        case Step::begin: return "start " + spec.program;
        case Step::place_descriptors: return "hand stdin, stdout and stderr to " + spec.program;
        case Step::bind: return "bind to CPUs " + agent::describe(spec.binding.cpus);
        case Step::execute: break;
    }
    // The kernel also reports "no such file" when a file that the program needs, such as its
    // interpreter, is missing.
    const bool is_there =
        failure.error_number == ENOENT && ::access(spec.program.c_str(), F_OK) == 0;
    return std::string{execute_step} + spec.program +
           (is_there ? " (its interpreter or loader)" : "");
}

}  // namespace

Result<pid_t> spawn(const SpawnSpec& spec) {
    std::error_code ignored;
    if (!spec.folder_to_make.empty())
        std::filesystem::create_directories(spec.folder_to_make, ignored);
    const auto arguments = pointers_to(spec.arguments);
    const auto environment = pointers_to(spec.environment);
    ReportPipe report;
    if (!report.is_open()) return Failure{system_code(errno), "start " + spec.program};
    Mask cpus;
    for (const int cpu : spec.binding.cpus)
        cpus.add(cpu);
    Mask memory_nodes;
    if (spec.binding.memory_node) memory_nodes.add(*spec.binding.memory_node);
    const ChildPlan plan{
        spec.program.c_str(),
        arguments.data(),
        environment.data(),
        {spec.standard_input, spec.standard_output, spec.standard_error},
        &spec.start,
        &cpus,
        &memory_nodes,
        ::getpid(),
        report.write_end()};

    pid_t pid = -1;
    int fork_error = 0;
    {
        // No signal may be handled while a child shares this process's memory.
        const SignalsMasked masked(SignalsMasked::Except::none);
        pid = start_child(plan);
        fork_error = errno;
    }
    if (pid < 0) return Failure{system_code(fork_error), "start " + spec.program};
    while (const auto failure = report.wait()) {
        if (failure->step == Step::bind) {
            const Failure refused{system_code(failure->error_number), describe(spec, *failure)};
            log::warning("worker.not_bound", {{"pid", pid}, {"reason", refused.describe()}});
            continue;
        }
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        return Failure{system_code(failure->error_number), describe(spec, *failure)};
    }
    return pid;
}

bool is_about_program(const Failure& failure) {
    // Exec also needs memory, descriptors and a free slot in the user's process limit.
    const int error = failure.code.value();
    const bool is_shortage =
        error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
    return failure.context.starts_with(execute_step) && !is_shortage;
}

}  // namespace ddprun::agent
