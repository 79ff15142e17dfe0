// SPDX-License-Identifier: Apache-2.0
#include "launcher/explain/explain.hpp"

#include "tests/unit/launcher/a_machine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using Words = std::vector<std::string>;

SystemInfo with_programs(const Environment& environment) {
    auto system = a_machine(environment);
    system.look_at = [](const std::string& path) {
        if (path == "/usr/bin/python3" || path == "train.py" || path == "/usr/bin/train.py")
            return PathLook{true, false, true, true};
        if (path == "." || path == "/tmp/") return PathLook{true, true, false, false};
        return PathLook{};
    };
    system.read_topology = [] { return agent::Topology{}; };
    return system;
}

std::string explained(
    Words words, const Environment& environment = {}, const Words& arguments = {}) {
    words.emplace_back("train.py");
    words.insert(words.end(), arguments.begin(), arguments.end());
    const auto system = with_programs(environment);
    const auto options = parse_options(words, system.environment);
    if (!options) return "options: " + options.error().context;
    const auto spec = resolve(*options, system);
    if (!spec) return "spec: " + spec.error().context;
    std::vector<Notice> notices;
    const auto level = log_level(*options, system.environment, notices);
    if (!level) return "level: " + level.error().context;
    return explain(*spec, *options, *level, "this node serves");
}

std::size_t widest_line(const std::string& text) {
    std::istringstream stream(text);
    std::size_t widest = 0;
    for (std::string line; std::getline(stream, line);)
        widest = std::max(widest, line.size());
    return widest;
}

/// The row of this name begins with this value and origin.
bool has_row(const std::string& text, const std::string& name, const std::string& rest) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        if (!line.starts_with("  " + name + " ")) continue;
        std::istringstream words(line.substr(2 + name.size()));
        std::string joined;
        for (std::string word; words >> word;)
            joined += (joined.empty() ? "" : " ") + word;
        return joined == rest;
    }
    return false;
}

}  // namespace

TEST_CASE("an explanation shows every value and where it came from") {
    CHECK(
        explained(
            {"--nnodes=1:2",
             "--nproc_per_node=4",
             "--rdzv-endpoint=node1",
             "--rdzv-conf=keep_alive_interval=1",
             "--local-addr=eth0"},
            {{"PET_MAX_RESTARTS", "3"}}) ==
        R"(  value                                                from
  run id                none                           default
  nodes                 1:2                            --nnodes
  workers per node      4                              --nproc_per_node
  role                  default                        default
  node rank             any                            not given
  max restarts          3                              PET_MAX_RESTARTS
  rendezvous            c10d                           no fixed places
                                                       requested
  standby               off                            default, but fewer than
                                                       3 nodes have no majority
                                                       without one of them,
                                                       unless there is a
                                                       --rdzv-witness
  restart delay         none                           default
  restart refill        never                          default
  no restart on         2,126,127                      default
  stop without progress never                          default
  late nodes            restart                        default
  max losses            10                             default
  warm                  0                              default
  recovery              auto                           default
  recovery timeout      10 s                           default
  hang after            not looked for                 default
  health check          none                           default
  errors of GPUs        looked for                     default
  replacement timeout   as join_timeout                default
  endpoint              node1:29400                    --rdzv-endpoint
  local address         10.0.0.7                       --local-addr=eth0
  ports                 20000-29399                    default
  join timeout          600 s                          default
  last call timeout     30 s                           default
  lease                 6 s                            --rdzv-conf
                                                       keep_alive_interval x
                                                       keep_alive_max_attempt,
                                                       raised to the shortest
  shutdown timeout      30 s                           default
  signals that stop     SIGTERM,SIGINT,SIGHUP,SIGQUIT  default
  signals handed on     none                           default
  preemption signal     -                              default
  deadline              -                              default
  workers' store        shared                         default
  CPU binding           -                              default
  redirects             nothing                        default
  tee                   nothing                        default
  log folder            none                           default
  log layout            ddprun                         default
  log file size         no limit                       default
  full files kept       all                            default
  log format            text                           default
  line prefix           [${role_name}${local_rank}]:   default
  steps in output       not looked for                 default
  ranks on console      all                            default
  stdout filters        none                           default
  stderr filters        none                           default
  report                text                           default
  report file           none                           default
  event file            none                           default
  exit codes            ddprun's                       default
  log level             warning                        default

rendezvous: this node serves
command: /usr/bin/python3 -u train.py
python: python3 on PATH
environment: OMP_NUM_THREADS=1 (unset, and more than one worker)
note: keep_alive_interval x keep_alive_max_attempt is 3 s; a lease lasts 6 s
  at least
note: OMP_NUM_THREADS=1 in each worker because it was unset; set it to tune
)");
}

TEST_CASE("what stands for something else is named as its origin") {
    const auto text = explained(
        {"--compat=torchrun", "-r", "3"},
        {{"LOGLEVEL", "info"}, {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", ">"}});

    CHECK(has_row(text, "redirects", "3 -r"));
    CHECK(has_row(text, "log folder", "a fresh one in /tmp default"));
    CHECK(has_row(text, "log layout", "torchrun --compat"));
    CHECK(has_row(text, "report", "torchrun --compat"));
    CHECK(has_row(text, "exit codes", "torchrun's --compat"));
    CHECK(has_row(text, "log level", "info LOGLEVEL"));
    CHECK(text.find("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE\n") != std::string::npos);
    CHECK(has_row(explained({"--log-format=json"}), "report", "json --log-format"));
    CHECK(has_row(explained({"--rdzv_backend=c10d"}), "rendezvous", "c10d --rdzv_backend"));
}

TEST_CASE("every option that was given is in the explanation, as it was spelled") {
    // One value each; an option that is not listed is a flag, or gets 3.
    const std::map<std::string_view, std::string> values{
        {"attach", "0"},
        {"compat", "torchrun"},
        {"duplicate-stderr-filters", "loss"},
        {"duplicate-stdout-filters", "loss"},
        {"event-file", "events"},
        {"hang-after", "60"},
        {"health-check", "true"},
        {"late-nodes", "never"},
        {"local-addr", "eth0"},
        {"log-dir", "logs"},
        {"log-format", "json"},
        {"log-layout", "torchrun"},
        {"log-level", "debug"},
        {"log-line-prefix-template", "${rank}"},
        {"log-max-size", "100M"},
        {"logs-specs", "default"},
        {"master-addr", "node1"},
        {"nnodes", "1"},
        {"numa-binding", "node"},
        {"on-hang", "restart"},
        {"warm", "1"},
        {"port-range", "20000-20100"},
        {"preempt-signal", "SIGUSR1"},
        {"progress-regex", "step=([0-9]+)"},
        {"python", "/usr/bin/python3"},
        {"rdzv-backend", "c10d"},
        {"rdzv-conf", "join_timeout=70"},
        {"rdzv-endpoint", "node1:29400"},
        {"rdzv-standby", "off"},
        {"rdzv-witness", "node9"},
        {"recovery", "auto"},
        {"report-file", "report"},
        {"report-format", "json"},
        {"signals-to-forward", "SIGUSR1"},
        {"signals-to-handle", "SIGTERM,SIGINT"},
        {"start-method", "fork"},
        {"store-access", "direct"},
        {"topology", "env:HOME"},
        {"wrap", "all:python3"},
        {"xid", "ignore"}};
    const std::map<std::string_view, Words> needs{
        {"log-keep", {"--log-max-size=1M"}},
        {"deadline", {"--shutdown-timeout=1"}},
        {"node-rank", {"--nnodes=4", "--master-addr=node1"}},
        {"node-unit", {"--nnodes=3", "--rdzv-endpoint=node1:29400"}},
        {"rdzv-witness", {"--nnodes=2", "--rdzv-endpoint=node1:29400"}},
        {"health-strict", {"--health-check=true"}},
        {"health-timeout", {"--health-check=true"}},
        {"on-hang", {"--hang-after=60"}}};
    for (const auto& row : option_table()) {
        const bool has_no_row = row.name == "explain" || row.name == "help" ||
                                row.name == "version" || row.name == "print-completion";
        if (has_no_row) continue;
        const auto found = values.find(row.name);
        const std::string value = found == values.end() ? "3" : found->second;
        const auto name = "--" + std::string{row.name};
        auto words = needs.contains(row.name) ? needs.at(row.name) : Words{};
        words.push_back(row.is_flag() ? name : name + "=" + value);
        const auto text = explained(words);
        CAPTURE(text);
        CAPTURE(name);
        REQUIRE(text.starts_with("  value"));
        const auto table = text.substr(0, text.find("\n\n"));
        CHECK(table.find(name) != std::string::npos);
        if (!row.is_flag())
            CHECK(table.find(value.substr(0, value.find('='))) != std::string::npos);
        CHECK(widest_line(text) < 80);
        if (row.reads_environment) {
            auto variable = "PET_" + std::string{row.name};
            for (auto& c : variable)
                c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
            const auto others = needs.contains(row.name) ? needs.at(row.name) : Words{};
            const auto inherited = explained(others, {{variable, value}});
            CAPTURE(inherited);
            CHECK(inherited.starts_with("  value"));
            CHECK(widest_line(inherited) < 80);
        }
    }
}

TEST_CASE("a long value has lines of its own, and its origin its column") {
    const auto text = explained({"--report-file=/tmp/a-report-with-a-rather-long-name"});

    CHECK(
        text.find(
            "  report file           /tmp/a-report-with-a-rather-long-name\n" +
            std::string(55, ' ') + "--report-file\n") != std::string::npos);
}

TEST_CASE("words that a shell would take apart are quoted in an explanation") {
    const auto text = explained({}, {}, {"a b", "it's", "", "--lr=0.1", "x^2"});
    CHECK(text.find(R"(train.py 'a b' 'it'\''s' '' --lr=0.1 'x^2')") != std::string::npos);
}
