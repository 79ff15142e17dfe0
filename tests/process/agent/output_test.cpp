// SPDX-License-Identifier: Apache-2.0
#include "agent/output/stream_relay.hpp"
#include "agent/output/stream_sink.hpp"
#include "agent/output/writer.hpp"
#include "agent/process/descendants.hpp"
#include "agent/process/spawn.hpp"
#include "rendezvous/base/limits.hpp"
#include "tests/process/support/pipe.hpp"
#include "tests/process/support/running.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

/// The agent's stderr, replaced by a pipe during a test.
class CapturedStderr {
public:
    CapturedStderr() : saved_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
        ::dup2(pipe_.write_end(), STDERR_FILENO);
        pipe_.close_write_end();
    }
    ~CapturedStderr() { restore(); }
    CapturedStderr(const CapturedStderr&) = delete;
    CapturedStderr& operator=(const CapturedStderr&) = delete;

    /// Restores the real stderr, and returns everything that was written.
    std::string text() {
        restore();
        return pipe_.read_all();
    }
    /// Returns false when nothing arrives for long.
    bool has_more() const {
        pollfd bytes{pipe_.read_end(), POLLIN, 0};
        const std::chrono::milliseconds deadline = fact_timeout;
        return ::poll(&bytes, 1, static_cast<int>(deadline.count())) == 1;
    }
    std::string read_some() const {
        std::string bytes(65536, '\0');
        const auto size = ::read(pipe_.read_end(), bytes.data(), bytes.size());
        bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        return bytes;
    }

private:
    void restore() {
        if (saved_ < 0) return;
        ::dup2(saved_, STDERR_FILENO);
        ::close(std::exchange(saved_, -1));
    }

    Pipe pipe_;
    int saved_;
};

std::string lines(long count) {
    std::string text;
    for (long i = 0; i < count; ++i)
        text += "line " + std::to_string(i) + "\n";
    return text;
}

std::shared_ptr<StreamSink> to_stderr(Writer& writer) {
    return std::make_shared<StreamSink>(
        writer.queue(),
        writer.console(),
        StreamSink::Targets{STDERR_FILENO, nullptr, nullptr, {}},
        StreamSink::Raw{},
        limits::prompt_timeout);
}

/// This process's stderr and a writer to it. Must outlive the sinks.
class Screen {
public:
    Writer& writer() { return writer_; }
    std::shared_ptr<StreamSink> lines_of(const char* prefix, Duration line_timeout) {
        return std::make_shared<StreamSink>(
            writer_.queue(),
            writer_.console(),
            StreamSink::Targets{STDERR_FILENO, nullptr, nullptr, {}},
            LinePrefix{prefix, {}},
            line_timeout);
    }
    /// Waits until it appears after the previously awaited text.
    void wait_for(const std::string& text) {
        for (;;) {
            const auto at = seen_.find(text, looked_at_);
            if (at != std::string::npos) {
                looked_at_ = at + text.size();
                return;
            }
            REQUIRE(captured_.has_more());
            seen_ += captured_.read_some();
        }
    }
    /// Everything, after all that was passed to the writer is written.
    std::string text() {
        std::promise<void> written;
        writer_.run([&] { written.set_value(); });
        written.get_future().wait();
        return seen_ + captured_.text();
    }

private:
    CapturedStderr captured_;
    boost::asio::io_context io_;
    Writer writer_{io_, [] {}};
    std::string seen_;
    std::size_t looked_at_ = 0;
};

pid_t start(StreamRelay& relay, std::vector<std::string> arguments) {
    SpawnSpec spec;
    spec.program = stub("write_stderr");
    spec.arguments = {spec.program};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    spec.standard_output = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    spec.standard_error = relay.worker_end();
    const auto pid = spawn(spec);
    ::close(spec.standard_output);
    relay.close_worker_end();
    REQUIRE(pid.has_value());
    return *pid;
}

bool has_ended(pid_t pid) {
    return ::waitpid(pid, nullptr, WNOHANG) == pid;
}

template <class Fact>
bool run_until(boost::asio::io_context& io, Fact fact) {
    const auto deadline = std::chrono::steady_clock::now() + fact_timeout;
    // These tests wait for facts outside of the event loop, so an idle loop waits and checks again
    // soon.
    const auto work = boost::asio::make_work_guard(io);
    io.restart();
    bool holds = false;
    while (!(holds = fact()) && std::chrono::steady_clock::now() < deadline)
        io.run_one_for(std::chrono::milliseconds{5});
    return holds;
}

}  // namespace

TEST_CASE("a worker's stderr passes through byte for byte and its end is kept") {
    CapturedStderr captured;
    std::string tail;
    {
        boost::asio::io_context io;
        Writer console(io, [] {});
        auto relay = StreamRelay::open(io, console, to_stderr(console));
        REQUIRE(relay.has_value());
        const auto pid = start(*relay, {"2000"});
        REQUIRE(run_until(io, [&] { return has_ended(pid); }));
        relay->finish();
        tail = relay->tail();
    }

    const auto whole = lines(2000);
    CHECK(captured.text() == whole);
    CHECK(tail == whole.substr(whole.size() - limits::max_stderr_tail_bytes));
}

TEST_CASE("a worker's stderr ends at its exit although a grandchild holds the pipe") {
    CapturedStderr captured;
    std::string tail;
    {
        boost::asio::io_context io;
        Writer console(io, [] {});
        auto relay = StreamRelay::open(io, console, to_stderr(console));
        REQUIRE(relay.has_value());
        const auto pid = start(*relay, {"3", "leave"});
        REQUIRE(run_until(io, [&] { return has_ended(pid); }));
        relay->finish();
        tail = relay->tail();
    }
    // When the grandchild ends, every copy of the stderr is closed.
    CHECK(kill_descendants(fact_timeout).empty());

    CHECK(tail == "line 0\nline 1\nline 2\n");
    CHECK(captured.text() == tail);
}

TEST_CASE("a worker that goes on gets another prefix, and what it wrote before keeps the old one") {
    Screen screen;
    boost::asio::io_context io;
    auto relay = StreamRelay::open(
        io, screen.writer(), screen.lines_of("[0] ", limits::unfinished_line_timeout));
    REQUIRE(relay.has_value());
    const auto write = [&](std::string_view text) {
        REQUIRE(::write(relay->worker_end(), text.data(), text.size()) == std::ssize(text));
    };
    write("before\nunfinished");
    relay->redirect(screen.lines_of("[3] ", limits::unfinished_line_timeout), {});
    write("after\n");
    relay->finish();

    CHECK(relay->tail() == "before\nunfinishedafter\n");
    CHECK(screen.text() == "[0] before\n[0] unfinished\n[3] after\n");
}

TEST_CASE("output that is not read stops the worker, not the agent, and is complete in the end") {
    CapturedStderr captured;
    boost::asio::io_context io;
    std::optional<StreamRelay> relay;
    Writer console(io, [&] { relay->resume(); });
    auto opened = StreamRelay::open(io, console, to_stderr(console));
    REQUIRE(opened.has_value());
    relay.emplace(std::move(*opened));
    // More lines than pipes and backlog can hold together.
    constexpr long line_count = 2'000'000;
    const auto pid = start(*relay, {std::to_string(line_count)});

    REQUIRE(run_until(io, [&] { return console.is_full(); }));
    CHECK_FALSE(has_ended(pid));

    std::string text;
    const auto whole_size = lines(line_count).size();
    bool is_over = false;
    std::thread reader([&] {
        while (text.size() < whole_size)
            text += captured.read_some();
    });
    REQUIRE(run_until(io, [&] { return is_over = is_over || has_ended(pid); }));
    relay->finish();
    reader.join();
    CHECK(text == lines(line_count));
}

TEST_CASE("a console that takes nothing more does not keep the agent from ending") {
    CapturedStderr captured;
    constexpr std::size_t more_than_a_pipe_holds = 1 << 20;

    {
        boost::asio::io_context io;
        Writer console(io, [] {});
        console.write(STDERR_FILENO, std::string(more_than_a_pipe_holds, 'x'));
    }

    // Reaching this line shows that the agent can end. Reading now lets the blocked thread continue
    // its write.
    std::size_t size = 0;
    while (size < more_than_a_pipe_holds)
        size += captured.read_some().size();
    CHECK(size == more_than_a_pipe_holds);
}

TEST_CASE("a line that pauses is not torn, however many others write meanwhile") {
    Screen screen;
    const auto a = screen.lines_of("a: ", limits::unfinished_line_timeout);
    const auto b = screen.lines_of("b: ", limits::unfinished_line_timeout);

    screen.writer().pass(a, "begun");
    screen.writer().pass(b, "whole\n");
    screen.writer().write(STDERR_FILENO, "ours\n");
    screen.wait_for("ours\n");
    screen.writer().pass(a, ", ended\nnot ended");
    screen.writer().end(a);

    CHECK(screen.text() == "b: whole\nours\na: begun, ended\na: not ended\n");
}

TEST_CASE("an unfinished line that is shown and that stays as it is goes on where it was") {
    Screen screen;
    const auto a = screen.lines_of("a: ", limits::prompt_timeout);

    screen.writer().pass(a, "number? ");
    screen.wait_for("number? ");
    screen.writer().pass(a, "7");
    screen.wait_for("7");
    screen.writer().pass(a, "\n");
    screen.writer().end(a);

    CHECK(screen.text() == "a: number? 7\n");
}

TEST_CASE("an unfinished line that is shown and that other output ended is written again, whole") {
    Screen screen;
    const auto a = screen.lines_of("a: ", limits::prompt_timeout);
    const auto b = screen.lines_of("b: ", limits::prompt_timeout);

    screen.writer().pass(a, "begun");
    screen.wait_for("a: begun");
    screen.writer().pass(b, "whole\n");
    screen.writer().pass(a, ", ended\n");
    screen.writer().pass(a, "asked");
    screen.wait_for("a: asked");
    screen.writer().write(STDERR_FILENO, "ours\n");
    screen.writer().end(a);

    CHECK(screen.text() == "a: begun\nb: whole\na: begun, ended\na: asked\nours\n");
}

TEST_CASE("progress bars of several workers are shown at once, and once") {
    Screen screen;
    const auto a = screen.lines_of("a:", limits::prompt_timeout);
    const auto b = screen.lines_of("b:", limits::prompt_timeout);

    for (const std::string bar : {" 10%", " 20%"}) {
        screen.writer().pass(a, "\r" + bar);
        screen.wait_for("a:" + bar);
        screen.writer().pass(b, "\r" + bar);
        screen.wait_for("b:" + bar);
    }
    screen.writer().pass(a, "\r100%\n");
    screen.writer().pass(b, "\n");
    screen.writer().end(a);
    screen.writer().end(b);

    CHECK(screen.text() == "a: 10%\nb: 10%\na: 20%\nb: 20%\na:100%\n");
}

TEST_CASE("bytes that are passed as they are begin and end on lines of their own") {
    Screen screen;
    const auto a = screen.lines_of("a: ", limits::prompt_timeout);
    const auto raw = to_stderr(screen.writer());
    const auto other = to_stderr(screen.writer());

    screen.writer().pass(a, "begun");
    screen.wait_for("a: begun");
    screen.writer().pass(raw, "\r10%");
    screen.writer().pass(other, "\r20%");
    screen.writer().pass(a, ", ended\n");
    screen.writer().pass(raw, "traceback\n");
    screen.writer().write(STDERR_FILENO, "ours\n");

    CHECK(screen.text() == "a: begun\n\r10%\r20%\na: begun, ended\ntraceback\nours\n");
}

TEST_CASE("a line of JSON waits longer, and then comes in parts") {
    Screen screen;
    const auto a = std::make_shared<StreamSink>(
        screen.writer().queue(),
        screen.writer().console(),
        StreamSink::Targets{STDERR_FILENO, nullptr, nullptr, {}},
        JsonLine{{"run", 0, "host", 0, "stderr"}},
        limits::prompt_timeout);

    screen.writer().pass(a, "begun");
    screen.wait_for("\n");
    screen.writer().pass(a, ", ended\n");
    screen.writer().end(a);

    const auto text = screen.text();
    CHECK(text.find("\"part\":1,\"continues\":true,\"message\":\"begun\"}\n") != std::string::npos);
    CHECK(text.ends_with("\"part\":2,\"message\":\", ended\"}\n"));
}
