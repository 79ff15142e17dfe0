// SPDX-License-Identifier: Apache-2.0
#include "agent/report/cause_in_words.hpp"

#include "rendezvous/base/limits.hpp"

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

std::string exception_of(const std::string& output) {
    const auto shown = exception_in(output);
    return shown ? shown->line : "";
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

TEST_CASE("of an error that went to the terminal the Python is named") {
    CHECK(
        run_by("/v/bin/python", "$VIRTUAL_ENV") ==
        "run by /v/bin/python ($VIRTUAL_ENV); --python=PATH chooses another Python");
}

TEST_CASE("a missing module names the Python that looked for it") {
    const auto of_output = [](const std::string& output) {
        return missing_module(output, "/bin/python3", "python3 on PATH");
    };
    const std::string error = "ModuleNotFoundError: No module named 'torch'";
    const auto sentence = of_output("Traceback:\n  import torch\n" + error + "\n");
    CHECK(
        sentence ==
        "not found by /bin/python3 (python3 on PATH); --python=PATH chooses another Python");
    CHECK(of_output(error) == sentence);
    CHECK(of_output("/bin/python3: No module named missing\n") == sentence);
    CHECK(
        of_output("/bin/python3: Error while finding module specification for 'a.b' "
                  "(ModuleNotFoundError: No module named 'a')\n") == sentence);
    CHECK(of_output("/bin/python3: No module named pkg.__main__; 'pkg' is a package and cannot be "
                    "directly executed\n")
              .empty());
    CHECK(of_output(error + "\nValueError: no batch").empty());
    CHECK(of_output("").empty());
}

TEST_CASE("the exception that ended a program is found in the end of its output") {
    const std::string frames =
        "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n    g()\n    ^^^\n";

    CHECK(exception_of(frames + "ValueError: bad batch\n") == "ValueError: bad batch");
    CHECK(exception_of(frames + "KeyboardInterrupt") == "KeyboardInterrupt");
    CHECK(
        exception_of(frames + "torch.cuda.OutOfMemoryError: no room\nfor it\nWARN: bye\n") ==
        "torch.cuda.OutOfMemoryError: no room");
    CHECK(
        exception_of(
            frames +
            "KeyError: 1\n\nDuring handling of the above exception, another exception "
            "occurred:\n\n" +
            frames + "MyTimeout: 2\n") == "MyTimeout: 2");
    // PyTorch's format when there is a process group.
    CHECK(
        exception_of(
            "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"t.py\", line 3\n"
            "[rank3]:     g()\n[rank3]: ValueError: x\n") == "ValueError: x");
    // The beginning of a long traceback is not kept.
    CHECK(exception_of("g()\n  File \"t.py\", line 3\n    g()\nE: x\n") == "E: x");
}

TEST_CASE("what is no exception that ended a program is not taken for one") {
    const std::string frames =
        "Traceback (most recent call last):\n  File \"t.py\", line 3\n    g()\n";

    CHECK(exception_of("").empty());
    CHECK(exception_of("usage: t.py\nt.py: error: no\n").empty());
    CHECK(exception_of(frames).empty());
    CHECK(exception_of(frames + "Extension modules: numpy (total: 1)\n").empty());
    CHECK(
        exception_of(
            frames + "ValueError: x\nException ignored in: <function f>\n" + frames +
            "TypeError: y\n") == "ValueError: x");
    CHECK(exception_of("Exception in thread Thread-1 (f):\n" + frames + "TypeError: y\n").empty());
}

TEST_CASE("an exception is the end of its program unless other lines follow it") {
    const std::string frames =
        "Traceback (most recent call last):\n  File \"t.py\", line 3\n    g()\n";
    const std::string thrown = frames + "ValueError: x\n";
    struct Case {
        std::string output;
        bool is_end;
    };
    const Case cases[] = {
        {thrown, true},
        {thrown + "\n", true},
        // The message continues on further lines.
        {thrown + "\tsize mismatch for fc.weight\n  and for fc.bias\n", true},
        {thrown + "CUDA kernel errors might be asynchronously reported at some other API call\n"
                  "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
                  "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n\n",
         true},
        {thrown + "Last error:\nncclSystemError: System call failed\n", true},
        // Output while the interpreter ends.
        {thrown + "Exception ignored in: <function f>\n" + frames + "TypeError: y\n", true},
        {thrown + "Exception in thread Thread-1 (f):\n" + frames + "TypeError: y\n", true},
        {thrown + "Error in atexit._run_exitfuncs:\n" + frames + "TypeError: y\n", true},
        {thrown + "[rank0]:[W1124 11:02:03.4 ProcessGroupNCCL.cpp:1250] Warning: not destroyed\n",
         true},
        {thrown + "[W1124 11:02:03.4 CudaIPCTypes.cpp:16] Producer process has been terminated\n",
         true},
        {thrown + "/usr/lib/python3.11/multiprocessing/resource_tracker.py:224: UserWarning: "
                  "resource_tracker: 1 leaked semaphore\n  warnings.warn('leaked')\n",
         true},
        {thrown + "terminate called without an active exception\n", true},
        // Written by PyTorch's hook, which only sees exceptions that the program did not catch.
        {"[rank3]: " + std::string{"Traceback (most recent call last):\n[rank3]:   File \"t.py\", "
                                   "line 3\n[rank3]: ValueError: x\n[rank3]: more of it\nbye\n"},
         true},
        // The program caught it, or may have.
        {thrown + "batch skipped\n", false},
        {thrown + "step 7: loss 0.1\n" + "cannot open data\n", false},
        {thrown + "\nusage: t.py\nt.py: error: no data\n", false},
        {thrown + "Fatal Python error: Aborted\n", false},
        {thrown + "terminate called after throwing an instance of 'std::runtime_error'\n", false},
        {thrown + frames, false},
        {thrown + "[rank of nothing\n", false},
        {thrown + "[", false},
    };
    for (const auto& each : cases) {
        CAPTURE(each.output);
        CHECK(exception_in(each.output) == ShownException{"ValueError: x", each.is_end});
    }
    // The last one counts.
    CHECK(
        exception_in(thrown + "batch skipped\n" + frames + "KeyError: y\n") ==
        ShownException{"KeyError: y", true});
}

TEST_CASE("of an exception group the line of the group is shown") {
    const std::string frames =
        "  + Exception Group Traceback (most recent call last):\n"
        "  |   File \"t.py\", line 1, in <module>\n"
        "  |     raise ExceptionGroup(\"two ranks\", [ValueError(\"a\"), group])\n";
    const std::string group = frames +
                              "  | ExceptionGroup: two ranks (2 sub-exceptions)\n"
                              "  | a note\n"
                              "  +-+---------------- 1 ----------------\n"
                              "    | ExceptionGroup: inner (1 sub-exception)\n"
                              "    +-+---------------- 1 ----------------\n"
                              "      | ValueError: a\n"
                              "second line of its message\n"
                              "      +------------------------------------\n"
                              "    +---------------- 2 ----------------\n"
                              "    | ExceptionGroup: inner (1 sub-exception)\n"
                              "    +-+---------------- 1 ----------------\n"
                              "      | OSError: 5\n";
    const std::string end = "      +------------------------------------\n";
    const ShownException shown{"ExceptionGroup: two ranks (2 sub-exceptions)", true};
    const std::string next = "Traceback (most recent call last):\n  File \"t.py\", line 3\nE: x\n";

    CHECK(exception_in(group) == shown);
    CHECK(exception_in(group + end) == shown);
    CHECK_FALSE(exception_in(group + end + "the program goes on\n")->is_end);
    CHECK(exception_in(group + end + next) == ShownException{"E: x", true});
    CHECK(
        exception_in(
            group + end +
            "\nDuring handling of the above exception, another exception occurred:\n\n" + next) ==
        ShownException{"E: x", true});
    CHECK(
        exception_in("Exception in thread Thread-1:\n" + group + end + next) ==
        ShownException{"E: x", true});
}

TEST_CASE("a traceback with the margin of another program's report is not this one's") {
    CHECK_FALSE(
        exception_in("  stderr (last 2 lines):\n"
                     "  |   File \"/home/you/train.py\", line 7, in <module>\n"
                     "  | ValueError: loss is nan at step 310\n"));
}

TEST_CASE("a long exception is cut between two characters") {
    std::string text = "  File \"t.py\", line 3\nE: ";
    for (int i = 0; i < 200; ++i)
        text += "\u00e9";

    const auto found = exception_of(text);

    CHECK(found.size() <= ddprun::limits::max_exception_bytes + 4);
    CHECK(found.ends_with("\u00e9 ..."));
}

TEST_CASE("sizes are rounded and have a unit") {
    CHECK(bytes_text(0) == "0 bytes");
    CHECK(bytes_text(1023) == "1023 bytes");
    CHECK(bytes_text(64 * mib) == "64 MiB");
    CHECK(bytes_text(1536 * mib) == "1.5 GiB");
    CHECK(bytes_text(2048 * mib) == "2 GiB");
    CHECK(bytes_text(1ULL << 62) == "4194304 TiB");
}
