// SPDX-License-Identifier: Apache-2.0
#include "agent/keeper/keeper.hpp"

#include "agent/process/descendants.hpp"
#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/machine.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <span>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr int interrupts_that_insist = 2;
constexpr std::array warning_signals{SIGUSR1, SIGUSR2};

/// Writes a message for the user in one piece, without stdio.
template <class... Values>
void say(const char* format, Values... values) {
    std::array<char, 512> line;
    const int size = std::snprintf(line.data(), line.size(), format, values...);
    if (size <= 0) return;
    const auto length = std::min(static_cast<std::size_t>(size), line.size() - 1);
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), length);
}

void name_stuck(const Stuck& stuck) {
    for (const auto& process : stuck.named())
        say("ddprun: cannot be killed: %s (pid %d, state %c)\n",
            process.command.data(),
            process.pid,
            process.state);
    if (stuck.count > stuck.named().size())
        say("ddprun: and %zu more\n", stuck.count - stuck.named().size());
}

void set_disposition(int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(signal, &action, nullptr);
}

sigset_t signals_to_read(const InheritedState& start, std::span<const int> handed_on) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (const int signal : handed_on) {
        // Under nohup SIGHUP stays ignored. If SIGHUP were blocked too, the keeper would read it
        // nevertheless.
        if (!start.keeps_ignoring(signal)) sigaddset(&set, signal);
    }
    // A shell without job control starts its children with SIGTSTP ignored.
    if (!start.ignores(SIGTSTP)) sigaddset(&set, SIGTSTP);
    return set;
}

int find_terminal() {
    for (const int descriptor : {STDIN_FILENO, STDERR_FILENO, STDOUT_FILENO})
        if (::isatty(descriptor) == 1) return descriptor;
    return -1;
}

/// Stops this process like the kernel stops a background program that reads the terminal. Returns
/// false when it was not stopped, because no shell could continue it.
bool stop_for_input() {
    sigset_t go_on;
    sigemptyset(&go_on);
    sigaddset(&go_on, SIGCONT);
    sigset_t before;
    ::sigprocmask(SIG_BLOCK, &go_on, &before);
    ::kill(0, SIGTTIN);
    sigset_t pending;
    ::sigpending(&pending);
    const bool was_stopped = sigismember(&pending, SIGCONT) == 1;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return was_stopped;
}

void wait_for_foreground(int terminal) {
    for (;;) {
        const pid_t foreground = ::tcgetpgrp(terminal);
        if (foreground < 0 || foreground == ::getpgrp() || !stop_for_input()) return;
    }
}

AgentSide become_agent(int socket, KeeperPage* page, pid_t keeper, std::span<const int> handed_on) {
    ::setsid();
    // A blocked signal stays pending even if it is ignored.
    sigset_t blocked;
    sigemptyset(&blocked);
    const auto block = [&](int signal) {
        set_disposition(signal, SIG_IGN);
        sigaddset(&blocked, signal);
    };
    std::for_each(stop_signals.begin(), stop_signals.end(), block);
    std::for_each(handed_on.begin(), handed_on.end(), block);
    set_disposition(SIGTSTP, SIG_IGN);
    become_subreaper();
    ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
    return {socket, page, keeper};
}

/// Why the keeper stopped waiting.
enum class Verdict { ended, past_fence, silent };

class Keeper {
public:
    explicit Keeper(KeeperSide& side) : side_(side) {}

    int run() {
        timer_ = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        const auto verdict = watch();
        if (verdict != Verdict::ended) {
            agent_state_ = state_of(side_.agent);
            agent_place_ = kernel_place_of(side_.agent);
            // Not for a reaped process: its number may belong to another process by now.
            ::kill(side_.agent, SIGKILL);
        }
        name_stuck(kill_everything());
        remove_error_files(*side_.page);
        // Only now can the server see the end of this node's connection.
        if (connection_ >= 0) {
            ::shutdown(connection_, SHUT_RDWR);
            ::close(connection_);
        }
        restore_terminal();
        ::close(timer_);
        return judge(verdict);
    }

private:
    Verdict watch() {
        for (;;) {
            arm_timer();
            wait_for_anything();
            // The time is taken before the events are read: a message that arrived while this
            // process was stopped is not late.
            const auto now = Clock::now();
            read_signals();
            read_commands();
            read_agent();
            if (has_agent_ended()) return Verdict::ended;
            if (const auto fence = fence_end(); fence && now >= *fence) return Verdict::past_fence;
            if (kill_agent_at_ && now >= *kill_agent_at_) return Verdict::silent;
        }
    }

    /// The fence is read each time, because the agent moves it without waking the keeper.
    std::optional<Instant> fence_end() const {
        const auto end = side_.page->fence_ends_at.load();
        if (end == 0) return std::nullopt;
        return from_nanoseconds_since_boot(end) + limits::keeper_fence_margin;
    }

    void arm_timer() {
        const auto next = earliest(fence_end(), kill_agent_at_);
        itimerspec at{};
        if (next) {
            // A value of 0 would disarm the timer.
            const auto nanoseconds = std::max<std::int64_t>(nanoseconds_since_boot(*next), 1);
            at.it_value.tv_sec = nanoseconds / std::nano::den;
            at.it_value.tv_nsec = nanoseconds % std::nano::den;
        }
        ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &at, nullptr);
    }

    void wait_for_anything() {
        // poll ignores a negative descriptor, such as the socket after the agent closed its end.
        std::array<pollfd, 4> watched{
            {{side_.signals, POLLIN, 0},
             {side_.socket, POLLIN, 0},
             {timer_, POLLIN, 0},
             {side_.commands, POLLIN, 0}}};
        ::poll(watched.data(), watched.size(), -1);
        std::uint64_t expirations = 0;
        [[maybe_unused]] const auto size = ::read(timer_, &expirations, sizeof expirations);
    }

    void read_signals() {
        signalfd_siginfo info{};
        while (::read(side_.signals, &info, sizeof info) == sizeof info) {
            const int signal = static_cast<int>(info.ssi_signo);
            if (signal == SIGCHLD)
                reap_orphans({&side_.agent, 1});
            else if (signal == SIGTSTP)
                suspend();
            else
                forward(signal, static_cast<pid_t>(info.ssi_pid));
        }
    }

    void read_commands() {
        pollfd watched{side_.commands, POLLIN, 0};
        if (side_.commands < 0 || ::poll(&watched, 1, 0) != 1) return;
        std::array<unsigned char, 16> signals{};
        const auto size = ::read(side_.commands, signals.data(), signals.size());
        if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
        for (ssize_t i = 0; i < size; ++i)
            forward(signals[static_cast<std::size_t>(i)]);
        if (size > 0) return;
        ::close(std::exchange(side_.commands, -1));
        forward(SIGTERM);
    }

    /// Ctrl-Z: stops the workers, which are not in the terminal's foreground, and then this process
    /// as usual. The agent continues and keeps its lease.
    void suspend() {
        // The signal is blocked until the workers are stopped, so that a SIGCONT that arrives
        // meanwhile cancels the signal.
        ::raise(SIGTSTP);
        forward(SIGTSTP);
        wait_until_heard(Clock::now() + limits::suspend_timeout);
        stop_here();
        if (side_.is_read) wait_for_foreground(side_.terminal);
        // The process was continued, or never stopped because no shell could continue it.
        forward(SIGCONT);
    }

    void wait_until_heard(Instant deadline) {
        while (side_.socket >= 0 && signals_heard_ != signals_sent_) {
            const auto left = deadline - Clock::now();
            if (left <= Duration{}) return;
            pollfd watched{side_.socket, POLLIN, 0};
            const auto milliseconds =
                std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
            ::poll(&watched, 1, static_cast<int>(milliseconds) + 1);
            read_agent();
        }
    }

    static void stop_here() {
        sigset_t stop;
        sigemptyset(&stop);
        sigaddset(&stop, SIGTSTP);
        // The default action of the signal, as in any other process.
        ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);
        ::sigprocmask(SIG_BLOCK, &stop, nullptr);
    }

    void forward(int signal, pid_t sender = 0) {
        const keeper::SignalCame message{signal, sender};
        ::send(side_.socket, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
        ++signals_sent_;
        if (signal != SIGINT || ++interrupts_ < interrupts_that_insist) return;
        if (!kill_agent_at_) kill_agent_at_ = Clock::now() + limits::second_interrupt_timeout;
    }

    void read_agent() {
        while (side_.socket >= 0) {
            keeper::FromAgent message{};
            iovec bytes{&message, sizeof message};
            alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
            msghdr packet{};
            packet.msg_iov = &bytes;
            packet.msg_iovlen = 1;
            packet.msg_control = control.data();
            packet.msg_controllen = control.size();
            const auto size = ::recvmsg(side_.socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
            if (size < 0 && errno == EINTR) continue;
            if (size < 0 && errno == EAGAIN) return;
            if (size <= 0) return agent_closed();
            take(message, descriptor_of(packet));
        }
    }

    static int descriptor_of(const msghdr& packet) {
        const auto* header = CMSG_FIRSTHDR(&packet);
        if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
        return descriptor;
    }

    void take(const keeper::FromAgent& message, int descriptor) {
        // Whatever the message is, an agent that has read its signals is not silent.
        signals_heard_ = message.signals_read;
        if (signals_heard_ == signals_sent_) kill_agent_at_.reset();
        if (message.kind != keeper::FromAgent::Kind::connection || descriptor < 0) return;
        if (connection_ >= 0) ::close(connection_);
        connection_ = descriptor;
    }

    /// The agent is about to end and only flushes its console.
    void agent_closed() {
        ::close(std::exchange(side_.socket, -1));
        kill_agent_at_ = Clock::now() + limits::agent_end_timeout;
    }

    bool has_agent_ended() {
        return ::waitpid(side_.agent, &agent_status_, WNOHANG) == side_.agent;
    }

    Stuck kill_everything() {
        std::array<pid_t, 1> any;
        if (list_children(any) < 0) {
            kill_noted_sessions();
            return {};
        }
        const auto count = static_cast<std::size_t>(side_.preexisting_count);
        return kill_descendants(
            limits::kill_descendants_timeout, std::span{side_.preexisting}.first(count));
    }

    /// Without /proc the noted sessions are killed. A process that left its worker's session
    /// escapes.
    void kill_noted_sessions() {
        const auto deadline = Clock::now() + limits::kill_descendants_timeout;
        constexpr timespec pause{0, 1'000'000};
        while (kill_and_reap_sessions() && Clock::now() < deadline)
            ::nanosleep(&pause, nullptr);
    }

    /// Returns true while one of the sessions has a member.
    bool kill_and_reap_sessions() {
        bool is_any_left = false;
        for (const auto& noted : side_.page->sessions) {
            const pid_t session = noted.load();
            if (session == 0) continue;
            if (::kill(-session, SIGKILL) == 0) is_any_left = true;
            siginfo_t ended{};
            while (::waitid(P_PGID, static_cast<id_t>(session), &ended, WEXITED | WNOHANG) == 0 &&
                   ended.si_pid != 0)
                ended.si_pid = 0;
        }
        return is_any_left;
    }

    void restore_terminal() {
        if (side_.terminal < 0 || ::tcgetpgrp(side_.terminal) != ::getpgrp()) return;
        ::tcsetattr(side_.terminal, TCSANOW, &side_.terminal_modes);
    }

    int judge(Verdict verdict) const {
        switch (verdict) {
            case Verdict::ended: break;
            case Verdict::past_fence: return report_killed("was past its fence");
            case Verdict::silent: return report_killed("did not answer");
        }
        if (WIFEXITED(agent_status_)) return WEXITSTATUS(agent_status_);
        say("ddprun: the agent (pid %d) was killed by signal %d (%s): its workers were killed "
            "too\n",
            side_.agent,
            WTERMSIG(agent_status_),
            ::sigabbrev_np(WTERMSIG(agent_status_)));
        return exit_codes::internal_error;
    }

    /// The text includes the agent's state, which is the only hint at the reason.
    int report_killed(const char* how) const {
        say("ddprun: the agent (pid %d, state %c%s%s) %s: it and its workers were killed\n",
            side_.agent,
            agent_state_,
            agent_place_[0] != '\0' ? " in " : "",
            agent_place_.data(),
            how);
        return exit_codes::internal_error;
    }

    KeeperSide& side_;
    int timer_ = -1;
    int connection_ = -1;
    int agent_status_ = 0;
    char agent_state_ = '?';
    KernelPlace agent_place_{};
    std::uint32_t signals_sent_ = 0;
    std::uint32_t signals_heard_ = 0;
    int interrupts_ = 0;
    std::optional<Instant> kill_agent_at_;
};

}  // namespace

Result<std::variant<AgentSide, KeeperSide>> fork_agent(
    const InheritedState& start, std::span<const int> handed_on, bool is_terminal_read) {
    const auto failed = [] { return Failure{system_code(errno), "start the agent"}; };
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) return failed();
    void* const memory = ::mmap(
        nullptr, sizeof(KeeperPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return failed();
    auto* const page = new (memory) KeeperPage{};

    become_subreaper();
    // The parent may have ignored SIGCHLD; then exit statuses would be lost.
    set_disposition(SIGCHLD, SIG_DFL);
    set_disposition(SIGPIPE, SIG_IGN);
    // Schedulers send these signals to every process as a warning for the workers.
    for (const int signal : warning_signals)
        if (std::find(handed_on.begin(), handed_on.end(), signal) == handed_on.end())
            set_disposition(signal, SIG_IGN);
    const auto signals = signals_to_read(start, handed_on);
    ::sigprocmask(SIG_SETMASK, &signals, nullptr);

    KeeperSide side;
    side.socket = pair[0];
    side.page = page;
    side.signals = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (side.signals < 0) return failed();
    side.preexisting_count =
        std::clamp(list_children(side.preexisting), 0, max_preexisting_children);
    side.terminal = find_terminal();
    side.is_read = is_terminal_read && side.terminal >= 0;
    if (side.is_read) {
        set_disposition(SIGTTIN, SIG_DFL);
        wait_for_foreground(side.terminal);
    }
    if (side.terminal >= 0 && ::tcgetattr(side.terminal, &side.terminal_modes) != 0)
        side.terminal = -1;

    const pid_t keeper = ::getpid();
    side.agent = ::fork();
    if (side.agent < 0) return failed();
    if (side.agent == 0) {
        ::close(pair[0]);
        ::close(side.signals);
        return {become_agent(pair[1], page, keeper, handed_on)};
    }
    ::close(pair[1]);
    return {side};
}

void remove_error_files(const KeeperPage& page) {
    const int count = std::min(page.error_file_count.load(), limits::max_workers_per_node);
    for (int i = 0; i < count; ++i) {
        std::array<char, max_error_file_stem_bytes + sizeof "1000000.json"> path;
        std::snprintf(path.data(), path.size(), "%s%d.json", page.error_file_stem.data(), i);
        ::unlink(path.data());
    }
    auto folder = page.error_file_stem;
    char* const end = count > 0 ? std::strrchr(folder.data(), '/') : nullptr;
    if (end == nullptr) return;
    *end = '\0';
    ::rmdir(folder.data());
}

int keep(KeeperSide& side) {
    return Keeper(side).run();
}

void kill_own_node(const KeeperPage& page) {
    name_stuck(kill_descendants(limits::kill_descendants_timeout));
    remove_error_files(page);
}

}  // namespace ddprun::agent
