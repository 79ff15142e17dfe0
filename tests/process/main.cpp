// SPDX-License-Identifier: Apache-2.0
// Every test begins without descendants and must end without any: this program is a subreaper, so
// every process that a test started, however detached, becomes a descendant of it.
#define DOCTEST_CONFIG_IMPLEMENT
#include "agent/process/descendants.hpp"
#include "rendezvous/base/limits.hpp"
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <iostream>

namespace {

bool is_anything_left = false;

struct NothingLeftBehind : doctest::IReporter {
    explicit NothingLeftBehind(const doctest::ContextOptions&) {}

    void test_case_start(const doctest::TestCaseData& test) override {
        ddprun::test::set_test_name(test.m_name);
    }
    void test_case_end(const doctest::CurrentTestCaseStats&) override {
        const auto left = ddprun::test::left_behind();
        if (left.empty()) return;
        is_anything_left = true;
        std::cerr << "ERROR: left behind: " << left << '\n';
        ddprun::agent::kill_descendants(ddprun::limits::kill_descendants_timeout);
    }

    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats&) override {}
    void test_case_reenter(const doctest::TestCaseData&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData&) override {}
    void log_message(const doctest::MessageData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}
};

}  // namespace

REGISTER_LISTENER("nothing_left_behind", 1, NothingLeftBehind);

int main(int argc, char** argv) {
    ddprun::agent::become_subreaper();
    // Tests check exit statuses and write to pipes whose readers are gone.
    std::signal(SIGCHLD, SIG_DFL);
    std::signal(SIGPIPE, SIG_IGN);
    doctest::Context context(argc, argv);
    const int result = context.run();
    return result == 0 && (is_anything_left || ddprun::test::has_failed_skip()) ? 1 : result;
}
