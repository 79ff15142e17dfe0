// SPDX-License-Identifier: Apache-2.0
// The messages of ddprun-rendezvous about invalid command lines.
#include "tests/process/support/running.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace ddprun::test;

TEST_CASE("a daemon's wrong options end it with 2, what was given, and what is accepted") {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
        {{"--prot=29400"}, "--prot: unknown option: did you mean --port?"},
        {{"--wibble"}, "--wibble: unknown option"},
        {{"-x"}, "-x: unknown option"},
        {{"29400"}, "29400: it takes options only"},
        {{"--port=70000"}, "--port: 70000: a number from 0 to 65535"},
        {{"--port=0100"}, "--port: 0100: a number from 0 to 65535"},
        {{"--port=web"}, "--port: web: a number from 0 to 65535"},
        {{"--host=node1"}, "--host: node1: a numeric address of this machine, or localhost"},
        {{"--log-level=loud"}, "--log-level: loud: trace, debug, info, warning or error"},
        {{"--insecure", "--secret-file=/dev/null"},
         "--insecure: leave it out beside --secret-file"},
        {{"--secret-file", ""}, "--secret-file: the path is empty"},
        {{"--insecure", "--secret-dir", ""}, "--secret-dir: the path is empty"},
        {{"--insecure", "--secret-dir=/"}, "--insecure: leave it out beside --secret-dir"},
        {{"--secret-file=/dev/null", "--secret-dir=/"},
         "--secret-file: leave it out beside --secret-dir, whose files are the secrets"}};
    for (const auto& one : cases) {
        Running daemon{program("ddprun-rendezvous"), one.first};
        CAPTURE(one.first.front());
        CHECK(daemon.wait_for_code() == 2);
        const auto& text = one.second;
        CHECK(daemon.err() == "ddprun-rendezvous: " + text + "\ntry 'ddprun-rendezvous --help'\n");
    }
}
