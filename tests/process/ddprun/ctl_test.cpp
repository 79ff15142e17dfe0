// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/ctl.hpp"

#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

using namespace ddprun::test;

namespace {

/// Prints "up" and its rank, and then "RANK got NAME" for each signal; SIGTERM is the last one.
const std::string teller =
    "for name in USR1 USR2; do trap \"echo $RANK got $name\" $name; done\n"
    "trap 'echo $RANK got TERM; exit 0' TERM\n"
    "echo up $RANK\n"
    "while :; do sleep 0.02; done";

/// A job of one node under this name; `--standalone` would give it a random one.
Running node_of(
    const TempDir& dir,
    const std::string& run_id,
    const Words& options,
    const std::string& script) {
    const Words own{"--rdzv-id=" + run_id};
    return start_job(dir, Rendezvous{}.options(own + options), script);
}

/// Runs a program as a user that cannot read the build folder.
Running::Options as_other_user(const Words& command) {
    Running::Options options;
    options.arguments = Words{"--reuid=65534", "--regid=65534", "--clear-groups", "--"} + command;
    options.directory = "/";
    return options;
}

/// Becomes the user with that id if there is a third argument, connects to an agent's socket, sends
/// the bytes given as hexadecimal digits, and prints the answer.
const std::string speak =
    "import os, socket, sys\n"
    "if len(sys.argv) > 3:\n"
    "    os.setgroups([])\n"
    "    os.setgid(int(sys.argv[3]))\n"
    "    os.setuid(int(sys.argv[3]))\n"
    "s = socket.socket(socket.AF_UNIX)\n"
    "s.settimeout(30)\n"
    "s.connect('\\0' + sys.argv[1])\n"
    "if sys.argv[2]: s.sendall(bytes.fromhex(sys.argv[2]))\n"
    "answer = b''\n"
    "while True:\n"
    "    part = s.recv(4096)\n"
    "    if not part: break\n"
    "    answer += part\n"
    "print(answer[4:].decode())\n";

std::string socket_of(const Running& job) {
    return "ddprunctl/1/" + std::to_string(::getuid()) + '/' + std::to_string(job.pid());
}

std::string in_hex(const std::string& bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const char c : bytes) {
        text += digits[static_cast<unsigned char>(c) >> 4U];
        text += digits[static_cast<unsigned char>(c) & 15U];
    }
    return text;
}

std::string framed(const std::string& body) {
    return std::string("\0\0\0", 3) + static_cast<char>(body.size()) + body;
}

}  // namespace

TEST_CASE("ddprunctl ps shows the jobs of this machine, and status what the server says of one") {
    const TempDir dir;
    const auto first = fresh_id();
    const auto second = fresh_id();
    auto a = node_of(dir, first, {"--nproc-per-node=2"}, teller);
    auto b = node_of(dir, second, {"--max-restarts=3"}, teller);
    for (auto* job : {&a, &a, &b})
        job->wait_for_line("up");

    CHECK(is_running(first));
    CHECK(is_running(second));
    REQUIRE(listed(first).size() == 1);
    REQUIRE(listed(second).size() == 1);
    const auto view = listed(first).front();
    CHECK(view["state"] == "running");
    CHECK(view["round"] == 0);
    CHECK(view["nodes"] == 1);
    CHECK(view["workers"] == 2);
    CHECK(view["ranks"] == Json{0, 1});
    CHECK(view["pid"] == a.pid());
    CHECK(view["user"] == ::getuid());
    CHECK(view["age_s"].get<double>() > 0);
    CHECK(listed(second).front()["restarts"] == Json{{"used", 0}, {"max", 3}});
    const auto text = ctl({"ps"});
    CHECK(text.code == 0);
    CHECK(contains(text.out, first));
    CHECK(contains(text.out, second));

    const auto status = ctl({"status", first});
    CHECK(status.code == 0);
    CHECK(contains(status.out, "job         " + first));
    CHECK(contains(status.out, "state       running, round 0"));
    CHECK(contains(status.out, "world       2 workers on 1 node\n"));
    const auto json = Json::parse(ctl({"status", "--json", second}).out);
    CHECK(json["job"]["run_id"] == second);
    CHECK(json["nodes"][0]["pid"] == b.pid());

    CHECK(ctl({"stop", first}).code == 0);
    CHECK(ctl({"stop", second}).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(b.wait_for_code() == 143);
    const auto gone = ctl({"status", first});
    CHECK(gone.code == 3);
    CHECK(contains(gone.err, "ddprunctl: no job '" + first + "' of this user on this machine"));
}

TEST_CASE(
    "ddprunctl stop at one node ends the job on every node, and the report says by which process") {
    for (const bool is_asked_at_host : {true, false}) {
        CAPTURE(is_asked_at_host);
        const TempDir dir;
        const Rendezvous rendezvous;
        const auto id = fresh_id();
        const auto options = rendezvous.options({"--nnodes=2", "--rdzv-id=" + id});
        const auto file = (dir / "report.json").string();
        auto a = start_job(dir, options + Words{"--rdzv-conf=is_host=1"}, teller);
        auto b = start_job(
            dir, options + Words{"--rdzv-conf=is_host=0", "--report-file=" + file}, teller);
        a.wait_for_line("up");
        b.wait_for_line("up");
        const auto& asked = is_asked_at_host ? a : b;

        Running stop{
            program("ddprunctl"),
            {"stop", id, "--grace=20", "--pid=" + std::to_string(asked.pid())}};
        const auto stop_pid = std::to_string(stop.pid());
        CHECK(stop.wait_for_code() == 0);

        CHECK(stop.out() == id + ": its workers have 20 s to end\n");
        CHECK(a.wait_for_code() == 143);
        CHECK(b.wait_for_code() == 143);
        const auto by = "stopped by ddprunctl (user ";
        const auto which = ", pid " + stop_pid + " on ";
        for (auto* job : {&a, &b}) {
            CHECK(contains(job->out(), "got TERM"));
            CHECK(contains(job->err(), by));
            CHECK(contains(job->err(), which));
        }
        CHECK(contains(asked.err(), "command.obeyed command=\"stop_job grace=20 s\""));
        const auto report = Json::parse(read_file(file));
        CHECK(report["outcome"] == "cancelled");
        CHECK(report["exit_code"] == 143);
        const auto reason = report["root_cause"]["reason"].get<std::string>();
        CHECK(reason.starts_with(by));
        CHECK(contains(reason, which));
        CHECK(no_descendants_left());
    }
}

TEST_CASE("a grace longer than the job's own is refused, and a stop that comes twice is harmless") {
    const TempDir dir;
    const auto id = fresh_id();
    auto job = node_of(
        dir,
        id,
        {"--shutdown-timeout=1000"},
        "trap '' TERM\necho up\nwhile :; do sleep 0.02; done");
    job.wait_for_line("up");

    const auto longer = ctl({"stop", id, "--grace=1001"});
    CHECK(longer.code == 1);
    CHECK(contains(longer.err, "longer than the job's own (1000 s, its --shutdown-timeout)"));
    // The worker ignores SIGTERM, so it is ended by this grace, not by the job's.
    CHECK(ctl({"stop", id, "--grace=0.5"}).code == 0);
    const auto again = ctl({"stop", id, "--json"});
    if (again.code == 0) CHECK(Json::parse(again.out)["text"] == id + ": it is stopping already");
    CHECK(job.wait_for_code() == 143);
    CHECK(no_descendants_left());
}

TEST_CASE("ddprunctl signal reaches one rank, or every worker, and stops nothing") {
    const TempDir dir;
    const auto id = fresh_id();
    auto job = node_of(dir, id, {"--nproc-per-node=2"}, teller);
    job.wait_for_line("up");
    job.wait_for_line("up");

    const auto one = ctl({"signal", id, "USR1", "--rank=1"});
    CHECK(one.code == 0);
    CHECK(contains(one.out, id + ": SIGUSR1 to rank 1 on "));
    job.wait_for_line("^1 got USR1");
    CHECK(ctl({"signal", id, "USR2"}).code == 0);
    job.wait_for_line("^0 got USR2");
    job.wait_for_line("^1 got USR2");
    CHECK_FALSE(contains(job.out(), "0 got USR1"));

    const auto none = ctl({"signal", id, "USR1", "--rank=2"});
    CHECK(none.code == 1);
    CHECK(contains(none.err, "there is no rank 2: the job has ranks 0 to 1"));
    CHECK(is_running(id));
    CHECK(ctl({"stop", id}).code == 0);
    CHECK(job.wait_for_code() == 143);
}

TEST_CASE("ddprunctl signal finds the node of a rank among those of this machine") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto id = fresh_id();
    const auto options = rendezvous.options({"--nnodes=2", "--rdzv-id=" + id});
    auto a = start_job(dir, options, teller);
    auto b = start_job(dir, options, teller);
    a.wait_for_line("up");
    b.wait_for_line("up");

    CHECK(listed(id).size() == 2);
    CHECK(ctl({"signal", id, "USR1", "--rank=1"}).code == 0);
    auto& has_it = contains(a.out(), "up 1") ? a : b;
    has_it.wait_for_line("^1 got USR1");

    CHECK(ctl({"stop", id}).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(b.wait_for_code() == 143);
}

TEST_CASE("ddprunctl stacks shows what each worker here does, and stops none") {
    const TempDir dir;
    const auto id = fresh_id();
    auto job = node_of(dir, id, {"--nproc-per-node=2"}, "echo up $RANK; exec sleep 1000");
    job.wait_for_line("up");
    job.wait_for_line("up");

    Json ranks;
    CHECK(holds_within(fact_timeout, [&] {
        const auto seen = ctl({"stacks", id, "--json"});
        if (seen.code != 0) return false;
        ranks = Json::parse(seen.out);
        return ranks.size() == 2 && ranks[0]["site"] == "clock_nanosleep(2)" &&
               ranks[1]["site"] == "clock_nanosleep(2)" && ranks[1]["activity"] == "blocked";
    }));
    INFO(ranks.dump());
    CHECK(ranks[1]["rank"] == 1);
    CHECK(contains(ranks[1]["stacks"], "no Python interpreter"));

    const auto one = ctl({"stacks", id, "--ranks=1"});
    CHECK(one.code == 0);
    CHECK(contains(one.out, "rank 1, pid "));
    CHECK_FALSE(contains(one.out, "rank 0"));
    const auto none = ctl({"stacks", id, "--ranks=2-3"});
    CHECK(none.code == 1);
    CHECK(contains(none.err, "there is no rank 2: the job has ranks 0 to 1"));
    CHECK(is_running(id));
    CHECK(ctl({"stop", id}).code == 0);
    CHECK(job.wait_for_code() == 143);
}

TEST_CASE("another user of the machine can neither see nor control a job") {
    if (::geteuid() != 0) return skip("another user needs root");
    const TempDir dir;
    const auto id = fresh_id();
    auto job = node_of(dir, id, {}, teller);
    job.wait_for_line("up");
    // Other users may not be able to read the build folder.
    const auto own = (dir / "ddprunctl").string();
    std::filesystem::copy_file(program("ddprun"), own);
    REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);

    const auto list = outcome_of(Running{"setpriv", as_other_user({own, "ps", "--json"})});
    CHECK(list.code == 0);
    CHECK_FALSE(contains(list.out, id));
    const auto stop = outcome_of(Running{"setpriv", as_other_user({own, "stop", id})});
    CHECK(stop.code == 3);
    CHECK(contains(stop.err, "no job '" + id + "' of this user on this machine"));
    CHECK(contains(stop.err, "which only they and root may control"));
    for (const std::string command : {"drain", "undrain"}) {
        const auto drain = outcome_of(Running{"setpriv", as_other_user({own, command, id, "0"})});
        CHECK(drain.code == 3);
        CHECK(contains(drain.err, "which only they and root may control"));
    }
    const auto by_pid = outcome_of(
        Running{"setpriv", as_other_user({own, "stop", "--pid=" + std::to_string(job.pid())})});
    CHECK(by_pid.code == 4);

    // Without ddprunctl, to show that the agent itself refuses, before anything is sent.
    const auto refused = outcome_of(Running{"python3", {"-c", speak, socket_of(job), "", "65534"}});
    CHECK(contains(refused.out, "\"why\":\"not_allowed\""));
    CHECK(contains(
        refused.out,
        "this job belongs to user 0; only that user and root may control it, not user 65534"));
    CHECK(is_running(id));
    // That user also cannot keep other users from using the socket.
    const std::string crowd =
        "import os, signal, socket, sys\n"
        "os.setgroups([])\n"
        "os.setgid(65534)\n"
        "os.setuid(65534)\n"
        "crowd = [socket.socket(socket.AF_UNIX) for _ in range(40)]\n"
        "for s in crowd: s.connect('\\0' + sys.argv[1])\n"
        "for s in crowd:\n"
        "    s.settimeout(30)\n"
        "    assert b'not_allowed' in s.recv(4096)\n"
        "print('refused', flush=True)\n"
        "signal.pause()\n";
    Running stranger{"python3", {"-c", crowd, socket_of(job)}};
    stranger.wait_for_line("^refused$");
    CHECK(listed(id).size() == 1);
    job.signal(SIGTERM);
    CHECK(job.wait_for_code() == 143);
}

TEST_CASE("a socket that has the name of a user's agent and is another user's is not believed") {
    if (::geteuid() != 0) return skip("another user needs root");
    const TempDir dir;
    const auto own = (dir / "ddprunctl").string();
    std::filesystem::copy_file(program("ddprun"), own);
    REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
    // A socket of root under a name of user 65534, which never answers. Root's own `ps`, in a
    // concurrent test, would query any socket; it is refused.
    Running listener{
        "python3",
        {"-c",
         "import socket, struct\n"
         "s = socket.socket(socket.AF_UNIX)\n"
         "s.bind('\\0ddprunctl/1/65534/" +
             std::to_string(::getpid()) +
             "')\n"
             "s.listen()\n"
             "print('up', flush=True)\n"
             "while True:\n"
             "    with s.accept()[0] as caller:\n"
             "        about = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)\n"
             "        if struct.unpack('3i', about)[1] == 65534:\n"
             "            print('heard', len(caller.recv(100)), flush=True)\n"
             "            break\n"}};
    listener.wait_for_line("up");

    const auto list = outcome_of(Running{"setpriv", as_other_user({own, "ps", "--json"})});

    CHECK(list.code == 0);
    CHECK(Json::parse(list.out) == Json::array());
    listener.wait_for_line("^heard 0$");
    CHECK(listener.wait_for_code() == 0);
}

TEST_CASE("any bytes on an agent's socket harm no job") {
    const TempDir dir;
    const auto id = fresh_id();
    auto job = node_of(dir, id, {}, teller);
    job.wait_for_line("up");

    for (const auto& bytes :
         {framed("{\"type\":\"reboot\"}"),
          framed("{}"),
          framed("{\"type\":\"signal_workers\",\"signal\":0}"),
          std::string("GET / HTTP/1.1\r\n\r\n"),
          std::string(100, '\xFF')}) {
        const auto answer =
            outcome_of(Running{"python3", {"-c", speak, socket_of(job), in_hex(bytes)}});
        CHECK(contains(answer.out, "\"why\":\"not_understood\""));
    }
    // Silent connections, more than are served, are closed.
    const std::string crowd =
        "import socket, sys\n"
        "crowd = [socket.socket(socket.AF_UNIX) for _ in range(40)]\n"
        "for s in crowd: s.connect('\\0' + sys.argv[1])\n"
        "for s in crowd:\n"
        "    s.settimeout(30)\n"
        "    assert s.recv(1) == b''\n"
        "print('closed')\n";
    const auto closed = outcome_of(Running{"python3", {"-c", crowd, socket_of(job)}});
    CHECK(closed.out == "closed\n");

    CHECK(is_running(id));
    CHECK(ctl({"stop", id}).code == 0);
    CHECK(job.wait_for_code() == 143);
}

TEST_CASE("a frozen agent is shown as one that does not answer, beside the others") {
    const TempDir dir;
    const auto frozen_id = fresh_id();
    const auto id = fresh_id();
    auto frozen = node_of(dir, frozen_id, {}, teller);
    auto job = node_of(dir, id, {}, teller);
    frozen.wait_for_line("up");
    job.wait_for_line("up");
    const int agent = agent_of(frozen);
    REQUIRE(::kill(agent, SIGSTOP) == 0);

    const auto list = Json::parse(ctl({"ps", "--json"}).out);
    const auto stop = ctl({"stop", frozen_id});
    const auto by_pid = ctl({"stop", "--pid=" + std::to_string(frozen.pid())});

    REQUIRE(::kill(agent, SIGCONT) == 0);
    bool is_shown = false;
    bool is_other_shown = false;
    for (const auto& one : list) {
        is_shown |= one["pid"] == frozen.pid() && one["problem"] == "no answer";
        is_other_shown |= one["run_id"] == id && one["state"] == "running";
    }
    CHECK(is_shown);
    CHECK(is_other_shown);
    CHECK(stop.code == 3);
    CHECK(by_pid.code == 5);
    CHECK(contains(stop.err, "pid " + std::to_string(frozen.pid()) + " does not answer"));
    for (auto* one : {&frozen, &job}) {
        one->signal(SIGTERM);
        CHECK(one->wait_for_code() == 143);
    }
}

TEST_CASE("a worker has no socket of its agent, and a killed job leaves none") {
    const TempDir dir;
    const auto id = fresh_id();
    auto job = node_of(dir, id, {}, "ls -l /proc/self/fd\necho up\n" + wait_for_ever);
    job.wait_for_line("up");
    CHECK_FALSE(contains(job.out(), "socket:"));
    CHECK(contains(read_file("/proc/net/unix"), '@' + socket_of(job) + '\n'));

    ::kill(agent_of(job), SIGKILL);

    CHECK(job.wait_for_code() == 1);
    CHECK_FALSE(contains(read_file("/proc/net/unix"), '@' + socket_of(job) + '\n'));
    CHECK(ctl({"status", id}).code == 3);
}

TEST_CASE("a mistake on ddprunctl's command line ends with 2 and says what is accepted") {
    const auto wrong = ctl({"stopp", "x"});
    CHECK(wrong.code == 2);
    CHECK(
        wrong.err ==
        "ddprunctl: 'stopp': unknown command: did you mean stop?\ntry 'ddprunctl --help'\n");
    CHECK(ctl({"--version"}).out.starts_with("ddprunctl "));
    CHECK(contains(ctl({"--help"}).out, "Usage: ddprunctl COMMAND"));
}
