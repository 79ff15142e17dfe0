// SPDX-License-Identifier: Apache-2.0
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace ddprun::rules;

namespace {

/// Which folder may include which: of the rows that match a prefix of the file's path the longest
/// counts. A prefix without a slash at its end matches all names that begin with it. A folder may
/// include itself.
struct Arrow {
    std::string_view from;
    std::vector<std::string_view> to;
};

/// Each folder in it has a row; any folder may include the headers directly in it (names, waiting
/// times).
constexpr std::string_view sdk = "worker_sdk/src/";

const std::vector<Arrow> arrows{
    {"rendezvous/base/", {}},
    {"rendezvous/wire/", {"rendezvous/base/"}},
    {"rendezvous/store/", {"rendezvous/base/", "rendezvous/wire/"}},
    {"rendezvous/control/", {"rendezvous/base/"}},
    {"rendezvous/coordinator/", {"rendezvous/base/", "rendezvous/control/"}},
    {"rendezvous/voters/", {"rendezvous/base/", "rendezvous/control/"}},
    {"rendezvous/net/", {"rendezvous/base/"}},
    {"rendezvous/tls/", {"rendezvous/base/"}},
    {"rendezvous/tunnel/", {"rendezvous/base/"}},
    {"rendezvous/client/",
     {"rendezvous/base/",
      "rendezvous/wire/",
      "rendezvous/control/",
      "rendezvous/net/",
      "rendezvous/tls/"}},
    {"rendezvous/client/client_session", {"rendezvous/base/", "rendezvous/wire/"}},
    {"rendezvous/witness/", {"rendezvous/base/"}},
    {"rendezvous/witness/engine_access", {"rendezvous/tls/"}},
    {"rendezvous/witness/etcd_client", {"rendezvous/base/", "rendezvous/tls/"}},
    {"rendezvous/witness/kubernetes_client", {"rendezvous/base/", "rendezvous/tls/"}},
    {"rendezvous/witness/http_client", {"rendezvous/base/", "rendezvous/net/", "rendezvous/tls/"}},
    {"rendezvous/witness/voter_requests",
     {"rendezvous/base/", "rendezvous/control/", "rendezvous/voters/"}},
    {"rendezvous/server/",
     {"rendezvous/base/",
      "rendezvous/wire/",
      "rendezvous/store/",
      "rendezvous/control/",
      "rendezvous/coordinator/",
      "rendezvous/net/",
      "rendezvous/tls/",
      "rendezvous/voters/"}},
    {"agent/", {"rendezvous/"}},
    {"agent/plan/", {"rendezvous/base/", "rendezvous/control/"}},
    {"agent/health/", {"agent/plan/", "agent/report/", "rendezvous/base/", "rendezvous/control/"}},
    {"agent/process/", {"agent/plan/", "agent/supervise/worker_exit.hpp", "rendezvous/"}},
    {"agent/workers/", {"rendezvous/base/"}},
    {"agent/keeper/", {"agent/process/", "rendezvous/"}},
    {"agent/output/", {"agent/plan/", "agent/process/", "agent/report/", "rendezvous/"}},
    {"agent/runner/",
     {"agent/agent_config.hpp",
      "agent/command/",
      "agent/health/",
      "agent/keeper/",
      "agent/output/",
      "agent/plan/",
      "agent/process/",
      "agent/report/",
      "agent/supervise/",
      "agent/workers/",
      "rendezvous/"}},
    {"agent/supervise/",
     {"agent/agent_config.hpp",
      "agent/health/",
      "agent/report/",
      "agent/plan/",
      "rendezvous/base/",
      "rendezvous/control/"}},
    {"agent/report/",
     {"agent/plan/", "agent/supervise/", "rendezvous/base/", "rendezvous/control/"}},
    {"launcher/", {"agent/", "rendezvous/"}},
    {"launcher/ctl/", {"launcher/grammar/", "launcher/run_program.hpp", "rendezvous/"}},
    {"launcher/grammar/", {"agent/plan/", "rendezvous/base/", "rendezvous/control/"}},
    {"launcher/resolve/",
     {"launcher/ctl/ctl_table.hpp", "launcher/grammar/", "agent/", "rendezvous/"}},
    {"launcher/explain/", {"launcher/grammar/", "launcher/resolve/", "agent/", "rendezvous/"}},
    {"launcher/hosts/",
     {"launcher/explain/", "launcher/grammar/", "launcher/resolve/", "agent/", "rendezvous/"}},
    {"worker_sdk/include/", {}},
    {sdk, {"rendezvous/base/"}},
    {"worker_sdk/src/world/", {"rendezvous/base/"}},
    {"worker_sdk/src/channel/", {}},
    {"worker_sdk/src/record/", {"rendezvous/base/"}},
    {"worker_sdk/src/record/progress.cpp", {"worker_sdk/src/channel/page.hpp"}},
    {"worker_sdk/src/record/record.cpp", {"rendezvous/base/", "worker_sdk/src/c/guard.hpp"}},
    {"worker_sdk/src/recovery/",
     {"worker_sdk/src/channel/attach.hpp",
      "worker_sdk/src/groups/group.hpp",
      "worker_sdk/src/record/stop.hpp"}},
    {"worker_sdk/src/store/",
     {"worker_sdk/src/world/",
      "rendezvous/base/",
      "rendezvous/wire/",
      "rendezvous/client/",
      "rendezvous/store/"}},
    {"worker_sdk/src/groups/", {"rendezvous/base/"}},
    {"worker_sdk/src/transports/",
     {"rendezvous/base/", "worker_sdk/src/groups/", "worker_sdk/src/store/"}},
    {"worker_sdk/src/transports/host/",
     {"rendezvous/base/", "worker_sdk/src/groups/", "worker_sdk/src/record/stop.hpp"}},
    {"worker_sdk/src/transports/wire/", {"rendezvous/base/", "worker_sdk/src/groups/"}},
    {"worker_sdk/src/transports/nccl/",
     {"rendezvous/base/", "worker_sdk/src/groups/", "worker_sdk/src/record/error_file.hpp"}},
    {"worker_sdk/src/c/",
     {"rendezvous/base/",
      "worker_sdk/src/groups/",
      "worker_sdk/src/recovery/",
      "worker_sdk/src/store/",
      "worker_sdk/src/transports/create_group.hpp",
      "worker_sdk/src/world/"}},
    {"worker_sdk/src/reduce/",
     {"rendezvous/base/", "worker_sdk/src/c/", "worker_sdk/src/transports/nccl/device_steps.hpp"}},
    {"worker_sdk/src/data/", {"rendezvous/base/"}},
    {"worker_sdk/src/checkpoint/", {"rendezvous/base/"}},
    {"examples/", {"gpu/"}},
    {"examples/cifar/", {"gpu/", "mnist/random.hpp", "mnist/divergence.hpp", "mnist/progress.hpp"}},
};

/// No sockets, threads, clocks, environment.
const std::vector<std::string_view> pure_places{
    "rendezvous/base/",
    "rendezvous/wire/",
    "rendezvous/store/",
    "rendezvous/control/",
    "rendezvous/coordinator/",
    "rendezvous/voters/",
    "rendezvous/client/client_session",
    "rendezvous/server/placement",
    "rendezvous/server/handshakes",
    "rendezvous/tls/certified_session",
    "rendezvous/tls/keys",
    "rendezvous/tls/secret.",
    "rendezvous/tls/session",
    "agent/command/decision",
    "agent/command/local_commands",
    "agent/health/",
    "rendezvous/tunnel/",
    "agent/output/lines",
    "agent/plan/",
    "agent/report/",
    "agent/supervise/",
    "launcher/",
};

const std::vector<std::string_view> shells_among_them{
    "agent/health/sampler",
    "rendezvous/base/clock",
    "rendezvous/base/descriptor",
    "rendezvous/base/log",
    "rendezvous/base/random",
    "rendezvous/base/signal_masked_thread",
    "rendezvous/base/start_failure",
    "launcher/ctl/ask_agents",
    "launcher/ctl/ask_server",
    "launcher/ctl/page_token",
    "launcher/ctl/read_native",
    "launcher/ctl/run_ctl",
    "launcher/host_connection",
    "launcher/load_election_access",
    "launcher/load_etcd_access",
    "launcher/load_service_account",
    "launcher/log_folder",
    "launcher/main",
    "launcher/network_facts",
    "launcher/pipe",
    "launcher/program_copies",
    "launcher/program_lines",
    "launcher/run_hosts",
    "launcher/run_job",
    "launcher/run_program",
    "launcher/system_info",
    "launcher/server_placement",
};

bool begins_with_one_of(std::string_view path, const std::vector<std::string_view>& prefixes) {
    return std::any_of(
        prefixes.begin(), prefixes.end(), [&](auto prefix) { return path.starts_with(prefix); });
}

bool is_pure(const SourceFile& file) {
    return begins_with_one_of(file.path, pure_places) &&
           !begins_with_one_of(file.path, shells_among_them);
}

const Arrow* arrow_of(const SourceFile& file) {
    const Arrow* longest = nullptr;
    for (const auto& arrow : arrows)
        if (file.path.starts_with(arrow.from) &&
            (longest == nullptr || arrow.from.size() > longest->from.size()))
            longest = &arrow;
    return longest;
}

std::string_view folder_of(std::string_view path) {
    return path.substr(0, path.rfind('/') + 1);
}

bool is_own(const Arrow& arrow, std::string_view target) {
    if (target.starts_with("ddprun/") || target.find('/') == target.npos) return true;
    if (arrow.from.starts_with(sdk) && folder_of(target) == sdk) return true;
    return arrow.from != sdk && target.starts_with(folder_of(arrow.from));
}

std::vector<SourceFile> product() {
    return sources({"rendezvous", "agent", "launcher", "worker_sdk", "examples"});
}

}  // namespace

TEST_CASE("includes follow the arrows of the layout") {
    std::vector<std::string> broken;
    for (const auto& file : product()) {
        const auto* arrow = arrow_of(file);
        REQUIRE_MESSAGE(arrow != nullptr, file.path);
        for (const auto& quoted : file.includes()) {
            if (!quoted.starts_with('"')) continue;
            const auto target = quoted.substr(1, quoted.rfind('"') - 1);
            if (!is_own(*arrow, target) && !begins_with_one_of(target, arrow->to))
                broken.push_back(file.path + " includes " + target);
        }
    }
    CHECK_MESSAGE(broken.empty(), listed(broken));
}

TEST_CASE("pure code has no sockets, threads or system calls to include") {
    const std::vector<std::string_view> banned{
        "<boost/asio",
        "<boost/process",
        "<thread>",
        "<mutex>",
        "<condition_variable>",
        "<sys/",
        "<unistd.h>",
        "<iostream>",
        "<fstream>",
        "<filesystem>"};
    std::vector<std::string> broken;
    for (const auto& file : product())
        if (is_pure(file))
            for (const auto& include : file.includes())
                if (begins_with_one_of(include, banned))
                    broken.push_back(file.path + " includes " + include);
    CHECK_MESSAGE(broken.empty(), listed(broken));
}

TEST_CASE("pure code asks neither clock nor environment, and writes no log") {
    std::vector<std::string> broken;
    for (const auto& file : product()) {
        if (!is_pure(file)) continue;
        for (const auto* word :
             {"now(",
              "getenv(",
              "log::write(",
              "log::error(",
              "log::warning(",
              "log::info(",
              "log::debug(",
              "log::trace("})
            for (const auto& place : file.uses_of(word))
                broken.push_back(place);
    }
    CHECK_MESSAGE(broken.empty(), listed(broken));
}

TEST_CASE("the public headers of the SDK name no vendor's types") {
    std::vector<std::string> broken;
    for (const auto& file : sources({"worker_sdk/include"}))
        for (const auto& include : file.includes())
            if (begins_with_one_of(
                    include, {"<boost", "<nlohmann", "<nccl", "<cuda", "<sys/", "\"rendezvous"}))
                broken.push_back(file.path + " includes " + include);
    CHECK_MESSAGE(broken.empty(), listed(broken));
}

TEST_CASE("comments and text in quotes are not code") {
    const SourceFile file{
        "x.cpp",
        "",
        without_comments("// now(\n/* now( */ \"now(\" 'n' 1'000 R\"(now()\"\nknow(); x.now();\n")};
    CHECK(file.uses_of("now(") == std::vector<std::string>{"x.cpp:3: now("});
    CHECK(file.uses_of("::now(").empty());
}
