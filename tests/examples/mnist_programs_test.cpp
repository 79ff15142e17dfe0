// SPDX-License-Identifier: Apache-2.0
// The programs of examples/mnist, each alone, as a person would first try them.
#include "tests/examples/run_program.hpp"
#include "tests/examples/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator{folder})
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

/// A few digits, made once for all tests of this file.
const std::string& digits() {
    static const TemporaryFolder folder;
    static const auto made =
        run("make_digits", "--out " + folder.path + " --train 2000 --test 300");
    REQUIRE(made.exit_code == 0);
    return folder.path;
}

/// Trains from the start until at least two checkpoints remain. A writer that gets no processor
/// time during this short run drops all but the last.
Outcome train_anew(const std::string& saved, const std::string& more) {
    Outcome trained;
    for (int tries = 0; tries == 0 || names_in(saved).size() < 2; ++tries) {
        REQUIRE(tries < 50);
        fs::remove_all(saved);
        trained = run(
            "train_mnist",
            "--data " + digits() + " --checkpoint-every 10 --checkpoint-dir " + saved + " " + more);
        CAPTURE(trained.output);
        REQUIRE(trained.exit_code == 0);
    }
    return trained;
}

}  // namespace

TEST_CASE("train_mnist alone trains, saves, and says what the README says it does") {
    const TemporaryFolder folder;

    const auto trained = train_anew(folder.in("saved"), "--epochs 2");
    CAPTURE(trained.output);

    CHECK(matches(trained.output, "^rank 0 of 1: 2000 samples$"));
    CHECK(matches(
        trained.output,
        R"(^epoch 2/2 loss [0-9]+\.[0-9]{4} accuracy [0-9]+\.[0-9]{2} % [0-9]+ samples/s$)"));
    CHECK(matches(last_line(trained.output), R"(^test accuracy [0-9]+\.[0-9]{2} %$)"));
    // On a slow disk some checkpoints are dropped.
    const auto saved = names_in(folder.in("saved"));
    CHECK(saved.size() <= 3);
    CHECK(saved.back() == "checkpoint-0000000000-000000000064.ddp");
}

TEST_CASE("without a folder train_mnist paints what make_digits would write") {
    const auto trained = run("train_mnist", "--epochs 0");

    CAPTURE(trained.output);
    CHECK(trained.exit_code == 0);
    CHECK(matches(trained.output, "^no --data: digits are painted, as make_digits does$"));
    CHECK(matches(trained.output, "^rank 0 of 1: 60000 samples$"));
}

TEST_CASE("a run that is resumed, also in the middle of an epoch, ends with the same bits") {
    const TemporaryFolder folder;
    train_anew(folder.in("undisturbed"), "--epochs 3");
    train_anew(folder.in("resumed"), "--epochs 2");
    // The last checkpoint is damaged; the one before (of step 60, unless the disk was slow) is
    // within an epoch.
    const auto saved = names_in(folder.in("resumed"));
    const auto torn = folder.in("resumed") + "/" + saved.back();
    const auto before = std::stoi(saved[saved.size() - 2].substr(22));
    fs::resize_file(torn, fs::file_size(torn) / 2);

    const auto resumed =
        run("train_mnist",
            "--data " + digits() + " --checkpoint-every 10 --checkpoint-dir " +
                folder.in("resumed") + " --epochs 3");
    CAPTURE(resumed.output);

    CHECK(resumed.exit_code == 0);
    CHECK(matches(
        resumed.output, R"(^checkpoint passed over: .*000064\.ddp: the file is cut short$)"));
    CHECK(matches(
        resumed.output,
        ("^resumed from step " + std::to_string(before) + " of round 0: ").c_str()));
    CHECK(names_in(folder.in("resumed")).back() == "checkpoint-0000000001-000000000096.ddp");
    const auto compared =
        run("compare_checkpoints", folder.in("undisturbed") + " " + folder.in("resumed"));
    CAPTURE(compared.output);
    CHECK(compared.exit_code == 0);
    CHECK(last_line(compared.output) == "same parameters");

    const auto kept = names_in(folder.in("undisturbed"));
    const auto earlier = run(
        "compare_checkpoints",
        folder.in("undisturbed") + " " + folder.in("undisturbed") + "/" + kept[kept.size() - 2]);
    CAPTURE(earlier.output);
    CHECK(earlier.exit_code == 1);
    CHECK(matches(earlier.output, "^parameter hidden1.weight differs$"));
    CHECK(matches(last_line(earlier.output), "^largest difference [0-9.e-]+, in [a-z0-9.]+$"));
}

TEST_CASE("a checkpoint of another seed is refused with what to do") {
    const TemporaryFolder folder;
    const auto options =
        "--data " + digits() + " --epochs 1 --checkpoint-dir " + folder.in("saved");
    REQUIRE(run("train_mnist", options).exit_code == 0);

    const auto refused = run("train_mnist", options + " --seed 2");
    CAPTURE(refused.output);

    CHECK(refused.exit_code == 2);
    CHECK(matches(refused.output, "was written with --seed 1, this run has --seed 2"));
    CHECK(last_line(refused.output) == "give the same seed, or another --checkpoint-dir");
}

TEST_CASE("a run whose loss is no number any more saves nothing, and says so") {
    const TemporaryFolder folder;
    for (const std::string every : {"0", "3"}) {
        const auto saved = folder.in("every" + every);
        const auto diverged =
            run("train_mnist",
                "--data " + digits() + " --epochs 2 --lr 1e30 --checkpoint-every " + every +
                    " --checkpoint-dir " + saved);
        CAPTURE(diverged.output);

        CHECK(diverged.exit_code == 2);
        CHECK(matches(diverged.output, "train_mnist: training has diverged: at step "));
        CHECK(matches(last_line(diverged.output), "^give a lower --lr; "));
        CHECK((!fs::exists(saved) || names_in(saved).empty()));
    }
}

TEST_CASE("bad data ends train_mnist with 2 and two lines") {
    const TemporaryFolder folder;
    const auto missing = run("train_mnist", "--data " + folder.in("nowhere"));
    CAPTURE(missing.output);
    CHECK(missing.exit_code == 2);
    CHECK(matches(missing.output, "train_mnist: .*/train-images-idx3-ubyte: is missing$"));
    CHECK(matches(last_line(missing.output), "^make_digits --out DIR writes a data set"));

    fs::copy(digits(), folder.in("cut"));
    fs::resize_file(folder.in("cut/t10k-images-idx3-ubyte"), 5000);
    const auto cut = run("train_mnist", "--data " + folder.in("cut"));
    CAPTURE(cut.output);
    CHECK(cut.exit_code == 2);
    CHECK(matches(cut.output, "t10k-images-idx3-ubyte: is cut short: 5000 bytes, its header"));
}

TEST_CASE("wrong options end each program with 2, and help with 0") {
    for (const auto* program : {"make_digits", "train_mnist", "compare_checkpoints"}) {
        CHECK(run(program, "--nonsense").exit_code == 2);
        CHECK(run(program, "--help").exit_code == 0);
    }
    for (const auto* program : {"make_digits", "compare_checkpoints"})
        CHECK(run(program, "").exit_code == 2);
    CHECK(run("train_mnist", "--data x --batch-size 0").exit_code == 2);
    CHECK(run("train_mnist", "--data x --lr=-1").exit_code == 2);
    CHECK(run("make_digits", "--out x --train 0").exit_code == 2);
}

TEST_CASE("compare_checkpoints ends with 2 when one of them cannot be read") {
    const TemporaryFolder folder;
    std::ofstream{folder.in("text")} << "no checkpoint, but a text of some length";
    fs::create_directory(folder.in("empty"));

    for (const auto* name : {"text", "empty", "missing"}) {
        const auto compared = run("compare_checkpoints", folder.in(name) + " " + folder.in("text"));
        CHECK(compared.exit_code == 2);
        CHECK(matches(compared.output, "^compare_checkpoints: "));
        CHECK(compared.output.find(folder.in(name)) != std::string::npos);
    }
}

TEST_CASE("make_digits into a place that cannot be written says so") {
    const TemporaryFolder folder;
    std::ofstream{folder.in("file")} << "";

    const auto made =
        run("make_digits", "--out " + folder.in("file/digits") + " --train 1 --test 1");
    CAPTURE(made.output);

    CHECK(made.exit_code == 2);
    CHECK(matches(made.output, "^make_digits: cannot make the folder .*: Not a directory$"));
}

TEST_CASE("a run with Adam learns, is resumed with the same bits, and by no other optimizer") {
    const TemporaryFolder folder;
    const auto train = [&](const std::string& saved, const std::string& more) {
        return run(
            "train_mnist",
            "--data " + digits() + " --lr 0.002 --checkpoint-every 0 --checkpoint-dir " +
                folder.in(saved) + " " + more);
    };
    const auto undisturbed = train("undisturbed", "--optimizer adam --epochs 3");
    REQUIRE(train("resumed", "--optimizer adam --epochs 1").exit_code == 0);

    const auto other = train("resumed", "--epochs 3");
    const auto resumed = train("resumed", "--optimizer adam --epochs 3");

    CAPTURE(undisturbed.output);
    CAPTURE(other.output);
    CAPTURE(resumed.output);
    CHECK(matches(undisturbed.output, R"(^test accuracy [5-9][0-9]\.)"));
    CHECK(other.exit_code == 2);
    CHECK(
        matches(other.output, "was written with --optimizer adam, this run has --optimizer sgd$"));
    CHECK(resumed.exit_code == 0);
    CHECK(
        run("compare_checkpoints", folder.in("undisturbed") + " " + folder.in("resumed"))
            .exit_code == 0);
}
