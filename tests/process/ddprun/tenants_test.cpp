// SPDX-License-Identifier: Apache-2.0
// One daemon with several tenants.
#include "rendezvous/net/descriptors.hpp"
#include "tests/process/ddprun/http_get.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/raw_client.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;

namespace {

std::string line_of(char letter) {
    return "ddprun-secret-1:" + std::string(43, letter) + "\n";
}

/// A folder of tenants, the same secrets as files of their users, and the daemon.
class Tenants {
public:
    Tenants() {
        std::filesystem::create_directory(dir / "tenants");
        std::filesystem::create_directory(dir / "users");
        put("blue", line_of('B'));
        put("red", line_of('R'));
    }

    /// Takes effect whole: the file has its name once it is written.
    void put(const std::string& tenant, const std::string& text) {
        const auto path = dir.write("unfinished", text);
        REQUIRE(::chmod(path.c_str(), 0600) == 0);
        std::filesystem::rename(path, dir / ("tenants/" + tenant));
    }
    void remove(const std::string& tenant) { std::filesystem::remove(dir / ("tenants/" + tenant)); }

    Running start_daemon() const {
        return Running{
            program("ddprun-rendezvous"),
            Words{"--host=127.0.0.1", "--port=0", "--secret-dir=" + (dir / "tenants").string()}};
    }

    /// A node that has the secret of this letter.
    Running node(int port, char letter, const Words& options) const {
        const auto path = (dir / (std::string("users/") + letter)).string();
        // Written once: another node may be reading it.
        if (!std::filesystem::exists(path)) {
            dir.write(std::string("users/") + letter, line_of(letter));
            REQUIRE(::chmod(path.c_str(), 0600) == 0);
        }
        return start_job(
            dir,
            Words{
                "--rdzv-backend=c10d",
                "--rdzv-id=tested",
                "--rdzv-endpoint=127.0.0.1:" + std::to_string(port),
                "--rdzv-secret-file=" + path} +
                options,
            "echo $RANK of $WORLD_SIZE");
    }
    std::string token(char letter) const {
        const auto path = (dir / (std::string("users/") + letter)).string();
        Running ctl{program("ddprunctl"), Words{"token", "--secret-file=" + path}};
        CHECK(ctl.wait_for_code() == 0);
        return ctl.out().substr(0, 64);
    }

    TempDir dir;
};

}  // namespace

TEST_CASE("two tenants of one daemon have each a job of one id, and see their own alone") {
    const Tenants tenants;
    auto daemon = tenants.start_daemon();
    const auto port = daemon.wait_for_number("port=");
    const auto endpoint = "127.0.0.1:" + std::to_string(port);
    auto blue = tenants.node(port, 'B', {"--nnodes=2"});
    blue.wait_for_line("nodes.missing");
    // In one job with the other node both would begin.
    auto red = tenants.node(port, 'R', {"--nnodes=2"});
    red.wait_for_line("nodes.missing");

    for (const std::string page : {"/status", "/metrics"}) {
        const auto of_blue = http_get(endpoint, page, tenants.token('B'));
        CHECK(of_blue.starts_with("HTTP/1.1 200"));
        CHECK(contains(of_blue, "\"blue\""));
        CHECK_FALSE(contains(of_blue, "\"red\""));
        const auto of_red = http_get(endpoint, page, tenants.token('R'));
        CHECK(contains(of_red, "\"red\""));
        CHECK_FALSE(contains(of_red, "\"blue\""));
        // This test has the user of the daemon.
        const auto of_all = http_get(endpoint, page);
        CHECK(contains(of_all, "\"blue\""));
        CHECK(contains(of_all, "\"red\""));
        // The token of a tenant that is gone does not show all others.
        CHECK(http_get(endpoint, page, std::string(64, '0')).starts_with("HTTP/1.1 401"));
    }
    const std::string of_one = "/timeline?job=tested&tenant=red";
    CHECK(contains(http_get(endpoint, of_one), "\"tenant\":\"red\""));
    // A tenant's token keeps its own scope.
    CHECK(contains(http_get(endpoint, of_one, tenants.token('B')), "\"tenant\":\"blue\""));

    auto second = tenants.node(port, 'B', {"--nnodes=2"});
    CHECK(second.wait_for_code() == 0);
    CHECK(blue.wait_for_code() == 0);
    CHECK(sorted_lines(blue.out() + second.out()) == Words{"0 of 2", "1 of 2"});
    red.signal(SIGINT);
    red.wait_for_exit();
    CHECK(contains(red.out() + red.err(), "was cancelled"));
    const auto log = daemon.out() + daemon.err();
    CHECK_FALSE(contains(log, std::string(43, 'B')));
}

TEST_CASE("tenants come, go and change their secrets while the daemon runs") {
    Tenants tenants;
    auto daemon = tenants.start_daemon();
    const auto port = daemon.wait_for_number("port=");
    // A job of one node needs no daemon.
    const auto code_with = [&](char letter) {
        auto first = tenants.node(port, letter, {"--nnodes=2"});
        auto second = tenants.node(port, letter, {"--nnodes=2"});
        const auto code = first.wait_for_code();
        CHECK(second.wait_for_code() == code);
        return code;
    };
    CHECK(code_with('B') == 0);

    tenants.put("green", line_of('G'));
    daemon.wait_for_line("security.tenants_changed.*count=3");
    CHECK(code_with('G') == 0);

    tenants.put("blue", line_of('C') + line_of('B'));
    daemon.wait_for_line("security.tenants_changed.*count=3");
    CHECK(code_with('B') == 0);
    CHECK(code_with('C') == 0);

    tenants.remove("red");
    daemon.wait_for_line("security.tenants_changed.*count=2");
    CHECK(code_with('R') == 83);

    // A file that is no secret any more leaves the ones before it.
    tenants.put("blue", "hunter2\n");
    daemon.wait_for_line("secret.not_read.*line 1 is no secret");
    CHECK(code_with('B') == 0);

    tenants.put("leaked", line_of('L'));
    daemon.wait_for_line("security.tenants_changed.*count=3");
    // One with the secret of another tenant changes nothing.
    tenants.put("blue", line_of('G'));
    daemon.wait_for_line("secret.not_read.*'blue' and 'green' have the same secret");
    CHECK(code_with('B') == 0);
    CHECK(code_with('G') == 0);

    // Neither that nor a file which is no tenant's keeps a tenant that is removed.
    tenants.put("notes~", "of an editor\n");
    daemon.wait_for_line("secret.not_read.*name is no tenant's");
    tenants.remove("leaked");
    daemon.wait_for_line("security.tenants_changed.*count=2");
    CHECK(code_with('L') == 83);
}

TEST_CASE("a daemon does not start with a folder that is none of tenants") {
    Tenants tenants;
    std::string reason;
    SUBCASE("two with one secret") {
        tenants.put("red", line_of('B'));
        reason = "'blue' and 'red' have the same secret";
    }
    SUBCASE("a file that others can write") {
        REQUIRE(::chmod((tenants.dir / "tenants/red").c_str(), 0622) == 0);
        reason = "tenants/red': can be written by other users";
    }
    SUBCASE("a folder that others can write") {
        REQUIRE(::chmod((tenants.dir / "tenants").c_str(), 0777) == 0);
        reason = "tenants': can be written by other users";
    }
    SUBCASE("no file") {
        tenants.remove("blue");
        tenants.remove("red");
        tenants.put(".hidden", line_of('B'));
        reason = "has no file: each tenant needs one";
    }
    SUBCASE("a name of an editor") {
        tenants.put("red~", line_of('S'));
        reason = "has a file whose name is no tenant's";
    }
    SUBCASE("no folder") {
        std::filesystem::remove_all(tenants.dir / "tenants");
        reason = "No such file or directory";
    }
    auto daemon = tenants.start_daemon();
    CHECK(daemon.wait_for_code() == 2);
    CHECK(contains(daemon.err(), "--secret-dir: '"));
    CHECK(contains(daemon.err(), reason));
}

TEST_CASE("hundreds of callers of one address that prove nothing keep no member from joining") {
    const Tenants tenants;
    auto daemon = tenants.start_daemon();
    const auto port = daemon.wait_for_number("port=");
    CHECK(contains(daemon.wait_for_line("security.bounds"), "most_mib=288 tenant_mib=15568"));
    net::prepare_descriptors();
    std::vector<std::unique_ptr<RawClient>> callers;
    for (std::size_t i = 0; i < 300; ++i) {
        callers.push_back(std::make_unique<RawClient>(static_cast<std::uint16_t>(port)));
        callers.back()->say(i % 2 == 0 ? "\x16" : "D");
    }
    auto first = tenants.node(port, 'B', {"--nnodes=2"});
    auto second = tenants.node(port, 'B', {"--nnodes=2"});
    CHECK(first.wait_for_code() == 0);
    CHECK(second.wait_for_code() == 0);
}
