// SPDX-License-Identifier: Apache-2.0
// Many agents without workers, in one thread: the load of the rendezvous bench.
//
//   light_agents PORT COUNT FIRST NODES
//
// Agents FIRST to FIRST + COUNT - 1 of a job of NODES nodes. They speak the real control protocol,
// send a heartbeat each second, and read commands from standard input, one per line:
//   name NAME      before join: the job is NAME, and the hosts are NAME with a number
//   join           connect and join; prints "assigned FIRST_CONNECT LAST_JOIN LAST_ASSIGNMENT"
//   fail           agent FIRST reports a dead worker; prints "failed WHEN"
//   await_stop     prints "stopped LAST_STOP LAST_ASSIGNMENT" once the next round is assigned
//   forget         ignores, for `await_stop`, what was received so far; prints "forgotten"
//   leave          closes all connections, and prepares to come back; prints "left"
//   resume         connects and comes back; prints "resumed FIRST_CONNECT LAST_ASSIGNMENT"
//   idle SECONDS   prints "idle BYTES_IN BYTES_OUT"
// Moments are CLOCK_MONOTONIC nanoseconds. Ends with its standard input.
#include "rendezvous/control/codec.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace {

using namespace ddprun;
using namespace ddprun::control;

constexpr std::uint64_t standard_input = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t bound_ns = 120'000'000'000;
constexpr std::int64_t heartbeat_ns = 1'000'000'000;
constexpr int loop_ms = 10;
constexpr std::size_t length_bytes = 4;

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::exit(1);
}

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

struct LightAgent {
    int descriptor = -1;
    int number = 0;
    int round = -1;
    std::uint64_t heartbeats = 0;
    std::string input;
    /// As received, with their lengths: for a server that is started again.
    std::string welcome;
    std::string assignment;
    /// Empty unless the agent is coming back.
    std::string resume;
};

/// What all agents together have received since `begin`.
struct Heard {
    int assignments = 0;
    int stops = 0;
    int resumed = 0;
    std::int64_t last_assignment = 0;
    std::int64_t last_stop = 0;
};

class LightAgents {
public:
    LightAgents(std::uint16_t port, int count, int first, int nodes)
        : port_(port),
          nodes_(nodes),
          epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
        for (int i = 0; i < count; ++i)
            agents_.push_back({-1, first + i, -1, 0, {}, {}, {}, {}});
        watch(STDIN_FILENO, standard_input);
    }

    void name(const std::string& name) { job_ = host_ = name; }

    void join() {
        const auto first_connect = connect_all();
        await([this] { return is_complete(heard_.assignments); });
        std::printf("assigned %ld %ld %ld\n", first_connect, last_join_, heard_.last_assignment);
    }

    void leave() {
        for (auto& agent : agents_) {
            ::close(agent.descriptor);
            agent.descriptor = -1;
            agent.input.clear();
            const auto welcome = decoded<Welcome>(agent.welcome);
            Resume resume;
            resume.join = join_of(agent);
            resume.join.store_port = 0;
            resume.incarnation = welcome.incarnation;
            resume.token = welcome.token;
            resume.assignment = decoded<Assignment>(agent.assignment);
            resume.state = NodeState::running;
            agent.resume = encode(AgentMessage{resume});
        }
        std::printf("left\n");
    }

    void resume() {
        const auto first_connect = connect_all();
        await([this] { return is_complete(heard_.resumed) && is_complete(heard_.assignments); });
        std::printf("resumed %ld %ld\n", first_connect, heard_.last_assignment);
    }

    void fail() {
        auto& agent = agents_.front();
        WorkerFailure failure;
        failure.rank = agent.number;
        failure.end = {WorkerEnd::Kind::exited, 1, false};
        failure.message = "exited with code 1";
        const auto when = now_ns();
        send(agent, Failed{agent.round, Duration::zero(), std::move(failure), {}});
        std::printf("failed %ld\n", when);
    }

    void await_stop() {
        await([this] { return is_complete(heard_.stops) && is_complete(heard_.assignments); });
        std::printf("stopped %ld %ld\n", heard_.last_stop, heard_.last_assignment);
    }

    void idle(int seconds) {
        bytes_in_ = bytes_out_ = 0;
        const auto end = now_ns() + seconds * std::int64_t{1'000'000'000};
        while (now_ns() < end)
            turn(loop_ms);
        std::printf("idle %ld %ld\n", bytes_in_, bytes_out_);
    }

    void forget() {
        heard_ = {};
        std::printf("forgotten\n");
    }

    /// Reads the next line of standard input; the agents continue meanwhile. Returns false at its
    /// end.
    bool next_command(std::string& command) {
        for (;;) {
            if (const auto end = commands_.find('\n'); end != std::string::npos) {
                command = commands_.substr(0, end);
                commands_.erase(0, end + 1);
                return true;
            }
            if (has_ended_) return false;
            turn(loop_ms);
        }
    }

private:
    /// Returns when it began. The agents go on meanwhile.
    std::int64_t connect_all() {
        heard_ = {};
        const auto begin = now_ns();
        for (std::size_t i = 0; i < agents_.size(); ++i) {
            connect(agents_[i]);
            watch(agents_[i].descriptor, i);
            turn(0);
        }
        return begin;
    }

    bool is_complete(int count) const { return count == static_cast<int>(agents_.size()); }

    template <class Condition>
    void await(Condition holds) {
        const auto until = now_ns() + bound_ns;
        while (!holds()) {
            if (now_ns() > until || has_ended_) {
                std::fprintf(
                    stderr,
                    "timed out: %d assignments, %d stops and %d resumed of %zu\n",
                    heard_.assignments,
                    heard_.stops,
                    heard_.resumed,
                    agents_.size());
                std::exit(1);
            }
            turn(loop_ms);
        }
    }

    void watch(int descriptor, std::uint64_t number) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = number;
        if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) die("epoll_ctl");
    }

    void connect(LightAgent& agent) {
        agent.descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (agent.descriptor < 0) die("socket");
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port_);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(agent.descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            die("connect");
        const int yes = 1;
        ::setsockopt(agent.descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        write(agent, preamble);
    }

    void write(LightAgent& agent, std::string_view bytes) {
        bytes_out_ += static_cast<std::int64_t>(bytes.size());
        while (!bytes.empty()) {
            const auto sent = ::send(agent.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) die("send");
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
    }

    void send(LightAgent& agent, const AgentMessage& message) { write(agent, encode(message)); }

    /// Polls all descriptors once, then sends the heartbeats that are due.
    void turn(int timeout_ms) {
        std::array<epoll_event, 512> events{};
        const int count = ::epoll_wait(epoll_, events.data(), events.size(), timeout_ms);
        if (count < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < count; ++i) {
            const auto number = events[static_cast<std::size_t>(i)].data.u64;
            if (number == standard_input)
                read_commands();
            else
                read(agents_[number]);
        }
        beat_hearts();
    }

    void read_commands() {
        std::array<char, 256> bytes{};
        const auto size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (size > 0)
            return static_cast<void>(
                commands_.append(bytes.data(), static_cast<std::size_t>(size)));
        has_ended_ = true;
        ::epoll_ctl(epoll_, EPOLL_CTL_DEL, STDIN_FILENO, nullptr);
    }

    void read(LightAgent& agent) {
        std::array<char, 65536> bytes;
        const auto size = ::recv(agent.descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (size < 0 && errno == EAGAIN) return;
        if (size <= 0) die("the server closed a connection");
        bytes_in_ += size;
        agent.input.append(bytes.data(), static_cast<std::size_t>(size));
        std::string_view rest = agent.input;
        while (rest.size() >= length_bytes) {
            std::size_t length = 0;
            for (std::size_t i = 0; i < length_bytes; ++i)
                length = length << 8 | static_cast<unsigned char>(rest[i]);
            if (rest.size() < length_bytes + length) break;
            hear(agent, rest.substr(0, length_bytes + length));
            rest.remove_prefix(length_bytes + length);
        }
        agent.input.erase(0, agent.input.size() - rest.size());
    }

    /// Reads only the type, which is the first field of each frame: a complete parser would use
    /// most of the machine's time.
    void hear(LightAgent& agent, std::string_view whole) {
        const auto frame = whole.substr(length_bytes);
        const auto is = [&](std::string_view type) {
            return frame.substr(9, type.size()) == type && frame[9 + type.size()] == '"';
        };
        if (is("hello")) return agent.resume.empty() ? join(agent) : come_back(agent);
        if (is("assignment")) return take_assignment(agent, whole);
        if (is("welcome")) {
            agent.welcome = whole;
            return;
        }
        if (is("resumed")) {
            ++heard_.resumed;
            return;
        }
        if (is("stop")) {
            ++heard_.stops;
            heard_.last_stop = now_ns();
            return send(agent, Ready{agent.round, store_port, 1});
        }
        if (is("heartbeat_ack")) return;
        // A slow machine: nodes are still missing, or a neighbour is silent.
        if (is("standby") || is("ask")) return;
        std::fprintf(stderr, "%.*s\n", static_cast<int>(frame.size()), frame.data());
        std::exit(1);
    }

    void join(LightAgent& agent) {
        send(agent, join_of(agent));
        last_join_ = now_ns();
    }

    void come_back(LightAgent& agent) {
        write(agent, agent.resume);
        agent.resume.clear();
    }

    template <class Message>
    Message decoded(const std::string& frame) const {
        ServerMessageDecoder decoder;
        decoder.append(frame);
        const auto message = decoder.next();
        if (!message || !*message) die("decode");
        return std::get<Message>(**message);
    }

    Join join_of(const LightAgent& agent) const {
        Join join;
        join.run_id = job_;
        std::array<std::uint8_t, 16> id{};
        for (std::size_t i = 0; i < 4; ++i)
            id[i] = static_cast<std::uint8_t>(agent.number >> (8 * i));
        join.node.nonce = Nonce(id);
        join.node.host = host_ + std::to_string(agent.number);
        join.node.pid = ::getpid();
        join.nodes = {nodes_, nodes_, 0};
        join.nproc = 8;
        // As on a separate host; here all of them share one address.
        join.addr = "10." + std::to_string(agent.number / 65536 % 256) + "." +
                    std::to_string(agent.number / 256 % 256) + "." +
                    std::to_string(agent.number % 256);
        join.store_port = store_port;
        join.peer_port = store_port + 1;
        join.max_restarts = 1000;
        return join;
    }

    void take_assignment(LightAgent& agent, std::string_view whole) {
        ++heard_.assignments;
        heard_.last_assignment = now_ns();
        agent.assignment = whole;
        constexpr std::string_view round = "\"round\":";
        const auto found = agent.assignment.find(round);
        if (found == std::string::npos) die("assignment");
        agent.round = std::atoi(agent.assignment.c_str() + found + round.size());
        send(agent, Started{agent.round, 0});
    }

    void beat_hearts() {
        const auto now = now_ns();
        // Each agent sends once a second, and the agents are spread evenly: sends for as many as
        // are due, one after the other.
        const auto step = heartbeat_ns / static_cast<std::int64_t>(agents_.size());
        if (next_beat_ == 0) next_beat_ = now + heartbeat_ns;
        for (; next_beat_ <= now; next_beat_ += step) {
            auto& agent = agents_[beating_++ % agents_.size()];
            if (agent.round >= 0 && agent.descriptor >= 0 && agent.resume.empty())
                send(agent, Heartbeat{++agent.heartbeats});
        }
    }

    static constexpr std::uint16_t store_port = 20000;

    std::uint16_t port_;
    std::string job_ = "bench";
    std::string host_ = "node";
    int nodes_;
    int epoll_;
    std::vector<LightAgent> agents_;
    Heard heard_;
    std::int64_t last_join_ = 0;
    std::int64_t next_beat_ = 0;
    std::size_t beating_ = 0;
    std::int64_t bytes_in_ = 0;
    std::int64_t bytes_out_ = 0;
    std::string commands_;
    bool has_ended_ = false;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) {
        std::fprintf(stderr, "usage: light_agents PORT COUNT FIRST NODES\n");
        return 2;
    }
    LightAgents agents(
        static_cast<std::uint16_t>(std::atoi(argv[1])),
        std::atoi(argv[2]),
        std::atoi(argv[3]),
        std::atoi(argv[4]));
    std::string command;
    while (agents.next_command(command)) {
        if (command.rfind("name ", 0) == 0) agents.name(command.substr(5));
        if (command == "join") agents.join();
        if (command == "leave") agents.leave();
        if (command == "resume") agents.resume();
        if (command == "fail") agents.fail();
        if (command == "await_stop") agents.await_stop();
        if (command == "forget") agents.forget();
        if (command.rfind("idle ", 0) == 0) agents.idle(std::atoi(command.c_str() + 5));
        std::fflush(stdout);
    }
}
