// SPDX-License-Identifier: Apache-2.0
// What ddprun does about errors of GPUs in the kernel's log. The log is a FIFO, and the driver's
// files and devices are plain ones, in mounts that only the program under test has.
#include "agent/process/descendants.hpp"
#include "agent/process/proc_files.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/mount_namespace.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

namespace fs = std::filesystem;

/// Of each one: a read of a FIFO may take several, and would cut those of other lengths.
constexpr std::size_t record_bytes = 256;

const std::string first_gpu = "0000:3b:00";
const std::string second_gpu = "0000:5e:00";

/// A machine with two GPUs, for programs that are started by `run`. Nothing is mounted outside of
/// their own namespaces, and nothing is removed inside.
class Machine {
public:
    explicit Machine(bool has_kernel_log = true) {
        fs::create_directories(dir_ / "dev");
        add_gpu(first_gpu, 0);
        add_gpu(second_gpu, 1);
        const auto fifo = (dir_ / "kmsg").string();
        REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
        // Both ends: a reader never reads the end of it, and a write waits for no reader.
        log_ = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
        REQUIRE(log_ >= 0);
        setup_ = dir_.write_script(
            "setup",
            "#!/bin/sh\nset -e\nmount --make-rprivate /\ncd " + dir_.path().string() +
                "\nmount -t tmpfs none dev\n"
                "for each in null zero full random urandom; do touch dev/$each; mount --bind "
                "/dev/$each dev/$each; done\n"
                "mkdir dev/shm\nln -s /proc/self/fd dev/fd\ntouch dev/nvidia0 dev/nvidia1\n" +
                (has_kernel_log ? "touch dev/kmsg\nmount --bind kmsg dev/kmsg\n" : "") +
                "mount --rbind dev /dev\nmount --bind driver /proc/driver\ncd /\nexec \"$@\"\n");
    }
    ~Machine() { ::close(log_); }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    static std::string why_not() {
        if (!fs::exists("/proc/driver")) return "the kernel has no /proc/driver";
        return why_no_mount_namespace();
    }

    const TempDir& dir() const { return dir_; }
    Running run(const Words& options, const std::string& worker) const {
        const auto script = dir_.write_script("train", "#!/bin/sh\n" + worker + "\n");
        return Running{
            "unshare",
            Words{
                "--mount", "--propagation", "private", setup_, program("ddprun"), "--standalone"} +
                options + Words{"--no-python", script}};
    }
    void write_line(const std::string& message) {
        const auto begin = "4," + std::to_string(++sequence_) + ",99,-,caller=";
        const auto end = ";" + message + "\n";
        REQUIRE(begin.size() + end.size() <= record_bytes);
        const auto record =
            begin + std::string(record_bytes - begin.size() - end.size(), '0') + end;
        REQUIRE(::write(log_, record.data(), record.size()) == static_cast<ssize_t>(record.size()));
    }
    void write_xid(const std::string& gpu, const std::string& rest) {
        write_line("NVRM: Xid (PCI:" + gpu + "): " + rest);
    }

private:
    void add_gpu(const std::string& address, int minor) const {
        const auto folder = dir_ / "driver" / "nvidia" / "gpus" / (address + ".0");
        fs::create_directories(folder);
        dir_.write(
            (folder / "information").lexically_relative(dir_.path()).string(),
            "Model: \t\t NVIDIA A100-SXM4-40GB\nBus Location: \t " + address +
                ".0\nDevice Minor: \t " + std::to_string(minor) + "\n");
    }

    TempDir dir_;
    int log_ = -1;
    int sequence_ = 0;
    std::string setup_;
};

/// Each rank has the device of its number open; in a later round all end.
const std::string with_devices =
    "test $TORCHELASTIC_RESTART_COUNT = 0 || exit 0\n"
    "exec 9</dev/nvidia$RANK\necho ready $RANK\nexec tail -f /dev/null";

void wait_until_ready(Running& job, int count) {
    for (int i = 0; i < count; ++i)
        job.wait_for_line("ready");
}

/// One is the post mortem's, where it may read the kernel's log.
long kernel_logs_open_in(int pid) {
    long count = 0;
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
        std::error_code gone;
        count += contains(fs::read_symlink(entry.path(), gone).string(), "kmsg") ? 1 : 0;
    }
    return count;
}

}  // namespace

TEST_CASE("a node whose GPU has fallen off the bus leaves with 89, and says which") {
    if (const auto reason = Machine::why_not(); !reason.empty()) return skip(reason);
    Machine machine;
    auto job = machine.run({"--nproc-per-node=2", "--max-restarts=3"}, with_devices);
    wait_until_ready(job, 2);
    machine.write_xid(
        second_gpu, "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
    CHECK(job.wait_for_code(std::chrono::seconds{90}) == 89);
    CHECK(contains(
        job.err(), "is unfit: GPU " + second_gpu + ", Xid 79: GPU has fallen off the bus."));
    CHECK(no_descendants_left());
}

TEST_CASE("a worker whose GPU has an error starts again, and the check has the reason xid") {
    if (const auto reason = Machine::why_not(); !reason.empty()) return skip(reason);
    Machine machine;
    const auto reasons = (machine.dir() / "reasons").string();
    auto job = machine.run(
        {"--nproc-per-node=2",
         "--max-restarts=1",
         "--health-check=echo $DDPRUN_HEALTH_REASON >>" + reasons},
        with_devices);
    wait_until_ready(job, 2);
    machine.write_xid(second_gpu, "31, pid='<unknown>', name=<unknown>, MMU Fault");
    const int code = job.wait_for_code(std::chrono::seconds{90});
    CAPTURE(job.err());
    CHECK(code == 0);
    CHECK(contains(job.err(), "GPU " + second_gpu + ", Xid 31: MMU Fault"));
    CHECK(read_file(reasons) == "start\nxid\n");
    CHECK(no_descendants_left());
}

TEST_CASE("the report of a worker that ends after the error of its GPU has both") {
    if (const auto reason = Machine::why_not(); !reason.empty()) return skip(reason);
    Machine machine;
    const auto go = (machine.dir() / "go").string();
    REQUIRE(::mkfifo(go.c_str(), 0600) == 0);
    auto job = machine.run(
        {"--nproc-per-node=1"}, "exec 9</dev/nvidia0\necho ready\nread line <" + go + "\nexit 7");
    wait_until_ready(job, 1);
    machine.write_xid(first_gpu, "43, pid='<unknown>', name=<unknown>, Ch 00000008");
    job.wait_for_line("gpu.failed");
    const int end = ::open(go.c_str(), O_WRONLY | O_CLOEXEC);
    ::close(end);
    CHECK(job.wait_for_code(std::chrono::seconds{90}) == 7);
    CHECK(contains(job.err(), "exited with code 7"));
    CHECK(contains(job.err(), "the kernel reports an error of its GPU"));
    CHECK(contains(job.err(), "Xid 43: Ch 00000008"));
}

TEST_CASE("errors of GPUs that no worker of this node uses change nothing") {
    if (const auto reason = Machine::why_not(); !reason.empty()) return skip(reason);
    Machine machine;
    const auto go = (machine.dir() / "go").string();
    REQUIRE(::mkfifo(go.c_str(), 0600) == 0);
    auto job = machine.run(
        {"--nproc-per-node=1"}, "exec 9</dev/nvidia0\necho ready\nread line <" + go + "\nexit 0");
    wait_until_ready(job, 1);
    machine.write_xid(
        second_gpu, "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
    job.wait_for_line("gpu.failed.*Xid 79.*no worker here uses this GPU");
    machine.write_xid("0000:99:00", "31, pid='<unknown>', name=<unknown>, MMU Fault");
    job.wait_for_line("gpu.failed.*0000:99:00.*no worker here uses this GPU");
    const int end = ::open(go.c_str(), O_WRONLY | O_CLOEXEC);
    ::close(end);
    CHECK(job.wait_for_code(std::chrono::seconds{90}) == 0);
}

TEST_CASE("a GPU that only a descendant of a worker has open is the worker's") {
    if (const auto reason = Machine::why_not(); !reason.empty()) return skip(reason);
    Machine machine;
    auto job = machine.run(
        {"--nproc-per-node=1"},
        "(exec 9</dev/nvidia0; echo ready; exec tail -f /dev/null) &\nwait");
    wait_until_ready(job, 1);
    machine.write_xid(first_gpu, "79, GPU has fallen off the bus.");
    CHECK(job.wait_for_code(std::chrono::seconds{90}) == 89);
    CHECK(no_descendants_left());
}

TEST_CASE("a worker that the driver names is blamed, though its device is not open any more") {
    if (const auto reason = Machine::why_not(); !reason.empty()) return skip(reason);
    if (!has_machine_pids()) return skip_even_as_root("the kernel has other process numbers");
    Machine machine;
    auto job = machine.run({"--nproc-per-node=1"}, "echo pid $$\nexec tail -f /dev/null");
    const int pid = job.wait_for_number("pid ");
    machine.write_xid(first_gpu, "79, pid=1, name=other, GPU has fallen off the bus.");
    job.wait_for_line("gpu.failed.*no worker here uses this GPU");
    machine.write_xid(
        second_gpu, "119, pid=" + std::to_string(pid) + ", name=python, Timeout after 6s");
    CHECK(job.wait_for_code(std::chrono::seconds{90}) == 89);
    CHECK(contains(job.err(), "Xid 119: Timeout after 6s"));
}

TEST_CASE("a flood of other lines delays an error of a GPU, and hides none") {
    if (const auto reason = Machine::why_not(); !reason.empty()) return skip(reason);
    Machine machine;
    auto job = machine.run({"--nproc-per-node=1"}, with_devices);
    wait_until_ready(job, 1);
    for (int i = 0; i < 2500; ++i)
        machine.write_line("usb 1-1: reset");
    machine.write_xid(first_gpu, "95, Uncontained: LTC TAG");
    CHECK(job.wait_for_code(std::chrono::seconds{90}) == 89);
    CHECK(contains(job.err(), "Xid 95: Uncontained: LTC TAG"));
}

TEST_CASE("where the kernel's log cannot be read a job runs, and --explain shows why") {
    if (const auto reason = Machine::why_not(); !reason.empty()) return skip(reason);
    Machine machine(false);
    auto job = machine.run({"--nproc-per-node=1"}, "exit 0");
    CHECK(job.wait_for_code(std::chrono::seconds{90}) == 0);
    auto explained = machine.run({"--explain"}, "exit 0");
    CHECK(explained.wait_for_code() == 0);
    CHECK(contains(explained.out(), "errors of GPUs"));
    CHECK(contains(explained.out(), "/dev/kmsg"));
}

TEST_CASE("the kernel's log is followed where there is a driver, and not with --xid=ignore") {
    if (const auto reason = Machine::why_not(); !reason.empty()) return skip(reason);
    Machine machine;
    auto following = machine.run({"--nproc-per-node=1"}, with_devices);
    wait_until_ready(following, 1);
    const auto with = kernel_logs_open_in(agent_of(following));
    following.signal(SIGTERM);
    CHECK(following.wait_for_code() == 143);

    auto ignoring = machine.run({"--nproc-per-node=1", "--xid=ignore"}, with_devices);
    wait_until_ready(ignoring, 1);
    CHECK(with == kernel_logs_open_in(agent_of(ignoring)) + 1);
    machine.write_xid(first_gpu, "79, GPU has fallen off the bus.");
    ignoring.signal(SIGTERM);
    CHECK(ignoring.wait_for_code() == 143);
    CHECK_FALSE(contains(ignoring.err(), "Xid"));
}

TEST_CASE("without an NVIDIA driver the kernel's log is not followed") {
    if (fs::exists("/proc/driver/nvidia")) return skip_even_as_root("this machine has the driver");
    const TempDir dir;
    const auto logs_open_with = [&](const std::string& choice) {
        auto job = one_node(
            dir, {"--nproc-per-node=1", "--xid=" + choice}, "echo ready\nexec tail -f /dev/null");
        wait_until_ready(job, 1);
        const auto count = kernel_logs_open_in(agent_of(job));
        job.signal(SIGTERM);
        CHECK(job.wait_for_code(std::chrono::seconds{90}) == 143);
        return count;
    };
    CHECK(logs_open_with("auto") == logs_open_with("ignore"));
}
