// SPDX-License-Identifier: Apache-2.0
#include "agent/health/kernel_facts.hpp"

#include <doctest/doctest.h>

#include <sys/syscall.h>

#include <string>

using namespace ddprun::agent::health;

namespace {

const std::string stat_text =
    "4711 (py) S 1 (x) R 4700 4711 4711 0 -1 4194304 2203 12 0 0 150 25 7 3 20 0 4 0 987654 "
    "22892544 2440 18446744073709551615 1 1 0 0 0 0 0 16781312 2 0 0 0 17 1 0 0 0 0 0\n";

std::string call_text(int number, const std::string& arguments) {
    return std::to_string(number) + " " + arguments + " 0x7ffc 0x7f11\n";
}

}  // namespace

TEST_CASE("a process's state, times and start are read behind its name") {
    CHECK(parse_stat(stat_text) == ProcessStat{'R', 185, 987654});
}

TEST_CASE("a stat that is cut off anywhere is none, or whole") {
    const auto end_of_start = stat_text.find(" 22892544");
    for (std::size_t size = 0; size < end_of_start; ++size) {
        const auto cut = parse_stat(std::string_view{stat_text}.substr(0, size));
        // A number may be cut in the middle; later fields are missing.
        if (cut) CHECK(cut->cpu_ticks == 185);
    }
    CHECK_FALSE(parse_stat(""));
    CHECK_FALSE(parse_stat(")"));
    CHECK_FALSE(parse_stat("1 (a) S"));
    CHECK_FALSE(parse_stat("1 (a) S x x x x x x x x x x x x x x x x x x x x x x x"));
}

TEST_CASE("an attached debugger is the tracer") {
    CHECK(tracer_in("Name:\tpython3\nTracerPid:\t812\nUid:\t0\n") == 812);
    CHECK(tracer_in("Name:\tpython3\nTracerPid:\t0\n") == 0);
    CHECK(tracer_in("TracerPid") == 0);
    CHECK(tracer_in("") == 0);
}

TEST_CASE("bytes are those of system calls, or of the disk where those are more") {
    CHECK(
        io_bytes_in("rchar: 100\nwchar: 20\nsyscr: 5\nsyscw: 1\nread_bytes: 4096\n"
                    "write_bytes: 0\ncancelled_write_bytes: 0\n") == 4116);
    CHECK(io_bytes_in("rchar: x\n") == 0);
    CHECK(io_bytes_in("") == 0);
}

TEST_CASE("a wait channel of 0 is none") {
    CHECK(wait_channel_in("futex_wait_queue") == "futex_wait_queue");
    CHECK(wait_channel_in("0").empty());
    CHECK(wait_channel_in("").empty());
    CHECK(wait_channel_in(std::string(1000, 'x')).size() == 64);
}

TEST_CASE("a system call is its number and six arguments") {
    CHECK(
        parse_system_call(call_text(SYS_read, "0x3 0x7ff0 0x40 0x0 0x0 0x9")) ==
        SystemCall{SYS_read, {3, 0x7ff0, 0x40, 0, 0, 9}});
    CHECK_FALSE(parse_system_call("running\n"));
    CHECK_FALSE(parse_system_call("-1 0x7ffc 0x7f11\n"));
    CHECK_FALSE(parse_system_call("0 0x3 0x7ff0"));
    CHECK_FALSE(parse_system_call("0 3 4 5 6 7 8"));
    CHECK_FALSE(parse_system_call(""));
}

TEST_CASE("a system call is about a descriptor, a path, the first of a poll, or nothing") {
    CHECK(name_of({SYS_read, {}}) == "read(2)");
    CHECK(subject_of({SYS_read, {7, 1, 2, 3, 4, 5}}) == CallSubject{SubjectKind::descriptor, 7});
    CHECK(
        subject_of({SYS_openat, {7, 0x1000, 2, 3, 4, 5}}) ==
        CallSubject{SubjectKind::path, 0x1000});
    CHECK(
        subject_of({SYS_ppoll, {0x2000, 1, 0, 0, 0, 0}}) ==
        CallSubject{SubjectKind::descriptors, 0x2000});
    CHECK(subject_of({SYS_futex, {7}}) == CallSubject{});
    CHECK(name_of({9999, {}}) == "system call 9999");
    CHECK(subject_of({9999, {7}}) == CallSubject{});
}

TEST_CASE("a variable is found by its whole name") {
    const std::string environment("MASTER_PORT_OLD=1\0MASTER_PORT=29500\0PATH=/bin\0", 45);
    CHECK(variable_in(environment, "MASTER_PORT") == "29500");
    CHECK(variable_in(environment, "PORT") == std::nullopt);
    CHECK(variable_in("", "PORT") == std::nullopt);
}
