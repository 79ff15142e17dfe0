// SPDX-License-Identifier: Apache-2.0
#include "agent/health/python_frames.hpp"

#include "rendezvous/base/limits.hpp"
#include "tests/unit/agent/health/fake_memory.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::health;
using ddprun::test::FakeMemory;

namespace {

constexpr std::uint32_t version_3_12 = 0x030c01f0;

std::vector<std::byte> bytes(const std::vector<int>& numbers) {
    std::vector<std::byte> result;
    for (const int number : numbers)
        result.push_back(static_cast<std::byte>(number));
    return result;
}

/// An interpreter of version 3.12 with one thread, by the offsets of its headers.
class FakePython {
public:
    FakePython() {
        runtime_ = memory.add(64);
        interpreter_ = memory.add(128);
        thread_ = memory.add(256);
        cframe_ = memory.add(16);
        code_type_ = memory.add(16);
        memory.put(runtime_ + 40, interpreter_);
        memory.put(interpreter_ + 72, thread_);
        memory.put(thread_ + 144, std::uint64_t{4711});
        memory.put(thread_ + 56, cframe_);
    }

    std::uint64_t text(const std::string& ascii) {
        const auto address = memory.add(40 + ascii.size() + 1);
        memory.put(address + 16, static_cast<std::int64_t>(ascii.size()));
        memory.put(address + 32, std::uint32_t{1U << 2U | 1U << 5U | 1U << 6U});
        memory.put_text(address + 40, ascii);
        return address;
    }
    /// Its characters take two bytes each.
    std::uint64_t wide_text(const std::u16string& wide) {
        const auto address = memory.add(56 + 2 * wide.size() + 2);
        memory.put(address + 16, static_cast<std::int64_t>(wide.size()));
        memory.put(address + 32, std::uint32_t{2U << 2U | 1U << 5U});
        for (std::size_t i = 0; i < wide.size(); ++i)
            memory.put(address + 56 + 2 * i, wide[i]);
        return address;
    }
    std::uint64_t code(std::uint64_t name, std::uint64_t file, int first_line) {
        const auto lines = memory.add(32 + 3);
        memory.put(lines + 16, std::int64_t{2});
        // One unit on the first line; one on the next.
        memory.put(lines + 32, std::uint8_t{0x80 | 15 << 3});
        memory.put(lines + 33, std::uint8_t{0x80 | 11 << 3});
        const auto address = memory.add(256);
        memory.put(address + 8, code_type_);
        memory.put(address + 68, std::int32_t{first_line});
        memory.put(address + 112, file);
        memory.put(address + 128, name);
        memory.put(address + 136, lines);
        return address;
    }
    /// A frame that the previous frame called.
    std::uint64_t call(std::uint64_t code, std::uint64_t offset = 2, std::uint8_t owner = 0) {
        const auto frame = memory.add(80);
        memory.put(frame + 0, code);
        memory.put(frame + 8, innermost_);
        memory.put(frame + 56, code + 192 + offset);
        memory.put(frame + 70, owner);
        memory.put(cframe_ + 0, frame);
        innermost_ = frame;
        return frame;
    }
    PythonInterpreter where() const { return {runtime_, code_type_, version_3_12}; }
    PythonThreads threads() { return read_python_threads(where(), memory.reader()); }

    FakeMemory memory;

private:
    std::uint64_t runtime_, interpreter_, thread_, cframe_, code_type_;
    std::uint64_t innermost_ = 0;
};

}  // namespace

TEST_CASE("a stack is read from the inside to the outside") {
    FakePython python;
    const auto file = python.text("/home/me/train.py");
    python.call(python.code(python.text("<module>"), file, 10));
    python.call(python.code(python.text("main.<locals>.Loader.read"), file, 20));

    const auto all = python.threads();

    REQUIRE(all.threads.size() == 1);
    CHECK(all.why_not.empty());
    CHECK(all.threads[0].tid == 4711);
    CHECK(
        all.threads[0].frames ==
        std::vector<PythonFrame>{
            {"Loader.read", "/home/me/train.py", 21}, {"<module>", "/home/me/train.py", 11}});
}

TEST_CASE("the instruction is another one in another place and in another call") {
    FakePython python;
    const auto code = python.code(python.text("f"), python.text("f.py"), 1);
    const auto frame = python.call(code, 2);
    const auto first = python.threads().threads.at(0).instruction;
    CHECK(first == python.threads().threads.at(0).instruction);

    python.memory.put(frame + 56, code + 192 + 4);
    const auto second = python.threads().threads.at(0).instruction;
    CHECK(second != first);

    python.call(code, 4);
    CHECK(python.threads().threads.at(0).instruction != second);
}

TEST_CASE("a function that calls wait is known") {
    FakePython python;
    const auto code = python.code(python.text("f"), python.text("f.py"), 1);
    python.call(code);
    CHECK_FALSE(python.threads().threads.at(0).calls_wait);

    const auto names = python.memory.add(24 + 2 * 8);
    python.memory.put(names + 16, std::int64_t{2});
    python.memory.put(names + 24, python.text("waits"));
    python.memory.put(code + 32, names);
    CHECK_FALSE(python.threads().threads.at(0).calls_wait);
    python.memory.put(names + 32, python.text("wait"));
    CHECK(python.threads().threads.at(0).calls_wait);

    python.memory.put(names + 16, std::int64_t{1'000'000'000});
    CHECK_FALSE(python.threads().threads.at(0).calls_wait);
}

TEST_CASE("frames of the interpreter itself are no calls") {
    FakePython python;
    const auto code = python.code(python.text("f"), python.text("f.py"), 1);
    python.call(code);
    python.call(0, 0, 3);
    python.call(code);

    CHECK(python.threads().threads.at(0).frames.size() == 2);
}

TEST_CASE("names are bounded, printable and UTF-8; of a long path the end is kept") {
    FakePython python;
    const auto name = python.wide_text(u"h\u00e9\u4e16\u001b");
    python.call(python.code(name, python.text("/x/" + std::string(900, 'y') + "/train.py"), 1));

    const auto frame = python.threads().threads.at(0).frames.at(0);

    CHECK(frame.function == "h\u00e9\u4e16?");
    CHECK(frame.file.size() == limits::max_sampled_name_bytes + 3);
    CHECK(frame.file.ends_with("/train.py"));
}

TEST_CASE("a name that claims characters of another size is none") {
    FakePython python;
    const auto name = python.text(std::string(4096, 'x'));
    python.call(python.code(name, python.text("f.py"), 1));
    for (std::uint32_t kind = 0; kind < 8; ++kind) {
        python.memory.put(name + 32, kind << 2U | 1U << 5U | 1U << 6U);
        CHECK(python.threads().threads.empty() == (kind != 1));
    }
}

TEST_CASE("a stack without an end, and one that is too deep, is cut") {
    FakePython python;
    const auto code = python.code(python.text("f"), python.text("f.py"), 1);
    const auto frame = python.call(code);
    python.memory.put(frame + 8, frame);

    CHECK(python.threads().threads.at(0).frames.size() == limits::max_python_frames);

    // An endless list of frames that belong to no function.
    python.memory.put(frame + 70, std::uint8_t{3});
    CHECK(python.threads().threads.empty());
}

TEST_CASE("what is no code object ends the stack") {
    FakePython python;
    const auto code = python.code(python.text("f"), python.text("f.py"), 1);
    python.call(code);
    python.memory.put(code + 8, std::uint64_t{0x1234});

    const auto all = python.threads();
    CHECK(all.threads.empty());
    CHECK(all.why_not == "no frame of its threads can be read");
}

TEST_CASE("a version that is not known has no stack, and the reason is given") {
    FakePython python;
    const auto why_not = [&](std::uint32_t version) {
        auto where = python.where();
        where.version = version;
        return read_python_threads(where, python.memory.reader()).why_not;
    };
    CHECK(why_not(0) == "Python older than 3.11");
    CHECK(why_not(0x030f00a1) == "Python 3.15 is not known");
    CHECK(why_not(0x030d00f0) == "its memory cannot be read");

    python.memory.add(1024);
    CHECK(why_not(0x030d00f0) == "Python 3.13 with unknown offsets");
}

TEST_CASE("offsets that the interpreter has of itself are checked") {
    FakeMemory memory;
    const auto runtime = memory.add(1024);
    const auto why_not = [&] {
        return read_python_threads({runtime, 1, 0x030d00f0}, memory.reader()).why_not;
    };
    memory.put_text(runtime, "xdebugpy");
    memory.put(runtime + 8, std::uint64_t{0x030d02f0});
    CHECK(why_not() == "Python 3.13 with unknown offsets");

    for (std::uint64_t word = 3; word < 81; ++word)
        memory.put(runtime + word * 8, std::uint64_t{word < 4 ? 4096U : 64U});
    memory.put(runtime + 16, std::uint64_t{1});
    CHECK(why_not() == "Python 3.13 without a global lock");

    memory.put(runtime + 16, std::uint64_t{0});
    memory.put(runtime + 8, std::uint64_t{0x030e02f0});
    CHECK(why_not() == "Python 3.13 with unknown offsets");
}

TEST_CASE("a line is that of the entry in which the instruction is") {
    constexpr int same_line = 0x80;
    constexpr int next_line = 0x80 | 11 << 3;
    constexpr int no_columns = 0x80 | 13 << 3;
    constexpr int no_line = 0x80 | 15 << 3;
    // Two units on line 10, one on 11, eight on none, one on 8 (-3), one on 108 (+100).
    const auto table = bytes(
        {same_line | 1, 0x12, next_line, 0, 0, no_line | 7, no_columns, 7, no_columns, 0x48, 3});

    CHECK(line_at(table, 10, 0) == 10);
    CHECK(line_at(table, 10, 3) == 10);
    CHECK(line_at(table, 10, 4) == 11);
    CHECK(line_at(table, 10, 6) == 0);
    CHECK(line_at(table, 10, 22) == 8);
    CHECK(line_at(table, 10, 24) == 108);
    CHECK(line_at(table, 10, 26) == 0);
    CHECK(line_at(table, 10, ~std::uint64_t{0}) == 0);
}

TEST_CASE("a line table that is none has no lines") {
    CHECK(line_at({}, 10, 0) == 0);
    CHECK(line_at(bytes({1, 2, 3}), 10, 0) == 0);
    // A number that never ends.
    CHECK(line_at(bytes({0x80 | 14 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f}), 1, 0) >= 0);

    std::mt19937 random(1);  // NOLINT: the same table every time
    for (int i = 0; i < 5'000; ++i) {
        std::vector<std::byte> table(random() % 64);
        for (auto& each : table)
            each = static_cast<std::byte>(random());
        CHECK(line_at(table, static_cast<int>(random() % 1000), random() % 256) >= 0);
    }
}

TEST_CASE("any memory is a value or a reason, within bounds") {
    FakePython python;
    const auto file = python.text("/home/me/train.py");
    for (int i = 0; i < 20; ++i)
        python.call(python.code(python.text("f" + std::to_string(i)), file, i + 1));
    std::mt19937 random(7);  // NOLINT: the same damage every time
    for (int i = 0; i < 5'000; ++i) {
        auto damaged = python;
        for (int count = 0; count < 4; ++count)
            damaged.memory.at(random() % damaged.memory.size()) = static_cast<std::byte>(random());
        const auto all = damaged.threads();
        CHECK(all.threads.empty() == !all.why_not.empty());
        CHECK(damaged.memory.reads < 20'000);
        for (const auto& thread : all.threads)
            CHECK(thread.frames.size() <= limits::max_python_frames);
    }
}
