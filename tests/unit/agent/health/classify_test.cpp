// SPDX-License-Identifier: Apache-2.0
#include "agent/health/classify.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::health;
using namespace std::chrono_literals;
using control::Activity;

namespace {

constexpr int pid = 4711;
const std::string torch_folder = "/opt/venv/lib/python3.12/site-packages/torch/";
const std::string standard_folder = "/usr/lib/python3.12/";

PythonFrame trainer(int line) {
    return {"<module>", "/home/me/train.py", line};
}

/// A worker with one Python thread, asleep in a system call.
Sample worker(std::vector<PythonFrame> frames, std::uint64_t instruction = 100) {
    Sample sample;
    sample.pid = pid;
    sample.state = 'S';
    sample.cpu_time = 10s;
    sample.io_bytes = 5'000'000;
    sample.system_call = "futex(2)";
    sample.threads = {{pid, std::move(frames), instruction}};
    return sample;
}

Sample reading() {
    auto sample = worker({{"read_batch", "/home/me/loader.py", 112}, trainer(57)});
    sample.system_call = "read(2)";
    sample.system_call_object = "/data/shard-17";
    return sample;
}

Sample in_all_reduce() {
    return worker(
        {{"all_reduce", torch_folder + "distributed/distributed_c10d.py", 3010},
         {"wrapper", torch_folder + "distributed/c10d_logger.py", 81},
         trainer(57)});
}

Sample in_backward() {
    return worker(
        {{"_engine_run_backward", torch_folder + "autograd/graph.py", 824},
         {"backward", torch_folder + "autograd/__init__.py", 347},
         {"Tensor.backward", torch_folder + "_tensor.py", 626},
         trainer(61)});
}

Sample at_rendezvous() {
    return worker(
        {{"_create_c10d_store", torch_folder + "distributed/rendezvous.py", 189}, trainer(5)});
}

/// The same process at a later time, with changes.
template <class Change>
Sample later(Sample sample, Change change) {
    change(sample);
    return sample;
}

Sample on_the_processor(const Sample& sample) {
    return later(sample, [](Sample& each) {
        each.cpu_time += 900ms;
        each.state = 'R';
        each.system_call.clear();
    });
}

Site site_of(const Sample& before, const Sample& after) {
    return classify(before, after, 1s);
}

/// The site when nothing has changed.
Site site_of(const Sample& sample) {
    return site_of(sample, sample);
}

Activity activity_of(const Sample& before, const Sample& after) {
    return site_of(before, after).activity;
}

}  // namespace

TEST_CASE("a rank that reads is blocked in its function, and the kernel's words are shown") {
    auto sample = reading();
    sample.wait_channel = "nfs_wait_bit_killable";

    CHECK(
        site_of(sample) == Site{
                               Activity::blocked,
                               "read_batch (loader.py:112)",
                               "thread 4711: read(2) on /data/shard-17, state S "
                               "(nfs_wait_bit_killable)"});
}

TEST_CASE("a call of the standard library is named with the line that called it") {
    const auto sample = worker(
        {{"Condition.wait", standard_folder + "threading.py", 355},
         {"Queue.get", standard_folder + "queue.py", 171},
         {"next_batch", "/home/me/loader.py", 40},
         trainer(57)});

    CHECK(site_of(sample).site == "Condition.wait, called at loader.py:40");
    CHECK(site_of(sample).activity == Activity::blocked);
}

TEST_CASE("code that goes on moves, also while it waits a lot") {
    auto after = in_all_reduce();
    after.threads[0].instruction = 101;

    CHECK(activity_of(in_all_reduce(), after) == Activity::moving);
}

TEST_CASE("a collective waits for peers, idle or spinning") {
    CHECK(
        site_of(in_all_reduce()) == Site{
                                        Activity::waits_for_peers,
                                        "all_reduce, called at train.py:57",
                                        "thread 4711: futex(2), state S"});
    CHECK(
        activity_of(in_all_reduce(), on_the_processor(in_all_reduce())) ==
        Activity::waits_for_peers);
}

TEST_CASE("backward waits for peers when it is idle, and is work when not") {
    CHECK(site_of(in_backward()).site == "backward, called at train.py:61");
    CHECK(site_of(in_backward()).activity == Activity::waits_for_peers);
    CHECK(activity_of(in_backward(), on_the_processor(in_backward())) == Activity::busy);
}

TEST_CASE("a collective's work is waited for in the script's own function") {
    auto sample = worker({{"step", "/home/me/train.py", 33}, trainer(57)});
    sample.threads[0].calls_wait = true;
    CHECK(site_of(sample).activity == Activity::waits_for_peers);
    CHECK(site_of(sample).site == "wait (train.py:33)");
    CHECK(activity_of(sample, on_the_processor(sample)) == Activity::busy);

    // Neither a sleep nor the standard library's own locks count.
    const auto asleep = later(sample, [](Sample& each) { each.system_call = "read(2)"; });
    CHECK(site_of(asleep).activity == Activity::blocked);
    CHECK(site_of(asleep).site == "step (train.py:33)");
    const auto locked = later(sample, [](Sample& each) {
        each.threads[0].frames.insert(
            each.threads[0].frames.begin(),
            {"Condition.wait", standard_folder + "threading.py", 355});
    });
    CHECK(site_of(locked).activity == Activity::blocked);
}

TEST_CASE("an elastic function waits for new processes, and is where its script called it") {
    const std::string module = "/usr/share/ddprun/python/ddprun/_elastic.py";
    const auto sample = worker({{"_meet", module, 101}, {"_begin", module, 270}, trainer(57)});
    CHECK(activity_of(sample, on_the_processor(sample)) == Activity::waits_for_peers);
    CHECK(site_of(sample).site == "elastic, called at train.py:57");
}

TEST_CASE("pickling for a collective is this rank's own work") {
    const auto sample = worker(
        {{"_object_to_tensor", torch_folder + "distributed/distributed_c10d.py", 2400},
         trainer(57)});

    CHECK(activity_of(sample, on_the_processor(sample)) == Activity::busy);
}

TEST_CASE("a library between PyTorch and the script is not where it was called") {
    const auto sample = worker(
        {{"barrier", torch_folder + "distributed/distributed_c10d.py", 4100},
         {"Strategy.barrier", "/opt/venv/lib/python3.12/site-packages/lightning/ddp.py", 33},
         trainer(70)});

    CHECK(site_of(sample).site == "barrier, called at train.py:70");
}

TEST_CASE("a program that is a library is named by its own file") {
    const auto sample = worker(
        {{"barrier", torch_folder + "distributed/distributed_c10d.py", 4100},
         {"main", "/opt/venv/lib/python3.12/site-packages/axolotl/train.py", 33},
         {"_run_code", "<frozen runpy>", 88}});

    CHECK(site_of(sample).site == "barrier, called at train.py:33");
}

TEST_CASE("a key of the store is waited for at its connection, whatever the code") {
    auto sample = worker({trainer(12)});
    sample.system_call = "recvfrom(2)";
    sample.system_call_object = "socket to 10.0.0.1:29500";
    sample.is_at_store = true;
    sample.is_store_connected = true;

    CHECK(
        site_of(sample) == Site{
                               Activity::waits_for_store,
                               "<module> (train.py:12)",
                               "thread 4711: recvfrom(2) on socket to 10.0.0.1:29500, state S"});
}

TEST_CASE("the rendezvous waits for keys when it is connected, and connects when it is not") {
    auto sample = at_rendezvous();
    sample.is_store_connected = true;
    CHECK(site_of(sample).activity == Activity::waits_for_store);
    CHECK(site_of(sample).site == "_create_c10d_store, called at train.py:5");

    sample.is_store_connected = false;
    CHECK(site_of(sample).activity == Activity::connects);

    sample.is_store_connected.reset();
    CHECK(site_of(sample).activity == Activity::waits_for_store);
}

TEST_CASE("an address that does not answer is named") {
    auto sample = at_rendezvous();
    sample.connecting_to = {"10.0.0.7:29500"};
    CHECK(site_of(sample).site == "_create_c10d_store, called at train.py:5, to 10.0.0.7:29500");
    CHECK(site_of(sample).activity == Activity::connects);

    const auto other = later(sample, [](Sample& each) { each.connecting_to = {"10.0.0.8:29500"}; });
    CHECK(site_of(sample, other).activity == Activity::waits_for_store);
}

TEST_CASE("a background thread that connects is nothing while the process works") {
    auto before = worker({trainer(12)});
    before.connecting_to = {"10.0.0.7:443"};
    const auto after = later(before, [](Sample& each) { each.threads[0].instruction = 7; });

    CHECK(activity_of(before, after) == Activity::moving);
}

TEST_CASE("a process in one place that uses the processor or the disk is busy") {
    const auto before = reading();
    CHECK(activity_of(before, on_the_processor(before)) == Activity::busy);

    const auto written = later(before, [](Sample& each) { each.io_bytes += 2'000'000; });
    CHECK(activity_of(before, written) == Activity::busy);

    const auto hardly = later(before, [](Sample& each) {
        each.cpu_time += 20ms;
        each.io_bytes += 500'000;
    });
    CHECK(activity_of(before, hardly) == Activity::blocked);

    // When a loader ends, its counters vanish.
    const auto less = later(before, [](Sample& each) { each.io_bytes = 0; });
    CHECK(activity_of(before, less) == Activity::blocked);
}

TEST_CASE("stopped and uninterruptible are states of both samples") {
    const auto in_state = [](char state) {
        return later(reading(), [&](Sample& each) { each.state = state; });
    };
    CHECK(activity_of(in_state('T'), in_state('T')) == Activity::stopped);
    CHECK(activity_of(in_state('S'), in_state('T')) == Activity::blocked);
    CHECK(activity_of(in_state('D'), in_state('D')) == Activity::in_kernel);
    CHECK(activity_of(in_state('D'), in_state('S')) == Activity::blocked);
    // A slow disk counts as used.
    const auto written = later(in_state('D'), [](Sample& each) { each.io_bytes += 9'000'000; });
    CHECK(activity_of(in_state('D'), written) == Activity::busy);
    CHECK(site_of(in_state('T')).site == "read_batch (loader.py:112)");
}

TEST_CASE("a process that flushes a file to the disk is busy") {
    const auto flushing = later(reading(), [](Sample& each) {
        each.state = 'D';
        each.system_call = "fsync(2)";
    });
    CHECK(activity_of(flushing, flushing) == Activity::busy);
}

TEST_CASE("a loop that is seen at one call has run in between") {
    const auto ran = [](Duration length) {
        auto sample = reading();
        sample.threads[0].run_time = length;
        return sample;
    };
    CHECK(activity_of(ran(1s), ran(1s)) == Activity::blocked);
    CHECK(activity_of(ran(1s), ran(1s + 50ms)) == Activity::moving);
}

TEST_CASE("a debugger is one that is attached, and one at its prompt") {
    const auto traced = later(reading(), [](Sample& each) { each.is_traced = true; });
    CHECK(site_of(traced).activity == Activity::traced);
    CHECK(site_of(later(reading(), [](Sample& each) {
              each.state = 't';
          })).activity == Activity::traced);

    const auto at_prompt = worker(
        {{"Cmd.cmdloop", standard_folder + "cmd.py", 126},
         {"Pdb._cmdloop", standard_folder + "pdb.py", 364},
         {"Pdb.interaction", standard_folder + "pdb.py", 419},
         trainer(31)});
    CHECK(site_of(at_prompt).activity == Activity::traced);
    CHECK(site_of(at_prompt).site == "debugger's prompt, called at train.py:31");
}

TEST_CASE("where the main thread only waits for another one, that one counts") {
    const PythonFrame joins{"Thread.join", standard_folder + "threading.py", 1119};
    auto before = worker({joins, trainer(80)});
    before.threads.push_back({99, {{"watch", "/home/me/watch.py", 9}}, 5});
    before.threads.push_back({100, {{"loop", "/home/me/train.py", 20}}, 5});

    CHECK(site_of(before).site == "watch (watch.py:9)");

    const auto after = later(before, [](Sample& each) { each.threads[2].instruction = 6; });
    CHECK(site_of(before, after).activity == Activity::moving);
    CHECK(site_of(before, after).site == "loop (train.py:20)");
}

TEST_CASE("a program without Python is known by its system call") {
    Sample sample;
    sample.pid = pid;
    sample.state = 'S';
    sample.system_call = "epoll_wait(2)";
    CHECK(
        site_of(sample) ==
        Site{Activity::blocked, "epoll_wait(2)", "thread 4711: epoll_wait(2), state S"});

    CHECK(
        site_of(sample, on_the_processor(sample)) ==
        Site{Activity::busy, "its own code", "thread 4711: state R"});

    sample.in_collective = true;
    CHECK(site_of(sample, on_the_processor(sample)).activity == Activity::waits_for_peers);
    CHECK(site_of(sample).site == "a collective call");
}

TEST_CASE("of a process that is gone nothing is known") {
    Sample gone;
    gone.pid = pid;
    CHECK(site_of(reading(), gone) == Site{});
    CHECK(activity_of(gone, reading()) == Activity::unknown);
    CHECK(activity_of(reading(), later(reading(), [](Sample& each) {
                          each.state = 'Z';
                      })) == Activity::unknown);
    CHECK(activity_of(reading(), later(reading(), [](Sample& each) {
                          each.pid = 5;
                      })) == Activity::unknown);
    CHECK(classify(Sample{}, Sample{}, {}) == Site{});
}

TEST_CASE("a site is bounded and printable, whatever a program names its functions") {
    const auto sample = worker({{"a\033[2J" + std::string(5000, 'x'), "/home/me/\n.py", 1}});

    const auto site = site_of(sample).site;
    CHECK(site.size() <= 204);
    CHECK(site.find('\033') == std::string::npos);
}
