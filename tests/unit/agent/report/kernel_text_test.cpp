// SPDX-License-Identifier: Apache-2.0
#include "agent/report/kernel_text.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::agent;

namespace {

const std::string unified_mount =
    "24 1 0:22 / / rw,relatime - ext4 /dev/sda1 rw\n"
    "31 24 0:27 / /sys/fs/cgroup rw,nosuid,nodev,noexec shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

const std::string old_mounts =
    "30 25 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n"
    "35 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:14 - cgroup cgroup rw,cpu,cpuacct\n"
    "36 30 0:31 / /sys/fs/cgroup/memory rw shared:15 - cgroup cgroup rw,memory\n";

const std::string old_cgroups =
    "12:cpu,cpuacct:/user.slice\n"
    "9:memory:/slurm/uid_1000/job_17/step_0\n"
    "1:name=systemd:/init.scope\n"
    "0::/init.scope\n";

}  // namespace

TEST_CASE("a machine with one hierarchy accounts memory where the process is") {
    CHECK(
        find_memory_cgroup("0::/user.slice/user-1000.slice/session-3.scope\n", unified_mount) ==
        MemoryCgroup{
            2, "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope", "/sys/fs/cgroup"});
}

TEST_CASE("a container that sees its own cgroup as the root finds it at the mount") {
    CHECK(
        find_memory_cgroup("0::/\n", unified_mount) ==
        MemoryCgroup{2, "/sys/fs/cgroup", "/sys/fs/cgroup"});
    CHECK(
        find_memory_cgroup("0::/../other\n", unified_mount) ==
        MemoryCgroup{2, "/sys/fs/cgroup", "/sys/fs/cgroup"});
}

TEST_CASE("a container with its part of the hierarchy mounted strips what lies above") {
    const std::string mounts =
        "520 517 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";

    CHECK(
        find_memory_cgroup("9:memory:/docker/abc\n", mounts) ==
        MemoryCgroup{1, "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory"});
    CHECK(
        find_memory_cgroup("9:memory:/docker/abc/sub\n", mounts) ==
        MemoryCgroup{1, "/sys/fs/cgroup/memory/sub", "/sys/fs/cgroup/memory"});
    // The cgroup is not below the mounted one, so only the mount is visible.
    CHECK(
        find_memory_cgroup("9:memory:/docker/abcdef\n", mounts) ==
        MemoryCgroup{1, "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory"});
}

TEST_CASE("where memory has a hierarchy of its own, that one counts") {
    CHECK(
        find_memory_cgroup(old_cgroups, old_mounts) ==
        MemoryCgroup{
            1, "/sys/fs/cgroup/memory/slurm/uid_1000/job_17/step_0", "/sys/fs/cgroup/memory"});
}

TEST_CASE("no cgroups, or nonsense, is no answer") {
    CHECK_FALSE(find_memory_cgroup("", ""));
    CHECK_FALSE(find_memory_cgroup("0::/a\n", "24 1 0:22 / / rw - ext4 /dev/sda1 rw\n"));
    CHECK_FALSE(find_memory_cgroup("nonsense\n:\n", "a b c\n- - -\n\n"));
    CHECK_FALSE(find_memory_cgroup(old_cgroups, "36 30 0:31 / /sys/fs/cgroup/memory rw -"));
}

TEST_CASE("kills for lack of memory are counted by both versions") {
    CHECK(oom_kill_count("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n") == 2);
    CHECK(oom_kill_count("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n") == 7);
    // The format before Linux 4.13.
    CHECK_FALSE(oom_kill_count("oom_kill_disable 0\nunder_oom 0\n"));
    CHECK_FALSE(oom_kill_count("oom_kill many\n"));
    CHECK_FALSE(oom_kill_count(""));
}

TEST_CASE("a memory limit is a number, or none in the words of either version") {
    CHECK(memory_limit("2147483648\n") == 2147483648);
    CHECK_FALSE(memory_limit("max\n"));
    CHECK_FALSE(memory_limit("9223372036854771712\n"));
    CHECK_FALSE(memory_limit("99999999999999999999\n"));
    CHECK_FALSE(memory_limit(""));
}

TEST_CASE("a record of the kernel's log is its first line behind the semicolon") {
    CHECK(kernel_message("6,1234,56789,-;Out of memory\n SUBSYSTEM=x\n") == "Out of memory");
    CHECK(kernel_message("no semicolon").empty());
    CHECK(kernel_message("6,1,2,-;").empty());
}

TEST_CASE("the kernel's lines about a kill name the process") {
    const auto* global =
        "Out of memory: Killed process 4242 (python3) total-vm:81234kB, anon-rss:71234kB";
    const auto* of_cgroup =
        "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:81234kB";
    const auto* event = "oom-kill:constraint=CONSTRAINT_MEMCG,task=python3,pid=4242,uid=0";
    for (const auto* line : {global, of_cgroup, event}) {
        CAPTURE(line);
        CHECK(is_oom_kill_of(line, 4242));
        CHECK_FALSE(is_oom_kill_of(line, 424));
        CHECK_FALSE(is_oom_kill_of(line, 42421));
    }
    CHECK_FALSE(is_oom_kill_of("Killed process 4242 (python3)", 4242));
}

TEST_CASE("the kernel's lines about a crash name the process, a driver's need not") {
    const auto* fault =
        "python3[4242]: segfault at 10 ip 7f sp 7f error 4 in libtorch_cpu.so[7f+1]";
    CHECK(is_about_crash(fault, 4242));
    CHECK_FALSE(is_about_crash(fault, 42));
    CHECK(is_about_crash("traps: train[7] general protection fault ip:5 sp:7 error:0 in train", 7));
    CHECK(is_about_crash("NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>", 1));
    CHECK_FALSE(is_about_crash("audit: pid=4242 [4242] did something", 4242));
}
