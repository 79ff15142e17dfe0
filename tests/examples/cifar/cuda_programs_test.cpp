// SPDX-License-Identifier: Apache-2.0
// The whole job, small, over GPUs that are not there: the fake driver, the fake NCCL, the fake
// cuDNN, and the real kernels run on the CPU.
#include "tests/examples/run_program.hpp"
#include "tests/examples/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

namespace {

/// Of this process and those it starts, while it lives.
class Variables {
public:
    explicit Variables(const std::map<std::string, std::string>& wanted) {
        for (const auto& [name, value] : wanted) {
            const char* before = ::getenv(name.c_str());
            before_[name] = before ? std::optional<std::string>{before} : std::nullopt;
            ::setenv(name.c_str(), value.c_str(), 1);
        }
    }
    Variables(const Variables&) = delete;
    Variables& operator=(const Variables&) = delete;
    ~Variables() {
        for (const auto& [name, value] : before_)
            if (value)
                ::setenv(name.c_str(), value->c_str(), 1);
            else
                ::unsetenv(name.c_str());
    }

private:
    std::map<std::string, std::optional<std::string>> before_;
};

/// A folder with pictures in it, and GPUs.
struct Machine {
    explicit Machine(const std::string& counts)
        : variables(
              {{"LD_LIBRARY_PATH", DDPRUN_FAKE_GPU},
               {"FAKE_GPU_KERNELS", DDPRUN_CIFAR_KERNELS ":" DDPRUN_NCCL_KERNELS},
               {"FAKE_GPU_FOLDER", folder.path}}) {
        REQUIRE(run("make_images", "--out " + folder.in("images") + " " + counts).exit_code == 0);
    }

    Outcome train(const std::string& options) const { return run("train_cifar", command(options)); }

    Outcome launch(int workers, const std::string& options, const std::string& wrapper = "") const {
        return run(
            "ddprun",
            "--standalone --nproc-per-node=" + std::to_string(workers) +
                " --max-restarts=1 --no-python " + wrapper + " '" DDPRUN_BIN_DIR "/train_cifar' " +
                command(options));
    }

    std::string command(const std::string& options) const {
        return "--data " + folder.in("images") + " --width 8 " + options;
    }

    TemporaryFolder folder;
    Variables variables;
};

double loss_of_first_epoch(const std::string& output) {
    const std::string before = "epoch 1/2 loss ";
    const auto at = output.find(before);
    REQUIRE(at != std::string::npos);
    return std::stod(output.substr(at + before.size()));
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

TEST_CASE("workers whose batch norm is over all of them train like one with the joint batch") {
    const Machine machine{"--train 40 --test 9"};
    const auto alone = machine.train("--epochs 2 --lr 0.05 --batch-size 20");
    const auto together = machine.launch(2, "--epochs 2 --lr 0.05 --batch-size 10 --sync-bn");
    CAPTURE(alone.output);
    CAPTURE(together.output);
    CHECK(alone.exit_code == 0);
    CHECK(together.exit_code == 0);
    CHECK(matches(together.output, "^rank 1 of 2: 20 samples, Fake GPU$"));
    CHECK(matches(
        together.output,
        "^epoch 2/2 loss [0-9.]+ accuracy [0-9.]+ % [0-9]+ images/s [0-9.]+ GB of the GPU's "
        "memory$"));
    CHECK(matches(together.output, "^test accuracy [0-9.]+ %$"));
    CHECK(
        loss_of_first_epoch(together.output) ==
        doctest::Approx(loss_of_first_epoch(alone.output)).epsilon(0.01));
}

TEST_CASE("a job on GPUs that lost a worker ends with the bits of an undisturbed one") {
    const Machine machine{"--train 60 --test 10"};
    const auto script = machine.folder.in("killed_once");
    std::ofstream{script} << killed_once;
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    const auto options = [&](const std::string& saved) {
        return "--epochs 2 --lr 0.05 --batch-size 10 --checkpoint-every 1 --checkpoint-dir " +
               machine.folder.in(saved);
    };

    const auto undisturbed = machine.launch(2, options("undisturbed"));
    const auto disturbed =
        machine.launch(2, options("disturbed"), script + " " + machine.folder.in("disturbed"));
    CAPTURE(undisturbed.output);
    CAPTURE(disturbed.output);
    CHECK(undisturbed.exit_code == 0);
    CHECK(disturbed.exit_code == 0);
    CHECK(matches(disturbed.output, "^resumed from step [0-9]+ of round 0: "));
    const auto compared =
        run("compare_checkpoints",
            machine.folder.in("undisturbed") + " " + machine.folder.in("disturbed"));
    CAPTURE(compared.output);
    CHECK(compared.exit_code == 0);

    const auto other_seed =
        machine.train("--seed 2 --checkpoint-dir " + machine.folder.in("disturbed"));
    CAPTURE(other_seed.output);
    CHECK(other_seed.exit_code == 2);
    CHECK(matches(other_seed.output, "was written with --seed 1, this run has --seed 2"));

    // One worker takes over what two have begun.
    const auto alone = machine.train(
        "--epochs 3 --lr 0.05 --batch-size 20 --checkpoint-dir " + machine.folder.in("disturbed"));
    CAPTURE(alone.output);
    CHECK(alone.exit_code == 0);
    CHECK(matches(alone.output, "^resumed from step 6 of round "));
    CHECK(matches(alone.output, "^epoch 3/3 loss "));
}

TEST_CASE("a run on GPUs whose loss is no number any more saves nothing, and says so") {
    const Machine machine{"--train 40 --test 1"};
    const auto saved = machine.folder.in("saved");
    const auto diverged =
        machine.train("--epochs 1 --lr 1e38 --batch-size 10 --checkpoint-dir " + saved);
    CAPTURE(diverged.output);
    CHECK(diverged.exit_code == 2);
    CHECK(matches(diverged.output, "training has diverged: at step 4 the loss is no finite"));
    CHECK((!std::filesystem::exists(saved) || std::filesystem::is_empty(saved)));
}

TEST_CASE("train_cifar names the library or the GPU that is missing in one line") {
    const Machine machine{"--train 5 --test 1"};
    {
        const Variables none{{{"FAKE_GPU_COUNT", "0"}}};
        const auto outcome = machine.train("");
        CAPTURE(outcome.output);
        CHECK(outcome.exit_code == 2);
        CHECK(matches(outcome.output, "^train_cifar: .*(no CUDA-capable device|no GPU)"));
    }
    const Variables elsewhere{{{"DDPRUN_CUDNN", "/nowhere/libcudnn.so"}}};
    const auto outcome = machine.train("");
    CAPTURE(outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(matches(outcome.output, "^train_cifar: DDPRUN_CUDNN: /nowhere/libcudnn.so: "));
}

TEST_CASE("train_cifar refuses data that it cannot use, and leaves with 2") {
    const Machine machine{"--train 5 --test 1"};
    std::filesystem::resize_file(machine.folder.in("images/data_batch_3.bin"), 3000);
    const auto outcome = machine.train("");
    CAPTURE(outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(matches(outcome.output, "data_batch_3.bin: is cut short"));
}
