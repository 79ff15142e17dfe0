// SPDX-License-Identifier: Apache-2.0
#include "agent/health/stack_text.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::agent::health;

namespace {

constexpr std::size_t enough = 4096;

Sample a_sample() {
    Sample sample;
    sample.pid = 4711;
    sample.state = 'S';
    const PythonThread pool{0, {{"Queue.get", "/usr/lib/python3.12/queue.py", 171}}, 1};
    sample.threads = {
        {4712, pool.frames, 1},
        {4711, {{"read", "/home/me/loader.py", 112}, {"<module>", "/home/me/train.py", 0}}, 2},
        {4713, pool.frames, 1},
        {4714, {}, 0}};
    return sample;
}

}  // namespace

TEST_CASE("stacks begin with the main thread, and equal ones are shown once") {
    CHECK(
        stack_text(a_sample(), enough) ==
        "main thread 4711\n"
        "  read (/home/me/loader.py:112)\n"
        "  <module> (/home/me/train.py)\n"
        "threads 4712, 4713\n"
        "  Queue.get (/usr/lib/python3.12/queue.py:171)\n"
        "thread 4714: no Python code");
}

TEST_CASE("without stacks the reason is shown") {
    Sample sample;
    sample.no_frames = "Python older than 3.11";
    CHECK(stack_text(sample, enough) == "no Python stack: Python older than 3.11");
}

TEST_CASE("stacks are cut at a line, and what is left out is counted") {
    const auto whole = stack_text(a_sample(), enough);
    CHECK(
        stack_text(a_sample(), 100) ==
        "main thread 4711\n  read (/home/me/loader.py:112)\nand 4 more lines");
    for (std::size_t most = 64; most < whole.size(); ++most)
        CHECK(stack_text(a_sample(), most).size() <= most);
}

TEST_CASE("each activity has words of its own") {
    for (int i = 0; i <= static_cast<int>(control::Activity::traced); ++i)
        for (int j = 0; j < i; ++j)
            CHECK(
                in_words(static_cast<control::Activity>(i)) !=
                in_words(static_cast<control::Activity>(j)));
    CHECK(in_words(static_cast<control::Activity>(200)).empty());
}
