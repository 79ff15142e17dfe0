// SPDX-License-Identifier: Apache-2.0
#include "agent/report/cause_in_words.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <string>

using namespace ddprun::agent;
using Kind = ddprun::control::WorkerEnd::Kind;

namespace {

constexpr std::uint64_t mib = 1024ULL * 1024;

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

CauseInWords of_signal(int signal, const MachineFacts& facts = {}) {
    return cause_in_words({Kind::killed, signal}, facts);
}

std::string sentence_of(Kind kind, int value) {
    return cause_in_words({kind, value}, {}).sentence;
}

}  // namespace

TEST_CASE("the cause of a SIGKILL is judged by what the machine counted") {
    MachineFacts facts;
    CHECK(contains(of_signal(SIGKILL, facts).sentence, "see dmesg"));

    facts.oom_kills = 0;
    CHECK(contains(of_signal(SIGKILL, facts).sentence, "the kernel counts no kill"));
    CHECK(of_signal(SIGKILL, facts).brief.empty());

    facts.oom_kills = 1;
    facts.memory_limit_bytes = 2048 * mib;
    const CauseInWords counted{
        "out of memory",
        "the kernel killed 1 process of this node for lack of memory (memory limit 2 GiB) in this "
        "round"};
    CHECK(of_signal(SIGKILL, facts) == counted);

    facts.oom_line = "Out of memory: Killed process 7 (train)";
    CHECK(contains(of_signal(SIGKILL, facts).sentence, "\"Out of memory: Killed process 7"));
    CHECK(of_signal(SIGKILL, facts).brief == "out of memory");
}

TEST_CASE("a worker that exits after its data loader was killed for memory says so") {
    MachineFacts facts;
    facts.oom_kills = 2;

    const auto cause = cause_in_words({Kind::exited, 1}, facts);

    CHECK(contains(cause.sentence, "killed 2 processes"));
    CHECK(contains(cause.sentence, "a child of this worker"));
    CHECK(cause.brief.empty());
}

TEST_CASE("the cause of a SIGBUS is judged by the room in /dev/shm") {
    MachineFacts facts;
    CHECK(contains(of_signal(SIGBUS, facts).sentence, "memory mapped file"));

    facts.shared_memory = {64 * mib, mib};
    CHECK(of_signal(SIGBUS, facts).brief == "/dev/shm is full");
    CHECK(contains(of_signal(SIGBUS, facts).sentence, "63 MiB of 64 MiB used"));
    CHECK(contains(of_signal(SIGBUS, facts).sentence, "--shm-size"));

    facts.shared_memory = {64 * mib, 60 * mib};
    CHECK(of_signal(SIGBUS, facts).brief.empty());
    CHECK(contains(of_signal(SIGBUS, facts).sentence, "probably a full /dev/shm"));

    facts.shared_memory = {16'384 * mib, 16'000 * mib};
    CHECK(contains(of_signal(SIGBUS, facts).sentence, "memory mapped file"));

    facts.shared_memory = {0, 0};
    CHECK(contains(of_signal(SIGBUS, facts).sentence, "memory mapped file"));
}

TEST_CASE("the kernel's line is quoted") {
    MachineFacts facts;
    facts.crash_line = "train[7]: segfault at 0 in libx.so";

    CHECK(contains(of_signal(SIGSEGV, facts).sentence, "the kernel says: \"train[7]: segfault"));
    facts.crash_line = "NVRM: Xid (PCI:0000:3b:00): 79";
    CHECK(cause_in_words({Kind::exited, 1}, facts).sentence.starts_with("the kernel says: \"NVRM"));
}

TEST_CASE("signals and exit codes with a known meaning have a sentence, others none") {
    for (const int signal :
         {SIGSEGV,
          SIGABRT,
          SIGILL,
          SIGFPE,
          SIGPIPE,
          SIGXCPU,
          SIGXFSZ,
          SIGSYS,
          SIGTERM,
          SIGINT,
          SIGHUP,
          SIGQUIT,
          SIGTRAP,
          SIGALRM}) {
        CAPTURE(signal);
        CHECK_FALSE(of_signal(signal).sentence.empty());
    }
    CHECK(of_signal(SIGUSR1).sentence.empty());
    CHECK(contains(sentence_of(Kind::exited, 2), "arguments"));
    CHECK(contains(sentence_of(Kind::exited, 126), "cannot execute"));
    CHECK(contains(sentence_of(Kind::exited, 64), "sysexits.h: wrong arguments"));
    CHECK(contains(sentence_of(Kind::exited, 78), "sysexits.h: its configuration is wrong"));
    CHECK(sentence_of(Kind::exited, 79).empty());
    CHECK(contains(sentence_of(Kind::exited, 127), "does not find"));
    CHECK(contains(sentence_of(Kind::exited, 137), "killed by SIGKILL"));
    CHECK(contains(sentence_of(Kind::exited, 139), "killed by SIGSEGV"));
    for (const int code : {0, 1, 3, 85, 128, 193, 255})
        CHECK(sentence_of(Kind::exited, code).empty());
    CHECK(contains(sentence_of(Kind::not_executed, ENOENT), "does not exist"));
    CHECK(contains(sentence_of(Kind::not_executed, EACCES), "chmod"));
    CHECK(contains(sentence_of(Kind::not_executed, ENOEXEC), "no program for this machine"));
    CHECK(sentence_of(Kind::not_executed, 12345).empty());
}

TEST_CASE("a missing module names the Python that looked for it") {
    const std::string error = "ModuleNotFoundError: No module named 'torch'";
    const auto sentence =
        missing_module("Traceback:\n  import torch\n" + error + "\n", "/bin/python3");
    CHECK(contains(sentence, "/bin/python3"));
    CHECK(contains(sentence, "--python"));
    CHECK_FALSE(missing_module(error, "/bin/python3").empty());
    CHECK(missing_module(error + "\nValueError: no batch", "/bin/python3").empty());
    CHECK(missing_module("", "/bin/python3").empty());
}

TEST_CASE("sizes are rounded and have a unit") {
    CHECK(bytes_text(0) == "0 bytes");
    CHECK(bytes_text(1023) == "1023 bytes");
    CHECK(bytes_text(64 * mib) == "64 MiB");
    CHECK(bytes_text(1536 * mib) == "1.5 GiB");
    CHECK(bytes_text(2048 * mib) == "2 GiB");
    CHECK(bytes_text(1ULL << 62) == "4194304 TiB");
}
