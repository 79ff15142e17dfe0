// SPDX-License-Identifier: Apache-2.0
#include "agent/process/descendants.hpp"

#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/running.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

bool is_alive(pid_t pid) {
    return ::kill(pid, 0) == 0;
}

}  // namespace

TEST_CASE("a process that left its parent's session and ignores every signal is killed too") {
    Running parent(stub("fork_and_leave"), {"stay"});
    const int grandchild = parent.wait_for_number("grandchild ");

    CHECK(kill_descendants(fact_timeout).empty());

    CHECK_FALSE(is_alive(parent.pid()));
    CHECK_FALSE(is_alive(grandchild));
}

TEST_CASE("an orphan is killed and reaped") {
    Running parent(stub("fork_and_leave"));
    const int orphan = parent.wait_for_number("grandchild ");
    CHECK(parent.wait_for_code() == 0);
    REQUIRE(is_alive(orphan));

    CHECK(kill_descendants(fact_timeout).empty());

    CHECK_FALSE(is_alive(orphan));
}

TEST_CASE("a deep chain and a wide fan are killed whole") {
    // Each level starts the next and two more, then waits: 2^7 - 1 shells and their sleepers.
    Running tree(
        "/bin/sh",
        {"-c",
         "f() { sleep 1000 & [ $1 = 0 ] || { (f $(($1 - 1))) & (f $(($1 - 1))) & }; "
         "[ $1 = 6 ] && echo grown; wait; }; f 6"});
    tree.wait_for_line("grown");

    CHECK(kill_descendants(fact_timeout).empty());

    CHECK(list_descendants().empty());
}

TEST_CASE("pre-existing children, and what is below them, are left alone") {
    Running preexisting("/bin/sh", {"-c", "sleep 1000 & echo child $!; wait"});
    const int child_of_preexisting = preexisting.wait_for_number("child ");
    Running ours(stub("ignore_term"));
    ours.wait_for_line("ready");
    const std::array excluded{preexisting.pid()};

    CHECK(kill_descendants(fact_timeout, excluded).empty());

    CHECK_FALSE(is_alive(ours.pid()));
    CHECK(is_alive(preexisting.pid()));
    CHECK(is_alive(child_of_preexisting));
    CHECK(kill_descendants(fact_timeout).empty());
}

TEST_CASE("a process is described for the report of what is stuck") {
    Running stubborn(stub("ignore_term"));
    stubborn.wait_for_line("ready");

    // The process reports that it is ready shortly before it sleeps.
    REQUIRE(holds_within(fact_timeout, [] { return list_descendants().at(0).state == 'S'; }));
    const auto found = list_descendants();

    REQUIRE(found.size() == 1);
    CHECK(found[0].session == stubborn.pid());
    CHECK(found[0].parent == ::getpid());
    CHECK(
        found[0].describe() == "ignore_term (pid " + std::to_string(stubborn.pid()) + ", state S)");
}

TEST_CASE("a signal reaches every living descendant, and the count says how many") {
    Running parent("/bin/sh", {"-c", "sleep 1000 & sleep 1000 & echo up; wait"});
    parent.wait_for_line("up");
    REQUIRE(holds_within(fact_timeout, [] { return list_descendants().size() == 3; }));

    CHECK(signal_descendants(SIGTERM) == 3);

    CHECK(parent.wait_for_exit() == WorkerExit(WorkerExit::Killed{SIGTERM, false}));
    CHECK(no_descendants_left());
}

TEST_CASE("a command name with spaces and brackets is read whole") {
    Running odd("/bin/sh", {"-c", "printf 'a) R (b' > /proc/$$/comm; echo up; sleep 1000; true"});
    odd.wait_for_line("up");

    const auto found = list_descendants();
    const auto odd_one = std::find_if(
        found.begin(), found.end(), [&](const auto& process) { return process.pid == odd.pid(); });

    REQUIRE(odd_one != found.end());
    CHECK(std::string{odd_one->command.data()} == "a) R (b");
    CHECK(odd_one->parent == ::getpid());
    CHECK(kill_descendants(fact_timeout).empty());
}

TEST_CASE("direct children are listed, those of every thread") {
    Running one(stub("ignore_term"));
    Running two(stub("ignore_term"));
    std::array<pid_t, 1> room{};

    CHECK(list_children(room) == 2);
    CHECK((room[0] == one.pid() || room[0] == two.pid()));
}
