// SPDX-License-Identifier: Apache-2.0
// Any messages of nodes, in any order and on any connections, true or not. The coordinator must
// remain consistent, send nothing on a closed connection, and not spin. An input is a list of
// events: a byte for the kind and a few for its details.
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace {

using namespace ddprun;
using namespace std::chrono_literals;
using control::NodeState;
using coordinator::Coordinator;

constexpr std::size_t most_connections = 8;
constexpr int most_nodes = 5;

/// The bytes of the input, followed by zeros.
class Bytes {
public:
    Bytes(const std::uint8_t* data, std::size_t size) : next_(data), end_(data + size) {}

    bool are_used_up() const { return next_ == end_; }
    /// A number below `count`.
    int one_of(int count) { return are_used_up() ? 0 : *next_++ % count; }
    bool coin() { return one_of(2) == 1; }

private:
    const std::uint8_t* next_;
    const std::uint8_t* end_;
};

class Server {
public:
    explicit Server(Bytes bytes) : bytes_(bytes), coordinator_(options()) {}

    void live() {
        while (!bytes_.are_used_up())
            something_happens();
        [[maybe_unused]] const auto status = coordinator_.status(now_);
    }

private:
    Coordinator::Options options() {
        Coordinator::Options options;
        if (bytes_.one_of(4) == 3) {
            options.hosted_run_id = "job";
            options.voter = control::VoterPlace{"10.0.0.9:1", Nonce{}};
        }
        return options;
    }

    void something_happens() {
        change_voters();
        switch (bytes_.one_of(24)) {
            case 0: return connect();
            case 1:
            case 2:
            case 3: return say_first(join());
            case 4:
            case 5:
            case 6: return say_first(resume());
            case 7:
            case 8: return say(control::Ready{round(), 20'000, 1 + bytes_.one_of(3)});
            case 9: return say(control::Started{round(), bytes_.one_of(4)});
            case 10: return say(control::Succeeded{round()});
            case 11: return say(control::Failed{round(), age(), failure(), kind()});
            case 12: return say(control::Heartbeat{1});
            case 13: return say(heard());
            case 14: return say(control::Leave{"leave", bytes_.coin() ? SIGINT : SIGTERM});
            case 15: return disconnect();
            case 16: return pass(std::chrono::milliseconds{bytes_.one_of(256)});
            case 17: return pass(std::chrono::seconds{bytes_.one_of(64)});
            case 18:
            case 19:
            case 20: return pass_to_deadline();
            case 21: return all_are_heard();
            case 22: return say(join());
            default: return something_rare_happens();
        }
    }

    void something_rare_happens() {
        switch (bytes_.one_of(18)) {
            case 0: return post(Coordinator::Interrupted{SIGTERM, "stopped"});
            case 1: return say(control::Heartbeat{0, wait()});
            case 2: return say(control::Heartbeat{0, std::nullopt, clients()});
            case 3:
            case 4: return say_first(giant(resume()));
            case 5: return say_first(giant(join()));
            case 6: return many_jobs();
            case 7:
            case 8: return say(notice());
            case 9:
            case 10:
            case 11: return say(save_report());
            case 12: return say(control::Drain{1, {node_name()}, bytes_.coin(), "fuzz"});
            case 13: return say(control::Undrain{1, {node_name()}, "fuzz"});
            case 14: return command();
            case 15: return say(control::Resize{1, range(), "fuzz"});
            case 16: return say(control::Claim{"job", {}});
            default: return say(worker_answer());
        }
    }

    /// Some are answers to orders.
    control::WorkerAnswer worker_answer() {
        using What = control::WorkerOrder::What;
        control::WorkerAnswer answer{static_cast<std::uint64_t>(1 + bytes_.one_of(8))};
        answer.what = bytes_.coin() ? What::signal : What::stack;
        answer.ranks.first = bytes_.one_of(4);
        answer.ranks.last = answer.ranks.first + bytes_.one_of(2);
        answer.is_done = bytes_.coin();
        if (answer.what == What::stack) answer.stack = control::RankStack{answer.ranks.first};
        return answer;
    }

    control::NodeRange range() {
        const int min = 1 + static_cast<int>(bytes_.one_of(4));
        const int max = min + static_cast<int>(bytes_.one_of(4));
        return {min, max, static_cast<int>(bytes_.one_of(2))};
    }

    /// A command of another machine, on a connection of its own.
    void command() {
        if (open_.size() == most_connections) return disconnect();
        const ConnectionId id{++last_connection_};
        open_.insert(id);
        Coordinator::Connected connected{id, "10.0.0.7", "10.0.0.7:5", "10.0.0.9", "10.0.0.7"};
        connected.has_proved_secret = bytes_.one_of(8) != 7;
        post(std::move(connected));
        const auto what = static_cast<control::JobCommand::What>(bytes_.one_of(7));
        control::JobCommand command{what, bytes_.coin() ? "job" : "", {node_name()}};
        command.is_forced = bytes_.coin();
        if (bytes_.coin()) command.grace = age();
        if (what == control::JobCommand::What::resize) command.range = range();
        if (what == control::JobCommand::What::signal) command.signal = SIGUSR1;
        post(Coordinator::Received{id, std::move(command)});
    }

    /// Creates many jobs, each on a separate connection, which ends.
    void many_jobs() {
        const int count = 1 + bytes_.one_of(256);
        const bool by_resume = bytes_.coin();
        for (int i = 0; i < count; ++i) {
            auto report = giant(resume());
            report.join.run_id = "job " + std::to_string(++job_count_);
            if (by_resume)
                say_first(std::move(report));
            else
                say_first(std::move(report.join));
            disconnect();
        }
    }

    /// A host or a group rank.
    std::string node_name() {
        const auto number = std::to_string(bytes_.one_of(3));
        return bytes_.coin() ? "n" + number : number;
    }

    control::Notice notice() {
        control::Notice notice{"notice", SIGTERM, age(), std::nullopt, bytes_.one_of(8) == 0};
        if (bytes_.coin())
            notice.asked = std::uint64_t{1} << static_cast<unsigned>(bytes_.one_of(64));
        return notice;
    }

    control::SaveReport save_report() {
        control::SaveReport report;
        report.round = round();
        report.ballot = 1 + bytes_.one_of(4);
        if (bytes_.coin()) report.asked = static_cast<std::uint64_t>(bytes_.one_of(8));
        report.saving = report.saved = bytes_.one_of(3);
        if (report.saved > 0)
            report.least = report.most = static_cast<std::uint64_t>(bytes_.one_of(4));
        report.declined = bytes_.one_of(8) == 7 ? 1 : 0;
        report.ended = bytes_.one_of(3);
        return report;
    }

    // ---- connections ----

    void connect() {
        if (open_.size() == most_connections) return disconnect();
        const ConnectionId id{++last_connection_};
        open_.insert(id);
        const auto addr = "10.0.0." + std::to_string(1 + bytes_.one_of(3));
        post(Coordinator::Connected{id, addr, addr + ":5", "10.0.0.9", addr});
    }

    std::optional<ConnectionId> any_connection() {
        if (open_.empty()) return std::nullopt;
        return *std::next(open_.begin(), bytes_.one_of(static_cast<int>(open_.size())));
    }

    void disconnect() {
        const auto id = any_connection();
        if (!id) return;
        open_.erase(*id);
        post(Coordinator::Disconnected{*id});
    }

    void say(control::AgentMessage message) {
        if (const auto id = any_connection()) post(Coordinator::Received{*id, std::move(message)});
    }

    /// Sends a first message on a new connection, as an agent does.
    void say_first(control::AgentMessage message) {
        const bool is_join = std::holds_alternative<control::Join>(message);
        const auto& join =
            is_join ? std::get<control::Join>(message) : std::get<control::Resume>(message).join;
        connect();
        const ConnectionId id{last_connection_};
        if (!open_.contains(id)) return;
        node_of_[id] = join.node.nonce;
        post(Coordinator::Received{id, std::move(message)});
    }

    void all_are_heard() {
        for (const auto id : std::set<ConnectionId>{open_})
            if (open_.contains(id)) post(Coordinator::Received{id, control::Heartbeat{2}});
    }

    // ---- messages ----

    control::StoreWait wait() {
        const int place = round();
        return {
            place,
            bytes_.coin() ? "a" : "b",
            0,
            age(),
            bytes_.coin(),
            static_cast<std::uint64_t>(bytes_.one_of(3)),
            {"10.0.0.1:1"}};
    }

    control::StoreClients clients() {
        const int place = round();
        return {place, {{bytes_.one_of(4), "10.0.0.1:1"}}, {bytes_.one_of(4)}, {bytes_.one_of(4)}};
    }

    Nonce nonce(int number) {
        std::array<std::uint8_t, 16> bytes{};
        bytes[15] = static_cast<std::uint8_t>(1 + number);
        return Nonce{bytes};
    }

    control::Join join() {
        control::Join join;
        const int number = bytes_.one_of(most_nodes);
        // Most bytes select common messages, so that rounds are formed.
        const int odd = bytes_.one_of(64);
        join.run_id = odd == 1 ? "other" : "job";
        if (odd >= 2 && odd <= 5) join.incarnation = std::to_string(1 + odd % 3);
        join.node = {nonce(number), "n" + std::to_string(number % 3), 100, odd == 6 ? 1U : 0U};
        join.nodes = {odd == 7 ? 2 : 1, odd == 8 ? 1 : 3, odd == 9 ? 1 : 0};
        join.nproc = odd == 10 ? 3 : 1;
        if (odd >= 11 && odd <= 14) join.node_rank = odd - 11;
        if (odd == 15) join.socket_addr = "10.0.0.8:5";
        if (odd != 18) join.versions = {1, 2};
        join.store_port = static_cast<std::uint16_t>(20'000 + (odd == 16 ? 100 : number));
        join.peer_port = 30'000;
        join.max_restarts = 2;
        join.settings.max_losses = 3;
        join.settings.is_static = odd == 17;
        join.settings.failover = control::Failover::nodes;
        join.settings.restart.refill_after = 60s;
        join.settings.restart.shortest_delay = 1s;
        join.settings.restart.longest_delay = 4s;
        return join;
    }

    control::Resume resume() {
        control::Resume resume;
        resume.join = join();
        const auto sent = sent_.find(resume.join.node.nonce);
        const int lie = bytes_.one_of(32);
        if (sent != sent_.end()) {
            resume.incarnation = sent->second.incarnation;
            resume.assignment = sent->second.assignment;
        }
        if (lie < 4 || resume.incarnation.empty()) resume.incarnation = std::to_string(1 + lie % 3);
        if (lie == 4) resume.assignment.reset();
        if (lie > 4 && lie < 12) resume.assignment = claim();
        if (lie > 24) resume.save = control::SavePoint{lie - 24, std::uint64_t{1} << (2 * lie), {}};
        if (lie > 12 && lie < 16)
            resume.drained = control::Drained{lie == 15 ? 1'000'000 : lie, {{node_name(), ""}}};
        resume.spent = lie == 12 ? 1'000'000 : 0;
        resume.state = static_cast<NodeState>(bytes_.one_of(5));
        if (bytes_.one_of(4) == 0) {
            resume.failure = failure();
            resume.age = age();
            resume.kind = kind();
        }
        return resume;
    }

    control::Assignment claim() {
        control::Assignment claim;
        constexpr std::array rounds{0, 1, 2, limits::last_round, 2'147'483'647};
        claim.round = rounds.at(static_cast<std::size_t>(bytes_.one_of(5)));
        claim.restart_count = bytes_.one_of(4) == 0 ? 1'000'000 : 0;
        claim.group_world_size = 1 + bytes_.one_of(3);
        claim.group_rank = bytes_.one_of(4);
        claim.rank_base = claim.group_rank;
        claim.world_size = claim.group_world_size;
        claim.master_addr = "10.0.0.1";
        claim.master_port = 20'000;
        claim.neighbours.push_back({nonce(bytes_.one_of(most_nodes)), "10.0.0.1", 30'000});
        return claim;
    }

    /// One of a few numbers, up to the largest that the format allows.
    int number() {
        constexpr std::array numbers{0, 1, 4'095, 65'535, 65'536, 268'435'456, 2'147'483'647};
        return numbers.at(
            static_cast<std::size_t>(bytes_.one_of(static_cast<int>(numbers.size()))));
    }

    control::Join giant(control::Join join) {
        constexpr Duration ten_years = std::chrono::hours{24 * 3'652};
        join.nodes = {1 + bytes_.one_of(2), limits::max_nodes_per_job, bytes_.one_of(2)};
        join.nproc = limits::max_workers_per_node;
        auto& settings = join.settings;
        settings.join_timeout = settings.last_call_timeout = ten_years;
        settings.lease = settings.grace = ten_years;
        settings.restart = {ten_years, ten_years, ten_years, {}};
        return join;
    }

    control::Resume giant(control::Resume resume) {
        resume.join = giant(std::move(resume.join));
        auto& stated = resume.assignment.emplace(claim());
        stated.group_world_size = std::clamp(number(), 1, limits::max_nodes_per_job);
        stated.group_rank = std::min(number(), limits::max_nodes_per_job - 1);
        stated.world_size = std::max(number(), 1);
        stated.rank_base = number();
        stated.role_world_size = std::max(number(), 1);
        stated.role_rank_base = number();
        return resume;
    }

    int round() { return bytes_.one_of(4) == 0 ? bytes_.one_of(4) : newest_round_; }
    Duration age() { return std::chrono::seconds{bytes_.one_of(4)}; }

    control::WorkerFailure failure() {
        control::WorkerFailure failure;
        constexpr std::array ends{
            control::WorkerEnd{control::WorkerEnd::Kind::exited, 1, false},
            control::WorkerEnd{control::WorkerEnd::Kind::exited, -5, false},
            control::WorkerEnd{control::WorkerEnd::Kind::killed, 9, false},
            control::WorkerEnd{control::WorkerEnd::Kind::killed, 2'147'483'647, true},
            control::WorkerEnd{control::WorkerEnd::Kind::not_executed, 2, false},
        };
        failure.end = ends.at(static_cast<std::size_t>(bytes_.one_of(5)));
        failure.is_secondary = bytes_.coin();
        return failure;
    }

    std::optional<control::Cause::Kind> kind() {
        if (bytes_.coin()) return std::nullopt;
        return bytes_.coin() ? control::Cause::Kind::store_unreachable
                             : control::Cause::Kind::node_lost;
    }

    control::NeighbourHeard heard() {
        control::NeighbourHeard heard;
        heard.node = nonce(bytes_.one_of(most_nodes));
        heard.round = round();
        if (bytes_.coin()) heard.heard_ago = age();
        heard.has_confirmed = bytes_.coin();
        return heard;
    }

    // ---- time ----

    void pass(Duration length) {
        now_ += length;
        post(Coordinator::DeadlinePassed{});
    }

    /// A deadline that was handled on time must not remain.
    void pass_to_deadline() {
        const auto next = coordinator_.next_deadline();
        if (!next) return;
        now_ = std::max(now_, *next);
        for (int round = 0; round < 100; ++round) {
            const auto due = coordinator_.next_deadline();
            if (!due || *due > now_) return;
            post(Coordinator::DeadlinePassed{});
        }
        require(false, "it wants to be woken again and again at the same moment");
    }

    /// The election, which is quick: its record has the voters by the next event.
    void change_voters() {
        if (!requested_) return;
        control::Voters voters{{}, {++ballot_, {}}, {ballot_, requested_->voters, {}}};
        requested_.reset();
        post(Coordinator::VotersChanged{"job", std::move(voters)});
    }

    // ---- effects ----

    void post(Coordinator::Event event) {
        std::vector<Coordinator::Effect> effects;
        coordinator_.handle(std::move(event), now_, effects);
        for (auto& effect : effects)
            perform(effect);
    }

    void perform(Coordinator::Effect& effect) {
        if (const auto* close = std::get_if<Coordinator::Close>(&effect)) {
            require(open_.erase(close->connection) == 1, "closes a closed connection");
            return;
        }
        if (const auto* change = std::get_if<Coordinator::ChangeVoters>(&effect)) {
            require(!requested_, "a second change of the voters");
            require(change->voters.size() % 2 == 1, "an even number of voters");
            requested_ = *change;
            return;
        }
        const auto* send = std::get_if<Coordinator::Send>(&effect);
        if (send == nullptr) return;
        require(open_.contains(send->connection), "sends on a closed connection");
        check_understood(send->message);
        auto& sent = sent_[node_of_[send->connection]];
        if (const auto* welcome = std::get_if<control::Welcome>(&send->message))
            sent.incarnation = welcome->incarnation;
        if (const auto* assignment = std::get_if<control::Assignment>(&send->message)) {
            sent.assignment = *assignment;
            newest_round_ = assignment->round;
        }
    }

    /// Whatever the input is, messages to other nodes must be valid.
    static void check_understood(const control::ServerMessage& message) {
        control::ServerMessageDecoder decoder;
        decoder.append(control::encode(message));
        const auto understood = decoder.next();
        require(understood && *understood, "agents do not understand what it says");
    }

    struct Sent {
        std::string incarnation;
        std::optional<control::Assignment> assignment;
    };

    Bytes bytes_;
    std::optional<Coordinator::ChangeVoters> requested_;
    std::uint64_t ballot_ = 0;
    Coordinator coordinator_;
    Instant now_{std::chrono::hours{24}};
    std::uint64_t last_connection_ = 0;
    std::set<ConnectionId> open_;
    std::map<ConnectionId, Nonce> node_of_;
    std::map<Nonce, Sent> sent_;
    int newest_round_ = 0;
    int job_count_ = 0;
};

/// The limit for any messages: far more memory than any of these inputs may use, and far less than
/// one round of maximum size.
constexpr std::size_t most_held_bytes = 8 * 1024 * 1024;

/// The memory of this process as counted by the allocator (a sanitizer's does not count).
std::size_t held_bytes() {
    return ::mallinfo2().uordblks;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto before = held_bytes();
    Server server{Bytes(data, size)};
    server.live();
    require(held_bytes() < before + most_held_bytes, "it holds what a message stated");
    return 0;
}
