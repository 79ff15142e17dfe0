// SPDX-License-Identifier: Apache-2.0
// The CIFAR example's programs as a user runs them.
#include "examples/cifar/image_file.hpp"
#include "examples/cifar/picture_painter.hpp"
#include "tests/examples/run_program.hpp"
#include "tests/examples/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

TEST_CASE("make_images writes what the reader reads") {
    const TemporaryFolder folder;
    const auto made =
        run("make_images", "--out " + folder.in("images") + " --train 11 --test 3 --seed 5");
    CAPTURE(made.output);
    CHECK(made.exit_code == 0);
    CHECK(
        last_line(made.output).find("11 pictures to train on, 3 to test with") !=
        std::string::npos);

    using cifar::Split;
    const auto train = cifar::read_dataset(folder.in("images"), Split::train);
    CHECK(train.pixels == cifar::paint_pictures(11, Split::train, 5).pixels);
    CHECK(cifar::read_dataset(folder.in("images"), Split::test).size() == 3);
}

TEST_CASE("make_images says what it cannot do, and leaves with 2") {
    CHECK(run("make_images", "").exit_code == 2);
    CHECK(run("make_images", "--out x --train 0").exit_code == 2);
    const auto nowhere = run("make_images", "--out /proc/nowhere --train 5 --test 1");
    CAPTURE(nowhere.output);
    CHECK(nowhere.exit_code == 2);
    CHECK(matches(nowhere.output, "^make_images: cannot make the folder /proc/nowhere: "));
}

TEST_CASE("train_cifar refuses options that make no sense") {
    CHECK(run("train_cifar", "").exit_code == 2);
    CHECK(run("train_cifar", "--data x --width 48").exit_code == 2);
    CHECK(run("train_cifar", "--data x --lr nan").exit_code == 2);
    CHECK(run("train_cifar", "--help").exit_code == 0);
}

TEST_CASE("train_cifar names what is missing on a machine without a GPU in one line") {
    if (std::filesystem::exists("/dev/nvidiactl")) return;  // this machine may have a GPU
    const auto outcome = run("train_cifar", "--data images");
    CAPTURE(outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(matches(outcome.output, "^train_cifar: .*(libcifar_cuda|CUDA driver)"));
}
