// SPDX-License-Identifier: Apache-2.0
#include "agent/health/node_watch.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::health;
using namespace std::chrono_literals;
using control::Activity;

namespace {

constexpr Duration limit = 30s;
constexpr Duration interval = 5s;

/// In a function of that name, idle.
Sample in_function(const std::string& function, std::uint64_t instruction = 1) {
    Sample sample;
    sample.pid = 100;
    sample.state = 'S';
    sample.threads = {{100, {{function, "/home/me/train.py", 7}}, instruction}};
    return sample;
}

/// Spinning in a wait for a GPU: it uses a whole processor.
Sample synchronizing(Instant now) {
    Sample sample = in_function("synchronize");
    sample.threads[0].frames[0].file = "/v/lib/python3.11/site-packages/torch/cuda/__init__.py";
    sample.threads[0].run_time = now - Instant{};
    sample.cpu_time = now - Instant{};
    return sample;
}

struct Story {
    Instant now = Instant{} + 100s;
    NodeWatch watch{limit, interval, now};
    std::vector<control::RankProgress> progress;

    void look(std::vector<Sample> samples, Duration later = interval) {
        now += later;
        watch.on_look_begun(now);
        std::vector<Look> looks;
        for (auto& sample : samples)
            looks.push_back({static_cast<int>(looks.size()), std::move(sample)});
        watch.on_looked(std::move(looks), progress, now);
    }
    /// "blocked f (train.py:7) 10 s: 0 1; ..."
    std::string sites(int count, const std::vector<int>& ended = {}) const {
        std::string text;
        for (const auto& site : watch.sites(3, count, ended).sites) {
            text += text.empty() ? "" : "; ";
            text += std::to_string(static_cast<int>(site.activity)) + " " + site.place + " " +
                    std::to_string(static_cast<int>(in_seconds(site.age))) + " s:";
            for (const int rank : site.local_ranks)
                text += " " + std::to_string(rank);
        }
        return text;
    }
};

std::string number(Activity activity) {
    return std::to_string(static_cast<int>(activity));
}

const std::string blocked = number(Activity::blocked);
const std::string moving = number(Activity::moving);
const std::string unknown = number(Activity::unknown);

}  // namespace

TEST_CASE("a worker is in its place since the first of the looks that saw it there") {
    Story story;
    CHECK(story.watch.look_at() == story.now + interval);
    story.look({in_function("f"), in_function("f")});
    CHECK(story.sites(2) == unknown + "  0 s: 0 1");
    story.look({in_function("f"), in_function("f", 2)});
    CHECK(
        story.sites(2) == blocked + " f (train.py:7) 5 s: 0; " + moving + " f (train.py:7) 0 s: 1");
    story.look({in_function("f"), in_function("f", 2)});
    CHECK(story.sites(2) == blocked + " f (train.py:7) 5 s: 0 1");
    CHECK(story.watch.sites(3, 2, {}).round == 3);
    story.look({in_function("f"), in_function("g", 3)});
    CHECK(
        story.sites(2) ==
        blocked + " f (train.py:7) 15 s: 0; " + moving + " g (train.py:7) 0 s: 1");
}

TEST_CASE("one that has ended is no longer looked at") {
    Story story;
    story.look({in_function("f")});
    story.look({in_function("f")});
    CHECK(
        story.sites(2, {1}) ==
        blocked + " f (train.py:7) 5 s: 0; " + number(Activity::ended) + "  0 s: 1");
}

TEST_CASE("one that reports another step goes on, wherever it was seen") {
    Story story;
    story.look({in_function("f")});
    story.progress = {{0, {7, control::WorkPhase::train}}};
    story.look({in_function("f")});
    CHECK(story.sites(1) == moving + "  0 s: 0");
    story.look({in_function("f")});
    CHECK(story.sites(1) == blocked + " f (train.py:7) 5 s: 0");
}

TEST_CASE("a wait that spins counts only for workers that report steps") {
    Story story;
    const auto look = [&] { story.look({synchronizing(story.now + interval)}); };
    look();
    look();
    CHECK(story.sites(1) == moving + "  0 s: 0");
    story.progress = {{0, {7, control::WorkPhase::train}}};
    look();
    look();
    CHECK(
        story.sites(1) ==
        number(Activity::waits_for_peers) + " cuda.synchronize (__init__.py:7) 5 s: 0");
}

TEST_CASE("nothing is known of a time without looks") {
    Story story;
    story.look({in_function("f")});
    story.look({in_function("f")});
    story.look({in_function("f")}, 16s);
    CHECK(story.sites(1) == unknown + "  0 s: 0");
}

TEST_CASE("a look comes when the limit is over") {
    Story story;
    story.look({in_function("f")});
    for (int i = 0; i < 5; ++i)
        story.look({in_function("f")}, 5100ms);
    // It has been at this site for 25.5 s.
    CHECK(story.watch.look_at().value() < story.now + interval);
    CHECK(story.watch.look_at().value() >= story.now + 4500ms);
    story.watch.on_look_begun(story.now);
    CHECK_FALSE(story.watch.look_at().has_value());
}

TEST_CASE("places beyond those that fit are unknown to the server") {
    Story story;
    std::vector<Sample> samples;
    for (int i = 0; i < 20; ++i)
        samples.push_back(in_function("f" + std::to_string(i)));
    story.look(samples);
    story.look(samples);
    CHECK(story.watch.sites(0, 20, {}).sites.size() == limits::max_reported_sites);
}

TEST_CASE("a program that shows no Python and reports no step may wait for work elsewhere") {
    Story story;
    auto client = in_function("f");
    client.threads.clear();
    client.system_call = "futex(2)";
    story.look({client});
    story.look({client});
    CHECK(story.sites(1) == unknown + " futex(2) 0 s: 0");
    story.progress = {{0, {7, control::WorkPhase::train}}};
    story.look({client});
    story.look({client});
    CHECK(story.sites(1) == blocked + " futex(2) 5 s: 0");
}

TEST_CASE("nothing is known of workers that a look did not reach") {
    Story story;
    story.look({in_function("f")});
    story.look({in_function("f")});
    story.look({});
    CHECK(story.sites(1) == unknown + "  0 s: 0");
    story.look({in_function("f")});
    CHECK(story.sites(1) == unknown + "  0 s: 0");
}
