// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/voters/proposer.hpp"
#include "rendezvous/voters/voter.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::voters;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

namespace {

/// Each leadership lasts so long after its last renewal.
constexpr Duration model_ttl = 2s;
constexpr std::size_t most_places = 5;

/// What happened in all histories together.
struct Counts {
    int elections = 0;
    int successions = 0;
    int renewals = 0;
    int changes = 0;
    int ends = 0;
};

/// Processes that lead, change the voters and crash at random, in a network that loses, delays,
/// duplicates and reorders what they send. Checks what they decide.
class History {
public:
    History(std::uint64_t seed, Counts& counts) : random_(seed), counts_(counts) {
        const auto count = 2 + below(most_places - 1);
        for (std::size_t place = 0; place < count; ++place)
            start(place, {});
        JobRecord record;
        record.lineage = lineage_ = make_nonce(random_);
        record.voters.voters = some_places();
        for (std::size_t place = 0; place < count; ++place) {
            auto& process = *processes_[place];
            process.proposer = Proposer{{process.nonce, "job", lineage_, record.voters}};
            // As if the record had been created and its voters changed already.
            process.voter.handle(Accept{"job", process.nonce, Ballot{}, record}, clock_of(process));
        }
        decided_[Ballot{}] = record;
        for (std::size_t place = 0; place < count; ++place)
            act_later(place);
    }

    /// What went wrong; empty: nothing.
    std::string run() {
        while (problem_.empty() && !queue_.empty() && queue_.top().at < ends_at_) {
            const auto next = queue_.top();
            queue_.pop();
            now_ = next.at;
            const auto event = std::exchange(events_[next.event], {});
            event();
        }
        return problem_;
    }

private:
    using At = Duration;

    struct Process {
        Nonce nonce;
        double rate;
        Duration set_by;
        Voter voter;
        Proposer proposer;
        int operation = 0;
        Change change = {};
        bool is_busy = false;
        /// The highest ballot that was decided before its operation began.
        Ballot decided_before = {};
        std::uint64_t known_epoch = 0;
        std::uint64_t epoch = 0;
        /// It acts as the leader until then, by its own clock.
        Instant leads_until = {};
        /// Those of the record with which it was elected, and its own.
        std::string ends = {};
    };

    // ---- chance ----

    std::size_t below(std::size_t end) { return random_() % end; }
    bool chance(unsigned percent) { return random_() % 100 < percent; }
    Duration between(Duration least, Duration most) {
        return least + Duration{static_cast<Duration::rep>(
                           random_() % static_cast<std::uint64_t>((most - least).count()))};
    }
    Duration delay() {
        const auto kind = below(100);
        if (kind < 80) return between(1ms, 30ms);
        return kind < 95 ? between(30ms, 500ms) : between(500ms, 4s);
    }

    // ---- the world ----

    static std::string address_of(std::size_t place) { return "p" + std::to_string(place); }

    Instant clock_of(const Process& process) const {
        return Instant{} + process.set_by + from_seconds(process.rate * in_seconds(now_));
    }

    /// A process at that place, and the end of the one before.
    void start(std::size_t place, const VoterSet& known) {
        // 10 % too fast or too slow at most.
        static constexpr std::array rates{0.9, 0.95, 1.0, 1.05, 1.1};
        const auto nonce = make_nonce(random_);
        processes_.resize(std::max(processes_.size(), place + 1));
        processes_[place].emplace(Process{
            nonce,
            rates[below(rates.size())],
            between(0s, 1000s),
            Voter{nonce},
            Proposer{{nonce, "job", lineage_, known}}});
    }

    /// One to five processes.
    std::vector<VoterPlace> some_places() {
        std::vector<VoterPlace> places;
        for (std::size_t place = 0; place < processes_.size(); ++place)
            if (places.size() < limits::max_voters && chance(60))
                places.push_back({address_of(place), processes_[place]->nonce});
        if (places.empty()) places.push_back({address_of(0), processes_[0]->nonce});
        return places;
    }

    void later(Duration delay, std::function<void()> event) {
        queue_.push({now_ + delay, events_.size()});
        events_.push_back(std::move(event));
    }

    bool is_cut_off(std::size_t place) const { return now_ < cut_off_until_[place]; }

    /// Delivers it once, twice or never. Returns false if it is lost.
    bool send(std::size_t from, std::size_t to, const std::function<void()>& deliver) {
        if (from == to) {
            later(0s, deliver);
            return true;
        }
        if (is_cut_off(from) || is_cut_off(to) || chance(8)) return false;
        later(delay(), deliver);
        if (chance(5)) later(delay(), deliver);
        return true;
    }

    void send_request(std::size_t from, Proposer::Send& sent) {
        const auto to = static_cast<std::size_t>(sent.to.address[1] - '0');
        const auto proposer = processes_[from]->nonce;
        const auto voter = sent.to.nonce;
        const auto request = std::make_shared<const Request>(std::move(sent.request));
        const bool arrives = send(from, to, [this, from, to, proposer, voter, request] {
            if (is_cut_off(to)) return;
            auto& process = *processes_[to];
            const auto answer =
                std::make_shared<const Answer>(process.voter.handle(*request, clock_of(process)));
            send(to, from, [this, from, proposer, voter, answer] {
                event(from, proposer, Proposer::Answered{voter, *answer});
            });
        });
        if (!arrives && chance(80))
            later(delay(), [this, from, proposer, voter] {
                event(from, proposer, Proposer::Unreached{voter});
            });
    }

    /// Only that process gets it: its connections end with it.
    void event(std::size_t place, const Nonce& nonce, Proposer::Event event) {
        auto& process = *processes_[place];
        if (process.nonce != nonce) return;
        std::vector<Proposer::Effect> effects;
        process.proposer.handle(std::move(event), clock_of(process), effects);
        for (auto& effect : effects)
            std::visit(
                Overloaded{
                    [&](Proposer::Send& sent) { send_request(place, sent); },
                    [&](const Proposer::Decided& decided) { on_decided(process, decided); },
                    [&](const Proposer::Failed&) { process.is_busy = false; },
                },
                effect);
    }

    // ---- what processes do ----

    void act_later(std::size_t place) {
        later(chance(50) ? between(50ms, 500ms) : between(500ms, 2s), [this, place] {
            act(place);
            act_later(place);
        });
    }

    void act(std::size_t place) {
        if (chance(3)) {
            // The next process at that place learns of the voters from any other one.
            start(place, processes_[below(processes_.size())]->proposer.voters());
            return;
        }
        if (chance(4)) cut_off_until_[place] = now_ + between(300ms, 3s);
        auto& process = *processes_[place];
        const auto nonce = process.nonce;
        const auto deadline = process.proposer.next_deadline();
        if (deadline && clock_of(process) >= *deadline)
            event(place, nonce, Proposer::DeadlinePassed{});
        if (process.is_busy) return;
        process.change = next_change(process);
        process.is_busy = true;
        process.decided_before = decided_.rbegin()->first;
        event(place, nonce, Proposer::Wanted{++process.operation, process.change});
    }

    Change next_change(Process& process) {
        const bool leads = clock_of(process) < process.leads_until;
        const auto kind = below(100);
        if (!leads) {
            // An end that it has only by its clock may be taken back by a renewal.
            if (process.epoch > 0 && kind < 20) return Renew{process.epoch};
            if (kind < 90) return Take{"host", "there:1", model_ttl, process.known_epoch};
            return Read{};
        }
        if (kind < 45) return Renew{process.epoch};
        if (kind < 50) {
            process.leads_until = {};
            return StepDown{process.epoch};
        }
        if (kind < 55) return Read{};
        if (kind < 72) {
            // Each is another character, so that none can be taken for another one.
            process.ends += static_cast<char>('0' + ++last_end_);
            return RecordEnd{process.epoch, process.ends};
        }
        return ChangeVoters{process.epoch, some_places()};
    }

    // ---- checks ----

    void fail(const std::string& what) {
        if (problem_.empty()) problem_ = what + " at " + std::to_string(in_seconds(now_)) + " s";
    }

    void on_decided(Process& process, const Proposer::Decided& decided) {
        process.is_busy = false;
        const auto& record = decided.record;
        process.known_epoch = std::max(process.known_epoch, record.epoch);
        check_order(process, decided);
        if (decided.outcome == Outcome::not_leader) process.epoch = 0;
        if (decided.outcome != Outcome::done) return;
        if (std::holds_alternative<ChangeVoters>(process.change)) {
            ++counts_.changes;
            if (record.voters.is_joint()) fail("a change is decided half way");
        }
        if (const auto* recorded = std::get_if<RecordEnd>(&process.change)) {
            ++counts_.ends;
            if (record.ends != recorded->ends) fail("other ends are decided than were asked for");
        }
        const bool is_election = std::holds_alternative<Take>(process.change);
        if (!is_election && !std::holds_alternative<Renew>(process.change)) return;
        ++(is_election ? counts_.elections : counts_.renewals);
        if (is_election) {
            if (!elected_.emplace(record.epoch, process.nonce).second)
                fail("two leaderships of epoch " + std::to_string(record.epoch));
            if (last_leader_ != process.nonce) ++counts_.successions;
            last_leader_ = process.nonce;
            process.ends = record.ends;
        }
        process.epoch = record.epoch;
        process.leads_until =
            decided.sent_at + from_seconds(limits::leading_share_of_ttl * in_seconds(record.ttl));
        if (clock_of(process) >= process.leads_until) return;
        for (const auto& other : processes_)
            if (other->nonce != process.nonce && clock_of(*other) < other->leads_until)
                fail(
                    "two leaders: epochs " + std::to_string(other->epoch) + " and " +
                    std::to_string(process.epoch));
    }

    /// In the order of their ballots, what is decided must be a sequence of changes, and agree with
    /// the order in time.
    void check_order(const Process& process, const Proposer::Decided& decided) {
        if (decided.ballot < process.decided_before)
            fail("an operation has read a value from before it began");
        const auto [at, is_new] = decided_.emplace(decided.ballot, decided.record);
        if (!is_new) {
            if (at->second != decided.record) fail("two values of one ballot");
            return;
        }
        if (at != decided_.begin()) check_successor(std::prev(at)->second, at->second);
        if (std::next(at) != decided_.end()) check_successor(at->second, std::next(at)->second);
    }

    void check_successor(const JobRecord& before, const JobRecord& after) {
        const auto text = ": " + describe(before) + " | " + describe(after);
        if (after.epoch < before.epoch) return fail("an election is lost" + text);
        const auto& old = before.voters;
        if (after.voters.version < old.version ||
            (after.voters.version == old.version) != (after.voters == old))
            return fail("a change of the voters is lost" + text);
        // A leader puts its own behind those that it has found.
        if (!after.ends.starts_with(before.ends)) return fail("the end of a job is lost" + text);
        if (after.epoch > before.epoch) return;
        if (after.counter < before.counter) return fail("a renewal is lost" + text);
        if (after.leader && after.leader != before.leader)
            return fail("a leadership ends or begins without an epoch" + text);
    }

    struct Entry {
        At at;
        std::size_t event;
        bool operator<(const Entry& other) const {
            return std::pair{at, event} > std::pair{other.at, other.event};
        }
    };

    Random random_;
    Counts& counts_;
    At now_{};
    At ends_at_ = 4s;
    std::priority_queue<Entry> queue_;
    std::vector<std::function<void()>> events_;
    Nonce lineage_;
    std::vector<std::optional<Process>> processes_;
    std::array<At, most_places> cut_off_until_{};
    std::map<Ballot, JobRecord> decided_;
    std::map<std::uint64_t, Nonce> elected_;
    Nonce last_leader_;
    int last_end_ = 0;
    std::string problem_;
};

std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

// DDPRUN_SEED=N replays one history, and with DDPRUN_SEEDS=COUNT those that follow it too.
TEST_CASE("in random histories no two processes lead at once, and no change is lost") {
    const bool is_replay = std::getenv("DDPRUN_SEED") != nullptr;
    const auto first = number_in_environment("DDPRUN_SEED", 1);
    const auto count = number_in_environment("DDPRUN_SEEDS", is_replay ? 1 : 1000);
    Counts counts;
    for (auto seed = first; seed < first + count; ++seed) {
        INFO("DDPRUN_SEED=", seed, " gives this again");
        REQUIRE(History(seed, counts).run() == "");
    }
    if (is_replay) return;
    // A check of nothing would not fail.
    CHECK(counts.elections > 1000);
    CHECK(counts.successions > 500);
    CHECK(counts.renewals > 300);
    CHECK(counts.changes > 100);
    CHECK(counts.ends > 100);
}
