// SPDX-License-Identifier: Apache-2.0
// etcd with https, client certificates, or users.
#include "tests/process/ddprun/authority.hpp"
#include "tests/process/ddprun/etcd.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>

using namespace ddprun::test;

namespace {

constexpr const char* etcdctl_program = "/usr/bin/etcdctl";
constexpr const char* password = "a p4ssword that is \"planted\"";

std::string why_not() {
    if (const auto reason = why_no_etcd(); !reason.empty()) return reason;
    if (::access(openssl_program, X_OK) != 0) return "no openssl here (Debian's openssl)";
    return ::access(etcdctl_program, X_OK) == 0 ? "" : "no etcdctl here (Debian's etcd-client)";
}

Words served_with(const Authority& authority, const std::string& name) {
    return {
        "--cert-file=" + authority.path(name + ".pem"),
        "--key-file=" + authority.path(name + ".key")};
}

Words wanting_certificates(const Authority& authority) {
    return {"--client-cert-auth", "--trusted-ca-file=" + authority.path("ca.pem")};
}

std::string conf(const std::string& more) {
    return "--rdzv-conf=last_call_timeout=60," + more;
}

std::string password_file(const TempDir& dir, const std::string& text) {
    static int number = 0;
    const auto path = dir.write("password" + std::to_string(number++), text);
    ::chmod(path.c_str(), 0600);
    return path;
}

/// Users `root`, `job` (may use the keys of jobs) and `other` (may use none).
void add_users(const std::string& endpoint, std::map<std::string, std::string> variables) {
    variables["ETCDCTL_API"] = "3";
    variables["ETCDCTL_ENDPOINTS"] = endpoint;
    for (const Words& command :
         {Words{"user", "add", "root:root"},
          Words{"user", "add", std::string{"job:"} + password},
          Words{"user", "add", "other:other"},
          Words{"role", "add", "jobs"},
          Words{"role", "grant-permission", "jobs", "readwrite", "--prefix=true", "/ddprun/"},
          Words{"user", "grant-role", "job", "jobs"},
          Words{"user", "grant-role", "root", "root"},
          Words{"auth", "enable"}})
        run_tool(etcdctl_program, command, variables);
}

/// Checks that a node ends like one that has not reached etcd, and prints why.
void check_unreached(const TempDir& dir, const Words& options, const std::string& reason) {
    auto node = start_job(
        dir,
        Words{
            "--rdzv-backend=etcd",
            "--rdzv-id=tested",
            "--nnodes=2",
            // Not wrapped to the width of a screen.
            "--report-format=json"} +
            options,
        "true");
    CHECK(node.wait_for_code() == 81);
    CAPTURE(node.err());
    CHECK(contains(node.err(), reason));
}

}  // namespace

TEST_CASE("etcd by https with certificates and users: the leader is killed and the job goes on") {
    if (const auto reason = why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    const Authority authority{dir};
    authority.sign("server", "IP:127.0.0.1");
    authority.sign("client", "DNS:a-node");
    Etcd etcd{"https", served_with(authority, "server") + wanting_certificates(authority)};
    add_users(
        etcd.client(),
        {{"ETCDCTL_CACERT", authority.path("ca.pem")},
         {"ETCDCTL_CERT", authority.path("client.pem")},
         {"ETCDCTL_KEY", authority.path("client.key")}});
    const auto access = conf(
        "protocol=https,cacert=" + authority.path("ca.pem") +
        ",cert=" + authority.path("client.pem") + ",key=" + authority.path("client.key") +
        ",etcd_user=job,etcd_password_file=" + password_file(dir, password + std::string{"\n"}));
    auto nodes = start_three(dir, etcd, {"--nnodes=2:3", access});

    ::kill(agent_of(nodes[0]), SIGKILL);

    wait_until_others_go_on(nodes);
    dir.write("go", "");
    for (const std::size_t i : {1U, 2U})
        CHECK(nodes[i].wait_for_code() == 0);
    nodes[0].wait_for_exit();
    etcd.end();
    CHECK(no_descendants_left());
}

TEST_CASE("etcd by https: a job runs with what a user may write instead") {
    if (const auto reason = why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    const Authority authority{dir};
    authority.sign("server", "IP:127.0.0.1,DNS:localhost");
    authority.sign("client", "DNS:a-node");
    const auto both =
        read_file(authority.path("client.pem")) + read_file(authority.path("client.key"));
    Etcd etcd{"https", served_with(authority, "server") + wanting_certificates(authority)};
    Words options;
    SUBCASE("names of torch's etcd-v2") {
        options = {
            "--rdzv-backend=etcd-v2",
            conf(
                "protocol=https,ca_cert=" + authority.path("ca.pem") + ",ssl_cert=" +
                authority.path("client.pem") + ",ssl_cert_key=" + authority.path("client.key"))};
    }
    SUBCASE("https in the endpoint, a host name, a key that is in the file of the certificate") {
        const auto port = etcd.client().substr(etcd.client().find(':'));
        options = {
            "--rdzv-endpoint=https://localhost" + port,
            conf("cacert=" + authority.path("ca.pem") + ",cert=" + dir.write("both.pem", both))};
    }
    auto node = start_job(dir, etcd.options(options), "echo ran");
    CHECK(node.wait_for_code() == 0);
    CHECK(contains(node.out(), "ran"));
    etcd.end();
}

TEST_CASE("etcd by https: a server that does not prove its name is not trusted") {
    if (const auto reason = why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    const Authority authority{dir};
    const TempDir other_dir;
    const Authority other{other_dir};
    std::string cacert = authority.path("ca.pem");
    std::string words;
    SUBCASE("another authority's") {
        authority.sign("server", "IP:127.0.0.1");
        cacert = other.path("ca.pem");
    }
    SUBCASE("expired") {
        authority.sign("server", "IP:127.0.0.1", -1);
        words = "certificate has expired";
    }
    SUBCASE("another address's") {
        authority.sign("server", "IP:127.0.0.2,DNS:127.0.0.1");
        words = "IP address mismatch, it is not for 127.0.0.1";
    }
    Etcd etcd{"https", served_with(authority, "server")};
    check_unreached(
        dir,
        {"--rdzv-endpoint=" + etcd.client(),
         "--rdzv-conf=join_timeout=2,protocol=https,cacert=" + cacert},
        "etcd: " + etcd.client() + ": its certificate is not accepted: " + words);
    etcd.end();
}

TEST_CASE("etcd by https: what is wrong with the protocol or the own certificate is named") {
    if (const auto reason = why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    const Authority authority{dir};
    authority.sign("server", "IP:127.0.0.1");
    const TempDir other_dir;
    const Authority other{other_dir};
    other.sign("client", "DNS:a-node");
    const auto cacert = ",protocol=https,cacert=" + authority.path("ca.pem");
    std::string protocol = "https";
    Words etcd_options = served_with(authority, "server");
    std::string options;
    std::string reason;
    SUBCASE("http to https") {
        reason = " (perhaps it requires https)";
    }
    SUBCASE("https to http") {
        protocol = "http";
        etcd_options = {};
        options = cacert;
        reason = " (perhaps it is plain http)";
    }
    SUBCASE("no certificate of this node") {
        etcd_options = etcd_options + wanting_certificates(authority);
        options = cacert;
        reason = "a certificate of this node";
    }
    SUBCASE("one of another authority") {
        etcd_options = etcd_options + wanting_certificates(authority);
        options = cacert + ",cert=" + other.path("client.pem") + ",key=" + other.path("client.key");
        reason = "it does not accept the certificate of this node";
    }
    Etcd etcd{protocol, etcd_options};
    check_unreached(
        dir, {"--rdzv-endpoint=" + etcd.client(), "--rdzv-conf=join_timeout=2" + options}, reason);
    etcd.end();
}

TEST_CASE("etcd with users: what is refused is named") {
    if (const auto reason = why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    add_users(etcd.client(), {});
    const auto check = [&](const std::string& options, const std::string& reason) {
        CAPTURE(options);
        check_unreached(
            dir,
            {"--rdzv-endpoint=" + etcd.client(), "--rdzv-conf=join_timeout=2" + options},
            "etcd at " + etcd.client() + " answers: etcdserver: " + reason);
    };
    check("", "user name is empty (it requires a user: give etcd_user and etcd_password_file");
    check(
        ",etcd_user=job,etcd_password_file=" + password_file(dir, "wrong"),
        "authentication failed, invalid user ID or password (check etcd_user, which is 'job'");
    check(
        ",etcd_user=other,etcd_password_file=" + password_file(dir, "other"),
        "permission denied (user 'other' needs a role");
    etcd.end();
}

TEST_CASE("etcd by https: certificates that are renewed while the job runs are read again") {
    if (const auto reason = why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    const Authority old_authority{dir};
    old_authority.sign("server", "IP:127.0.0.1");
    old_authority.sign("client", "DNS:a-node");
    const auto path = [&](const std::string& file) { return old_authority.path(file); };
    Etcd etcd{"https", served_with(old_authority, "server") + wanting_certificates(old_authority)};
    const auto access = conf(
        "protocol=https,cacert=" + path("ca.pem") + ",cert=" + path("client.pem") +
        ",key=" + path("client.key"));
    auto node = start_job(dir, etcd.options({access}), until_go(dir));
    node.wait_for_line("up 1 in 0");
    // Another authority signs all of them again, in the same files.
    const TempDir new_dir;
    const Authority new_authority{new_dir};
    new_authority.sign("server", "IP:127.0.0.1");
    new_authority.sign("client", "DNS:a-node");
    etcd.kill();
    for (const std::string file :
         {"ca.pem", "client.pem", "client.key", "server.pem", "server.key"})
        std::filesystem::rename(new_authority.path(file), path(file));
    etcd.start();
    dir.write("go", "");
    // The job's end is recorded in etcd before it becomes a result.
    CHECK(node.wait_for_code(std::chrono::seconds{90}) == 0);
    CHECK(contains(node.out(), "done in 0"));
    etcd.end();
}

TEST_CASE("etcd with users: a password that is changed while the job runs is read again") {
    if (const auto reason = why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    add_users(etcd.client(), {});
    const auto file = password_file(dir, password);
    auto node = start_job(
        dir, etcd.options({conf("etcd_user=job,etcd_password_file=" + file)}), until_go(dir));
    node.wait_for_line("up 1 in 0");
    dir.write(std::filesystem::path{file}.filename().string(), "another");
    run_tool(
        "/bin/sh",
        {"-c",
         std::string{"echo another | "} + etcdctl_program +
             " --user=root:root user passwd job --interactive=false"},
        {{"ETCDCTL_API", "3"}, {"ETCDCTL_ENDPOINTS", etcd.client()}});
    dir.write("go", "");
    CHECK(node.wait_for_code(std::chrono::seconds{90}) == 0);
    CHECK(contains(node.out(), "done in 0"));
    etcd.end();
}

TEST_CASE("etcd with users: it forgets its tokens, and the job goes on") {
    if (const auto reason = why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    add_users(etcd.client(), {});
    const auto access = conf("etcd_user=job,etcd_password_file=" + password_file(dir, password));
    auto node = start_job(dir, etcd.options({access}), until_go(dir));
    node.wait_for_line("up 1 in 0");
    etcd.kill();
    etcd.start();
    dir.write("go", "");
    // The job's end is recorded in etcd before it becomes a result.
    CHECK(node.wait_for_code() == 0);
    CHECK(contains(node.out(), "done in 0"));
    CHECK_FALSE(contains(node.err(), "epoch=2"));
    etcd.end();
}

TEST_CASE("etcd with users: the password is in no output, log, report or worker") {
    if (const auto reason = why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    add_users(etcd.client(), {});
    const auto report = (dir / "report").string();
    const auto script =
        dir.write_script("worker", "#!/bin/sh\ncat /proc/self/environ | tr '\\0' '\\n'; exit 3\n");
    Running::Options options;
    options.arguments = etcd.options(
        {"--log-level=trace",
         "--report-file=" + report,
         conf("etcd_user=job"),
         "--no-python",
         script});
    options.environment["DDPRUN_ETCD_PASSWORD"] = password;
    Running node(program("ddprun"), options);
    CHECK(node.wait_for_code() == 3);
    CHECK(contains(node.out(), "RANK="));
    CHECK(contains(node.err(), "security.etcd_open"));
    const auto all = node.out() + node.err() + read_file(report);
    CHECK_FALSE(contains(all, "planted"));
    CHECK_FALSE(contains(all, "DDPRUN_ETCD_PASSWORD"));
    CHECK_FALSE(contains(all, "uthorization"));
    etcd.end();
}

TEST_CASE("etcd by https: files that cannot be used are named at once") {
    if (::access(openssl_program, X_OK) != 0) return skip("no openssl here (Debian's openssl)");
    const TempDir dir;
    const Authority authority{dir};
    authority.sign("a", "DNS:a");
    authority.sign("b", "DNS:b");
    const auto cacert = ",cacert=" + authority.path("ca.pem");
    const auto check = [&](const std::string& options, const std::string& reason) {
        auto node = start_job(
            dir,
            {"--rdzv-backend=etcd",
             "--rdzv-id=tested",
             "--rdzv-endpoint=https://127.0.0.1:1",
             "--rdzv-conf=join_timeout=2" + options},
            "true");
        CHECK(node.wait_for_code() == 2);
        CAPTURE(node.err());
        CHECK(contains(node.err(), reason));
        CHECK_FALSE(contains(node.err(), "planted"));
    };
    check(
        ",cacert=" + authority.path("no"),
        "--rdzv-conf cacert: '" + authority.path("no") + "': No such file or directory");
    check(
        ",cacert=" + authority.path("ca.key"),
        "--rdzv-conf cacert: '" + authority.path("ca.key") + "': no certificate in it");
    check(
        ",ca_cert=" + dir.path().string(),
        "--rdzv-conf cacert: '" + dir.path().string() + "': is no regular file");
    check(
        cacert + ",cert=" + authority.path("a.pem"),
        "--rdzv-conf cert: '" + authority.path("a.pem") + "': no private key in it");
    check(
        cacert + ",cert=" + authority.path("a.pem") + ",key=" + authority.path("b.key"),
        "--rdzv-conf key: '" + authority.path("b.key") + "': is not the key of the certificate");
    const auto writable = [&](const std::string& file) {
        auto path = dir.write("writable-" + file, read_file(authority.path(file)));
        ::chmod(path.c_str(), 0666);
        return path;
    };
    check(
        ",cacert=" + writable("ca.pem"),
        "--rdzv-conf cacert: '" + writable("ca.pem") + "': can be written by other users");
    check(
        cacert + ",cert=" + authority.path("a.pem") + ",key=" + writable("a.key"),
        "--rdzv-conf key: '" + writable("a.key") + "': can be written by other users");
    const auto open = dir.write("open", "password");
    ::chmod(open.c_str(), 0666);
    check(
        cacert + ",etcd_user=job,etcd_password_file=" + open,
        "--rdzv-conf etcd_password_file: '" + open + "': can be written by other users");
    check(cacert + ",etcd_user=job,etcd_password_file=" + password_file(dir, "\n"), "': is empty");
    check(",etcd_password=planted", "etcd_password: every user of the machine can read");
}
