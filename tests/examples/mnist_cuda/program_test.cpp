// SPDX-License-Identifier: Apache-2.0
// train_mnist --device cuda as a user runs it, over a GPU and libraries that are not there.
#include "ddprun/checkpoint.hpp"
#include "examples/mnist/run_state.hpp"
#include "tests/examples/mnist_cuda/fake_gpu.hpp"
#include "tests/examples/run_program.hpp"
#include "tests/examples/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

/// A few digits, made once; from the first call on there are GPUs.
const std::string& digits() {
    static const TemporaryFolder folder;
    static const auto made = [] {
        use_fake_gpu();
        return run("make_digits", "--out " + folder.path + " --train 150 --test 40");
    }();
    REQUIRE(made.exit_code == 0);
    return folder.path;
}

std::string arguments(const std::string& saved, const std::string& more) {
    return "--data " + digits() + " --batch-size 16 --checkpoint-dir " + saved + " " + more;
}

/// Two workers of 75 samples: steps of 16, and one of 11.
Outcome train_on_two(
    const std::string& saved, const std::string& more, const std::string& wrapper = "") {
    const auto all = arguments(saved, more);
    return run(
        "ddprun",
        "--standalone --nproc-per-node=2 --max-restarts=1 --no-python " + wrapper +
            " '" DDPRUN_BIN_DIR "/train_mnist' " + all);
}

/// The values in each epoch's line, loss and percent, one after the other.
std::vector<double> curve(const std::string& output) {
    static const std::regex line{"epoch [0-9]+/[0-9]+ loss ([0-9.]+) accuracy ([0-9.]+) %"};
    std::vector<double> numbers;
    for (auto found = std::sregex_iterator{output.begin(), output.end(), line};
         found != std::sregex_iterator{};
         ++found) {
        numbers.push_back(std::stod((*found)[1]));
        numbers.push_back(std::stod((*found)[2]));
    }
    return numbers;
}

/// The largest difference of any value in both checkpoints, parameters and optimizer state.
double largest_difference(const std::string& a, const std::string& b) {
    const auto first = ddprun::CheckpointFolder{a}.newest();
    const auto second = ddprun::CheckpointFolder{b}.newest();
    REQUIRE((first && second));
    CHECK(first->checkpoint.step == second->checkpoint.step);
    CHECK(first->checkpoint.tensors.size() == second->checkpoint.tensors.size());
    double largest = 0;
    for (const auto& tensor : first->checkpoint.tensors) {
        const auto* mine = std::get_if<std::vector<float>>(&tensor.values);
        if (mine == nullptr) continue;
        std::vector<float> other(mine->size());
        second->checkpoint.copy_to(tensor.name, other.data(), other.size());
        for (std::size_t i = 0; i < other.size(); ++i)
            largest = std::max(largest, static_cast<double>(std::abs((*mine)[i] - other[i])));
    }
    return largest;
}

/// In the first round rank 1 dies as soon as rank 0 has saved something.
constexpr const char* killed_once = R"(#!/bin/sh
saved=$1; shift
[ "$RANK" = 1 ] && [ "$DDPRUN_ROUND" = 0 ] || exec "$@"
"$@" &
until ls "$saved"/checkpoint-*.ddp >/dev/null 2>&1; do sleep 0.01; done
kill -9 $!
kill -9 $$
)";

}  // namespace

TEST_CASE("two workers on GPUs learn what two on the CPU learn, step for step") {
    const TemporaryFolder folder;
    for (const std::string optimizer : {"sgd", "adam --lr 0.001"}) {
        const auto options = "--epochs 3 --optimizer " + optimizer;
        const auto name = optimizer.substr(0, 3);

        const auto cpu = train_on_two(folder.in("cpu" + name), options);
        const auto gpu = train_on_two(folder.in("gpu" + name), options + " --device cuda");

        CAPTURE(cpu.output);
        CAPTURE(gpu.output);
        REQUIRE(cpu.exit_code == 0);
        REQUIRE(gpu.exit_code == 0);
        const auto should = curve(cpu.output);
        const auto is = curve(gpu.output);
        REQUIRE(should.size() == 6);
        REQUIRE(is.size() == 6);
        for (std::size_t i = 0; i < is.size(); ++i)
            CHECK(is[i] == doctest::Approx(should[i]).epsilon(0.002));
        CHECK(largest_difference(folder.in("cpu" + name), folder.in("gpu" + name)) < 1e-4);
        CHECK(matches(
            gpu.output,
            R"(^epoch 3/3 .* samples/s, [0-9]+\.[0-9]{2} of [0-9]+\.[0-9]{2} GB GPU memory in use$)"));
        CHECK(matches(gpu.output, R"(^test accuracy [0-9.]+ %$)"));
    }
}

TEST_CASE("a worker that is killed on a GPU is a restart, and no bit is different at the end") {
    const TemporaryFolder folder;
    const auto script = folder.in("killed_once");
    std::ofstream{script} << killed_once;
    fs::permissions(script, fs::perms::owner_all);
    const std::string options = "--device cuda --epochs 3 --checkpoint-every 2";

    const auto undisturbed = train_on_two(folder.in("undisturbed"), options);
    const auto disturbed =
        train_on_two(folder.in("disturbed"), options, script + " " + folder.in("disturbed"));

    CAPTURE(undisturbed.output);
    CAPTURE(disturbed.output);
    CHECK(undisturbed.exit_code == 0);
    CHECK(disturbed.exit_code == 0);
    CHECK(matches(disturbed.output, "^resumed from step [0-9]+ of round 0: "));
    CHECK(
        run("compare_checkpoints", folder.in("undisturbed") + " " + folder.in("disturbed"))
            .exit_code == 0);
}

TEST_CASE("a run goes from the CPU to a GPU and back, in the middle of an epoch too") {
    const TemporaryFolder folder;
    const auto moved = folder.in("moved");
    const auto train = [&](const std::string& saved, const std::string& more) {
        const auto trained = run("train_mnist", arguments(saved, more));
        CAPTURE(trained.output);
        REQUIRE(trained.exit_code == 0);
        return trained.output;
    };

    train(folder.in("stayed"), "--epochs 3");
    // Step 8, in the first epoch of ten steps, waits for no earlier save, so it is the first to be
    // saved. It is dropped only when the writer wakes up after the end of the epoch.
    for (int tries = 0; !fs::exists(moved + "/checkpoint-0000000000-000000000008.ddp"); ++tries) {
        REQUIRE(tries < 50);
        fs::remove_all(moved);
        train(moved, "--epochs 1 --checkpoint-every 8");
    }
    fs::remove(moved + "/checkpoint-0000000000-000000000010.ddp");
    const auto to_gpu = train(moved, "--epochs 2 --device cuda");
    const auto to_cpu = train(moved, "--epochs 3");

    CHECK(matches(to_gpu, "^resumed from step 8 of round 0: "));
    CHECK(matches(to_cpu, "^resumed from step 20 of round 1: "));
    CHECK(largest_difference(folder.in("stayed"), moved) < 1e-4);
}

TEST_CASE("a run on GPUs whose loss is no number any more saves nothing, and says so") {
    const TemporaryFolder folder;
    const auto saved = folder.in("saved");
    const auto diverged = run(
        "train_mnist", arguments(saved, "--device cuda --epochs 1 --lr 1e30 --checkpoint-every 4"));
    CAPTURE(diverged.output);
    CHECK(diverged.exit_code == 2);
    CHECK(matches(diverged.output, "training has diverged: at step 4 the loss is no finite"));
    CHECK((!fs::exists(saved) || fs::is_empty(saved)));
}

TEST_CASE("with TensorFloat-32 a GPU learns too") {
    const TemporaryFolder folder;
    const auto trained = run(
        "train_mnist", arguments(folder.in("saved"), "--device cuda --precision tf32 --epochs 1"));
    CAPTURE(trained.output);
    CHECK(trained.exit_code == 0);
    CHECK(curve(trained.output).size() == 2);
}

TEST_CASE("what is missing for a GPU is said in one line, with what to do, and exit code 2") {
    const TemporaryFolder folder;
    const auto alone = folder.in("train_mnist");
    fs::copy_file(DDPRUN_BIN_DIR "/train_mnist", alone);
    std::ofstream{folder.in("libcuda.so.1")} << "no library";
    const std::string built = "'" DDPRUN_BIN_DIR "/train_mnist'";
    const auto options = " --device cuda --data " + digits();

    const auto no_part = run_command(alone + options);
    const auto no_driver = run_command("LD_LIBRARY_PATH=" + folder.path + " " + built + options);
    const auto no_blas = run_command("DDPRUN_CUBLASLT=/nonexistent " + built + options);
    const auto no_gpu = run_command("FAKE_GPU_COUNT=0 " + built + options);

    const auto is_said = [](const Outcome& outcome, const char* pattern) {
        CAPTURE(outcome.output);
        CHECK(outcome.exit_code == 2);
        CHECK(matches(last_line(outcome.output), pattern));
    };
    is_said(no_part, "^train_mnist: .*/libmnist_cuda.so is missing: .*cuda_deps.sh cublas");
    is_said(no_driver, "^train_mnist: a GPU needs the CUDA driver, .*: install NVIDIA's driver");
    is_said(no_blas, "^train_mnist: DDPRUN_CUBLASLT: /nonexistent: ");
    is_said(no_gpu, "^train_mnist: ");
}
