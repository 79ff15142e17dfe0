// SPDX-License-Identifier: Apache-2.0
// Records a worker's failure for the launcher's report.
#include "ddprun/ddprun.h"
#include "worker_sdk/src/c/guard.hpp"
#include "worker_sdk/src/record/error_file.hpp"

#include <cxxabi.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <typeinfo>

namespace ddprun::record_errors {
namespace {

struct FatalSignal {
    int number;
    const char* message;
};

constexpr std::array fatal_signals{
    FatalSignal{SIGSEGV, "SIGSEGV: segmentation fault"},
    FatalSignal{SIGBUS, "SIGBUS: bus error (a mapped file that shrank, or a full /dev/shm)"},
    FatalSignal{SIGILL, "SIGILL: illegal instruction"},
    FatalSignal{SIGFPE, "SIGFPE: arithmetic error"},
    FatalSignal{SIGABRT, "SIGABRT: aborted"},
    FatalSignal{SIGSYS, "SIGSYS: forbidden system call"},
    FatalSignal{SIGTRAP, "SIGTRAP: trap"},
};

std::array<struct sigaction, fatal_signals.size()> before;
std::terminate_handler terminate_before = nullptr;
/// The thread that records; the first one wins. Later failures are secondary.
std::atomic<pid_t> recorder = 0;
std::atomic<bool> is_recorded = false;

pid_t this_thread() {
    return static_cast<pid_t>(::syscall(SYS_gettid));
}

/// Returns false when another thread has recorded, or is recording (then this one waits until it is
/// done, two seconds at most).
bool may_record() {
    pid_t recording = 0;
    if (recorder.compare_exchange_strong(recording, this_thread())) return true;
    if (recording == this_thread()) return false;
    for (int i = 0; i < 200 && !is_recorded; ++i) {
        const timespec pause{0, 10'000'000};
        ::nanosleep(&pause, nullptr);
    }
    return false;
}

void record(Text message) {
    // Written first without the stack: unwinding can fail in a broken process.
    write_error_file(message, {});
    const auto stack = call_stack();
    if (stack.size > 0) write_error_file(message, stack);
    is_recorded = true;
}

void on_fatal_signal(int number, siginfo_t* info, void*) {
    const int error = errno;
    std::size_t place = 0;
    while (place + 1 < fatal_signals.size() && fatal_signals[place].number != number)
        ++place;
    if (may_record()) {
        const char* message = fatal_signals[place].message;
        record({message, std::strlen(message)});
    }
    // Restores the previous action. A faulting instruction is executed again when this returns, and
    // faults again; a signal that was sent has to be sent once more.
    ::sigaction(number, &before[place], nullptr);
    const bool is_sent = info->si_code <= 0;
    if (is_sent) ::syscall(SYS_tgkill, ::getpid(), this_thread(), number);
    errno = error;
}

/// The launcher expects the name PeerLost without "ddprun::".
std::string readable(const char* type) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> demangled(
        abi::__cxa_demangle(type, nullptr, nullptr, &status), std::free);
    std::string name = status == 0 && demangled ? demangled.get() : type;
    constexpr const char* ours = "ddprun::";
    if (name.rfind(ours, 0) == 0) name.erase(0, std::strlen(ours));
    return name;
}

std::string message_of(const char* type, const char* text) {
    return readable(type) + ": " + text;
}

std::string message_of_current_exception() {
    if (!std::current_exception()) return "std::terminate was called";
    try {
        throw;
    } catch (const std::exception& error) {
        return message_of(typeid(error).name(), error.what());
    } catch (...) {
        const auto* type = abi::__cxa_current_exception_type();
        return readable(type ? type->name() : "?") + ": not a std::exception";
    }
}

[[noreturn]] void on_terminate() {
    if (may_record()) {
        const auto message = message_of_current_exception();
        record({message.data(), message.size()});
    }
    if (terminate_before) terminate_before();
    std::abort();
}

/// After a stack overflow the handler has no stack, so it gets another one. Kept until the process
/// ends.
void give_this_thread_another_stack() {
    stack_t present{};
    if (::sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE) == 0) return;
    constexpr std::size_t size = 64 * 1024;
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    stack_t other{};
    other.ss_sp = memory;
    other.ss_size = size;
    ::sigaltstack(&other, nullptr);
}

void install() {
    prepare_call_stack();
    give_this_thread_another_stack();
    for (std::size_t i = 0; i < fatal_signals.size(); ++i) {
        struct sigaction action {};
        action.sa_sigaction = on_fatal_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        ::sigemptyset(&action.sa_mask);
        ::sigaction(fatal_signals[i].number, &action, &before[i]);
    }
    terminate_before = std::set_terminate(on_terminate);
}

}  // namespace
}  // namespace ddprun::record_errors

extern "C" {

int ddprun_record_fatal_errors(void) {
    return ddprun::c::guarded([] {
        static std::once_flag once;
        std::call_once(once, [] {
            ddprun::record_errors::remember_path();
            ddprun::record_errors::install();
        });
    });
}

int ddprun_record_error(const char* type, const char* text) {
    return ddprun::c::guarded([&] {
        ddprun::c::need(type, "type");
        ddprun::c::need(text, "text");
        ddprun::record_errors::remember_path();
        const auto message = ddprun::record_errors::message_of(type, text);
        ddprun::record_errors::write_error_file({message.data(), message.size()}, {});
    });
}

void ddprun_print_error(const char* type, const char* text) {
    ddprun::c::guarded([&] {
        ddprun::c::need(type, "type");
        ddprun::c::need(text, "text");
        const auto line = ddprun::record_errors::message_of(type, text) + "\n";
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
    });
}

}  // extern "C"
