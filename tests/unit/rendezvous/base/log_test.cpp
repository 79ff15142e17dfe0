// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/log.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

using namespace ddprun;

namespace {

/// Collects what is logged while it lives.
class Caught {
public:
    Caught() {
        log::set_sink([this](std::string line) { lines_ += line; });
    }
    ~Caught() {
        log::set_sink(nullptr);
        log::use_text();
    }
    Caught(const Caught&) = delete;
    Caught& operator=(const Caught&) = delete;

    const std::string& lines() const { return lines_; }

private:
    std::string lines_;
};

}  // namespace

TEST_CASE("a line of the log has its event and its fields") {
    const Caught caught;
    log::warning("worker.exited", {{"rank", 3}, {"exit", "killed by SIGSEGV"}, {"bad", true}});

    CHECK(
        caught.lines().substr(caught.lines().find(' ')) ==
        " warning ddprun: worker.exited rank=3 exit=\"killed by SIGSEGV\" bad=true\n");
}

TEST_CASE("a long field is cut to its bound, and marked") {
    const Caught caught;
    log::warning("file.read", {{"text", std::string(limits::max_log_field_bytes, 'a')}});
    CHECK(caught.lines().find("aaa\n") != std::string::npos);

    log::warning("file.read", {{"text", std::string(limits::max_log_field_bytes + 1, 'b')}});
    const auto text = caught.lines().substr(caught.lines().rfind('=') + 1);
    CHECK(text.size() == limits::max_log_field_bytes + 1);
    CHECK(text.ends_with("bbb...\n"));
}

TEST_CASE("as JSON it has the time, the common fields, its own fields and its message") {
    const Caught caught;
    log::use_json({{"run", "a \"job\""}, {"host", "node1"}});
    log::error("disk.filled", {{"path", "/x\xFF"}, {"share", 0.5}});

    REQUIRE(caught.lines().ends_with("}\n"));
    auto line = nlohmann::json::parse(caught.lines());
    CHECK(
        line.at("time").get<std::string>().size() ==
        std::string{"2026-01-01T00:00:00.000Z"}.size());
    line.erase("time");
    const nlohmann::json expected{
        {"run", "a \"job\""},
        {"host", "node1"},
        {"stream", "ddprun"},
        {"level", "error"},
        {"event", "disk.filled"},
        {"path", "/x\xEF\xBF\xBD"},
        {"share", 0.5},
        {"message", "disk.filled path=\"/x\xEF\xBF\xBD\" share=0.5"}};
    CHECK(line == expected);
}
