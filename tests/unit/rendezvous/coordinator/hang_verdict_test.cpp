// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/hang_verdict.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using namespace std::chrono_literals;
using control::Activity;
using control::WorkPhase;

namespace {

constexpr Duration limit = 60s;

/// A round of ranks, each alone on its node, given in their order.
struct Seen {
    Seen() = default;
    Seen(const Seen&) = delete;  // the ranks refer to it
    Seen& operator=(const Seen&) = delete;

    std::deque<control::Site> sites;
    std::deque<std::string> hosts;
    std::vector<RankSeen> ranks;

    Seen& add(Activity activity, std::string place = "", Duration age = 61s) {
        const int rank = static_cast<int>(ranks.size());
        sites.push_back({activity, std::move(place), "", age, {0}});
        hosts.push_back("node" + std::to_string(rank));
        ranks.push_back({rank, hosts.back(), &sites.back()});
        return *this;
    }
    Seen& waits(std::string place = "all_reduce, called at train.py:57", Duration age = 61s) {
        return add(Activity::waits_for_peers, std::move(place), age);
    }
    Seen& at_step(std::uint64_t step, WorkPhase phase = WorkPhase::train) {
        ranks.back().progress = {step, phase};
        return *this;
    }
    Seen& unknown() {
        add(Activity::unknown);
        ranks.back().site = nullptr;
        return *this;
    }

    std::string verdict() const {
        const auto found = judge_hang(ranks, limit);
        if (!found) return "none";
        return headline(*found, ranks) + (found->is_certain ? "" : " (not certain)");
    }
    std::vector<std::string> rows() const {
        return coordinator::rows(judge_hang(ranks, limit).value(), ranks);
    }
};

}  // namespace

TEST_CASE("no verdict while a rank may still go on") {
    CHECK(Seen{}.verdict() == "none");
    CHECK(Seen{}.waits().waits().unknown().verdict() == "none");
    CHECK(Seen{}.waits().waits().add(Activity::unknown).verdict() == "none");
    CHECK(Seen{}.waits().waits().add(Activity::traced).verdict() == "none");
    CHECK(Seen{}.waits().add(Activity::blocked, "read", 59s).verdict() == "none");
    CHECK(Seen{}.waits("all_reduce", 59s).add(Activity::blocked, "read").verdict() == "none");
    // Ranks that work while no rank waits for them cause no verdict.
    CHECK(Seen{}.add(Activity::blocked, "read").add(Activity::moving).verdict() == "none");
    CHECK(Seen{}.add(Activity::moving).add(Activity::busy).waits().verdict() == "none");
    CHECK(Seen{}.add(Activity::ended).add(Activity::ended).verdict() == "none");
}

TEST_CASE("ranks that work while all others wait delay them") {
    Seen seen;
    seen.add(Activity::busy, "save (train.py:90)", 5s).waits().waits();
    CHECK(seen.verdict() == "rank 0 on node0 delays the others for 61 s");
    CHECK(
        seen.rows() == std::vector<std::string>{
                           "rank 0 on node0: busy in save (train.py:90) for 5 s",
                           "ranks 1-2: wait for other ranks in all_reduce, called at "
                           "train.py:57 for 61 s"});
    CHECK(
        Seen{}.add(Activity::moving).add(Activity::busy).waits().waits().waits().verdict() ==
        "ranks 0-1 delay the others for 61 s");
}

TEST_CASE("of two ranks the one that works delays the other") {
    CHECK(
        Seen{}.add(Activity::moving).waits().verdict() ==
        "rank 0 on node0 delays the others for 61 s");
}

TEST_CASE("a rank that has ended need not have ended long ago") {
    CHECK(
        Seen{}.waits().waits().add(Activity::ended, "", 0s).verdict() ==
        "the job hangs: no progress for 61 s; rank 2 on node2 has ended with code 0");
}

TEST_CASE("the state of a process explains the others") {
    CHECK(
        Seen{}.waits().add(Activity::stopped, "f (a.py:1)").add(Activity::blocked, "g").verdict() ==
        "the job hangs: no progress for 61 s; rank 1 on node1 is stopped by a signal");
    CHECK(
        Seen{}.waits().waits().add(Activity::in_kernel).verdict() ==
        "the job hangs: no progress for 61 s; rank 2 on node2 is in a system call that does not "
        "return");
    CHECK(
        Seen{}.waits().waits().add(Activity::ended, "", 1h).verdict() ==
        "the job hangs: no progress for 61 s; rank 2 on node2 has ended with code 0");
    CHECK(
        Seen{}.waits().add(Activity::ended, "", 1h).add(Activity::ended, "", 1h).verdict() ==
        "the job hangs: no progress for 61 s; ranks 1-2 have ended with code 0 (not certain)");
    CHECK(
        Seen{}.waits().add(Activity::connects, "init_process_group").waits().verdict() ==
        "the job hangs: no progress for 61 s; rank 1 on node1 cannot connect");
}

TEST_CASE("the rank that does not wait for others is the one that is waited for") {
    Seen seen;
    seen.waits().waits().add(Activity::blocked, "read_batch (loader.py:112)");
    seen.sites.back().detail = "thread 4711: read(2) on /data/shard-17";
    seen.waits();
    CHECK(
        seen.verdict() ==
        "the job hangs: no progress for 61 s; rank 2 on node2 is the only rank that does not wait "
        "for others");
    CHECK(
        seen.rows() ==
        std::vector<std::string>{
            "rank 2 on node2: blocked in read_batch (loader.py:112) for 61 s",
            "    thread 4711: read(2) on /data/shard-17",
            "ranks 0-1,3: wait for other ranks in all_reduce, called at train.py:57 for 61 s"});
    // More than half, but in one place.
    CHECK(
        Seen{}
            .waits()
            .add(Activity::blocked, "sleep (a.py:3)")
            .add(Activity::blocked, "sleep (a.py:3)")
            .verdict() ==
        "the job hangs: no progress for 61 s; ranks 1-2 do not wait for others, unlike the rest "
        "(not certain)");
    // More than half, each in another place.
    CHECK(
        Seen{}.waits().add(Activity::blocked, "a").add(Activity::blocked, "b").verdict() ==
        "the job hangs: no progress for 61 s; the ranks are in different places (not certain)");
}

TEST_CASE("where all wait, the lowest step is behind") {
    CHECK(
        Seen{}.waits().at_step(12).waits().at_step(11).waits().at_step(12).verdict() ==
        "the job hangs: no progress for 61 s; rank 1 on node1 is behind: at step 11, while others "
        "are at step 12");
    CHECK(
        Seen{}.waits().at_step(12).waits().at_step(12).verdict() ==
        "the job hangs: no progress for 61 s; no rank is behind: all wait for other ranks in "
        "all_reduce, called at train.py:57 (not certain)");
}

TEST_CASE("where all wait, the rarest call is another one than the rest's") {
    CHECK(
        Seen{}.waits().waits("barrier, called at train.py:60").waits().verdict() ==
        "the job hangs: no progress for 61 s; rank 1 on node1 is in another place than the rest "
        "(not certain)");
    CHECK(
        Seen{}.waits("a").waits("a").waits("a").waits("b").waits("b").waits("c").verdict() ==
        "the job hangs: no progress for 61 s; rank 5 on node5 is in another place than the rest "
        "(not certain)");
    CHECK(
        Seen{}.waits("a").waits("b").verdict() ==
        "the job hangs: no progress for 61 s; the ranks are in different places (not certain)");
    CHECK(
        Seen{}.waits("a").add(Activity::waits_for_store, "a").waits("a").verdict() ==
        "the job hangs: no progress for 61 s; rank 1 on node1 is in another place than the rest "
        "(not certain)");
}

TEST_CASE("all ranks in one place that is no wait") {
    CHECK(
        Seen{}
            .add(Activity::blocked, "f (a.py:1)")
            .add(Activity::blocked, "f (a.py:1)")
            .verdict() ==
        "the job hangs: no progress for 61 s; no rank is behind: all are blocked in f (a.py:1) "
        "(not certain)");
}

TEST_CASE("phases that take long get ten times the limit") {
    for (const auto phase :
         {WorkPhase::start, WorkPhase::eval, WorkPhase::save, WorkPhase::compile}) {
        CHECK(
            Seen{}.waits().add(Activity::blocked, "f").at_step(3, phase).waits().verdict() ==
            "none");
        CHECK(
            Seen{}.waits().add(Activity::blocked, "f", 600s).at_step(3, phase).waits().verdict() !=
            "none");
    }
    CHECK(
        Seen{}.waits().add(Activity::blocked, "f").at_step(3, WorkPhase::data).waits().verdict() !=
        "none");
}

TEST_CASE("many places are cut") {
    Seen seen;
    for (int i = 0; i < 40; ++i)
        seen.waits("call " + std::to_string(i));
    const auto lines = seen.rows();
    CHECK(lines.size() == 13);
    CHECK(lines.back() == "and 28 more places");
}
