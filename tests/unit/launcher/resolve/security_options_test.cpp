// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/security_options.hpp"

#include "tests/unit/launcher/a_machine.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using Place = SecretChoice::Place;
using Words = std::vector<std::string>;

namespace {

const std::string planted = "ddprun-secret-1:" + std::string(43, 'P');
const Words two_nodes{"--nnodes=2", "--rdzv-endpoint=node1:29400"};

JobSpec spec_of(Words words, const Environment& variables = {}) {
    auto spec = resolved_with(std::move(words), variables);
    REQUIRE(spec.has_value());
    return std::move(*spec);
}

std::string refusal(Words words, const Environment& variables = {}) {
    const auto spec = resolved_with(std::move(words), variables);
    REQUIRE_FALSE(spec.has_value());
    CHECK(spec.error().code == system_code(EINVAL));
    return spec.error().context;
}

}  // namespace

TEST_CASE("a secret is a file's, the variable's, or that of the user") {
    CHECK(spec_of({}).secret.place == Place::none);
    const auto file = spec_of({"--rdzv-secret-file=/etc/secret"}).secret;
    CHECK(file.place == Place::file);
    CHECK(file.path == "/etc/secret");
    CHECK(file.origin == "--rdzv-secret-file");
    const auto own = spec_of({"--secure"}).secret;
    CHECK(own.place == Place::own_file);
    CHECK(own.path == "/home/user/.config/ddprun/secret");
    const auto variable = spec_of({}, {{"DDPRUN_SECRET", planted}}).secret;
    CHECK(variable.place == Place::variable);
    REQUIRE(variable.secrets.size() == 1);
}

TEST_CASE("--secure beside another secret is left out with a warning") {
    const auto variable = spec_of({"--secure"}, {{"DDPRUN_SECRET", planted}});
    CHECK(variable.secret.place == Place::variable);
    REQUIRE(variable.notices.size() == 1);
    CHECK(variable.notices.front().reason == "--secure: the secret of DDPRUN_SECRET is used");
    const auto file = spec_of({"--secure", "--rdzv-secret-file=/etc/secret"});
    CHECK(file.secret.place == Place::file);
    REQUIRE(file.notices.size() == 1);
    CHECK(file.notices.front().reason == "--secure: the secret of --rdzv-secret-file is used");
}

TEST_CASE("workers do not inherit the secret, whether it is used or not") {
    const Environment variables{{"DDPRUN_SECRET", planted}};
    CHECK_FALSE(spec_of({}, variables).environment.contains("DDPRUN_SECRET"));
    const auto spec = spec_of({"--rdzv-secret-file=/etc/secret"}, variables);
    CHECK_FALSE(spec.environment.contains("DDPRUN_SECRET"));
    CHECK(spec.secret.place == Place::file);
    REQUIRE(spec.notices.size() == 1);
    CHECK(spec.notices.front().reason == "DDPRUN_SECRET: the secret of --rdzv-secret-file is used");
}

TEST_CASE("what is wrong with a secret is refused without showing it") {
    const auto refused = refusal({}, {{"DDPRUN_SECRET", planted + "P"}});
    CHECK(refused.starts_with("DDPRUN_SECRET: line 1 is no secret"));
    CHECK(refused.find("PPP") == std::string::npos);
    CHECK(refusal({"--insecure", "--secure"}) == "--insecure: leave it out beside --secure");
    CHECK(
        refusal({"--insecure"}, {{"DDPRUN_SECRET", planted}}) ==
        "--insecure: leave it out beside DDPRUN_SECRET");
    CHECK(refusal({"--secure"}, {{"HOME", ""}}).starts_with("--secure: HOME is not set"));
}

TEST_CASE("a job of several nodes without a secret is warned of, unless it is meant so") {
    CHECK_FALSE(spec_of({}).secret.is_missed);
    CHECK(spec_of(two_nodes).secret.is_missed);
    auto words = two_nodes;
    words.emplace_back("--insecure");
    CHECK_FALSE(spec_of(words).secret.is_missed);
    CHECK_FALSE(spec_of(two_nodes, {{"DDPRUN_SECRET", planted}}).secret.is_missed);
}

TEST_CASE("a secret's stores are for members, unless they are to be direct") {
    using control::StoreAccess;
    const Environment secret{{"DDPRUN_SECRET", planted}};
    CHECK(spec_of({}).store_access.value == StoreAccess::direct);
    CHECK(spec_of({"--store-access=direct"}).notices.empty());
    CHECK(spec_of({}, secret).store_access.value == StoreAccess::members);
    CHECK(
        spec_of({"--secure", "--store-access=members"}).store_access.value == StoreAccess::members);

    const auto direct = spec_of({"--store-access=direct"}, secret);
    CHECK(direct.store_access.value == StoreAccess::direct);
    REQUIRE(direct.notices.size() == 1);
    CHECK(direct.notices.front().event == "security.store_open");
    CHECK(direct.notices.front().reason.starts_with("--store-access: the secret does not protect"));

    // Also at a fixed address.
    CHECK(
        spec_of({"--nnodes=2", "--master-addr=node1", "--node-rank=1"}, secret)
            .store_access.value == StoreAccess::members);
    auto unshared = secret;
    unshared["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1";
    const auto own = spec_of({}, unshared);
    CHECK(own.store_access.value == StoreAccess::direct);
    REQUIRE(own.notices.size() == 1);
    CHECK(own.notices.front().event == "security.store_open");

    CHECK(
        refusal({"--store-access=open"}) ==
        "--store-access: 'open': accepted are direct and members");
    CHECK(
        refusal({"--store-access=members"}) ==
        "--store-access: 'members': members have a secret: add --secure or --rdzv-secret-file");
    CHECK(
        refusal({"--store-access=members"}, unshared).find("worker rank 0 serves the store") !=
        std::string::npos);
}
