// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/job_spec.hpp"
#include "rendezvous/control/codec.hpp"
#include "tests/rules/control_fields.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::rules;

namespace {

/// For each field of `Settings`: words of a command line that change it.
const std::map<std::string, std::vector<std::string>> words{
    {"join_timeout", {"--rdzv-conf=join_timeout=7"}},
    {"replacement_timeout", {"--replacement-timeout=7"}},
    {"last_call_timeout", {"--rdzv-conf=last_call_timeout=7"}},
    {"lease", {"--rdzv-conf=keep_alive_interval=7"}},
    {"grace", {"--shutdown-timeout=7"}},
    {"late_nodes", {"--late-nodes=never"}},
    {"max_losses", {"--max-losses=7"}},
    {"static", {"--rdzv-backend=static"}},
    {"store_access", {"--store-access=direct"}},
    {"recovery", {"--recovery=restart"}},
    {"recovery_timeout", {"--recovery-timeout=7"}},
    {"hang_after", {"--hang-after=17"}},
    {"on_hang", {"--hang-after=17", "--on-hang=restart"}},
    {"failover", {"--nnodes=3", "--rdzv-standby=auto"}},
    {"health_timeout", {"--health-check=true", "--health-timeout=17"}},
    {"restart_delay", {"--restart-delay=7"}},
    {"longest_restart_delay", {"--restart-delay=1:7"}},
    {"restart_refill", {"--restart-refill=7"}},
    {"no_restart_on", {"--no-restart-on=7"}},
    {"rounds_without_progress", {"--stop-without-progress=7"}},
};

/// The settings, as transmitted, that nodes with this command line would agree on.
nlohmann::json settings_after(const std::vector<std::string>& options) {
    launcher::SystemInfo system;
    system.own_path = "/bin/ddprun";
    // Without a secret a store has only one kind of access.
    system.environment["DDPRUN_SECRET"] = "ddprun-secret-1:" + std::string(43, 'A');
    system.look_at = [](const std::string&) { return launcher::PathLook{true, false, true, true}; };
    std::vector<std::string> line{"--nnodes=2", "--rdzv-endpoint=node1:29400"};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), {"--no-python", "/bin/worker"});
    const auto parsed = launcher::parse_options(line, system.environment);
    REQUIRE(parsed.has_value());
    const auto spec = launcher::resolve(*parsed, system);
    REQUIRE_MESSAGE(spec.has_value(), spec.error().context);
    const auto frame =
        control::encode(control::AgentMessage{launcher::to_agent_config(*spec).join});
    return nlohmann::json::parse(frame.substr(4)).at("settings");
}

}  // namespace

TEST_CASE("every field of Settings has an option that changes it") {
    const auto usual = settings_after({});
    const auto fields = control_messages().at("*settings*");
    for (const auto& entry : fields) {
        auto field = entry.first;
        if (field.ends_with('?')) field.pop_back();  // may be absent
        CAPTURE(field);
        REQUIRE_MESSAGE(words.count(field) == 1, "no option gives this field a value");
        const auto other = settings_after(words.at(field));
        CHECK(other.value(field, nlohmann::json{}) != usual.value(field, nlohmann::json{}));
    }
    for (const auto& entry : words) {
        CAPTURE(entry.first);
        CHECK(fields.count(entry.first) + fields.count(entry.first + "?") == 1);
    }
}
