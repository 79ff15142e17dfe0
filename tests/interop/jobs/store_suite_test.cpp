// SPDX-License-Identifier: Apache-2.0
// PyTorch's own tests of its store, the program TCPStoreTest of its wheel, with ddprun's daemon in
// the place of the server that they start: connect_elsewhere.c leads their clients there.
#include "tests/interop/jobs/daemon.hpp"
#include "tests/interop/jobs/torch_environment.hpp"
#include "tests/process/support/left_behind.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace ddprun::test;

namespace {

/// Tests of the server inside the process, instead of its replies.
const std::vector<std::string> about_its_own_server{
    "testCleanShutdown", "testMultiTenantStores", "testMultiTenantStoresUV"};

std::filesystem::path suite_of(const std::filesystem::path& environment) {
    for (const auto& lib : std::filesystem::directory_iterator{environment / "lib"}) {
        const auto file = lib.path() / "site-packages/torch/bin/TCPStoreTest";
        if (lib.is_directory() && std::filesystem::exists(file)) return file;
    }
    std::cout << "SKIP PyTorch's own tests of its store: this PyTorch has no torch/bin/TCPStoreTest"
              << std::endl;
    return {};
}

std::vector<std::string> names_of_tests(const std::filesystem::path& suite) {
    Running list{suite.string(), std::vector<std::string>{"--gtest_list_tests"}};
    REQUIRE(list.wait_for_code(torch_timeout) == 0);
    std::vector<std::string> names;
    std::istringstream lines(list.out());
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("  ")) names.push_back(line.substr(2));
    for (const auto& name : about_its_own_server)
        std::erase(names, name);
    return names;
}

/// One test of the suite, and a daemon with an empty store for it.
struct Case {
    Case(const std::filesystem::path& suite, const std::string& test)
        : name(test),
          process(suite.string(), options(test)) {}

    Running::Options options(const std::string& test) const {
        Running::Options options;
        options.arguments = {"--gtest_filter=TCPStoreTest." + test};
        options.environment = {
            {"LD_PRELOAD", DDPRUN_CONNECT_ELSEWHERE},
            {"DDPRUN_TEST_PORT", std::to_string(daemon.port())}};
        return options;
    }

    std::string name;
    Daemon daemon;
    Running process;
};

}  // namespace

TEST_CASE("PyTorch's own tests of its store pass with our server in the place of its own") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    const auto suite = suite_of(environment);
    if (suite.empty()) return;

    // Started at the same time, since one of them waits for ten seconds.
    std::vector<std::unique_ptr<Case>> cases;
    for (const auto& name : names_of_tests(suite))
        cases.push_back(std::make_unique<Case>(suite, name));

    CHECK(cases.size() >= 5);
    for (const auto& one : cases) {
        CAPTURE(one->name);
        const int code = one->process.wait_for_code(torch_timeout);
        CAPTURE(one->process.out());
        CHECK(code == 0);
        CHECK(one->process.out().find("[  PASSED  ] 1 test.") != std::string::npos);
        CHECK(one->daemon.metric("ddprun_store_operations_total") > 0);
    }
    cases.clear();
    CHECK(no_descendants_left());
}
