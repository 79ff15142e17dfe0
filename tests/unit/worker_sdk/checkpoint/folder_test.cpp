// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/folder.hpp"

#include "ddprun/checkpoint.hpp"
#include "ddprun/error.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace ddprun;
using ddprun::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

Checkpoint at(std::uint64_t round, std::uint64_t step) {
    Checkpoint checkpoint;
    checkpoint.round = round;
    checkpoint.step = step;
    checkpoint.texts["what"] = "round " + std::to_string(round) + " step " + std::to_string(step);
    checkpoint.add("weight", {2}, std::vector<float>{1.5F, static_cast<float>(step)});
    return checkpoint;
}

std::string newest_in(const CheckpointFolder& folder) {
    const auto found = folder.newest();
    return found ? found->checkpoint.text("what") : "none";
}

std::string content_of(const fs::path& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
}

/// In KiB, by its name in /proc/self/status.
long memory_now(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (word == name + ":") {
            long size = 0;
            status >> size;
            return size;
        }
    return -1;
}

void write(const fs::path& path, std::string_view content) {
    std::ofstream{path, std::ios::binary | std::ios::trunc} << content;
}

}  // namespace

TEST_CASE("a missing folder holds no checkpoint, and saving creates it") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path / "deep" / "er"};
    CHECK(newest_in(folder) == "none");

    const auto path = folder.save(at(0, 5));

    CHECK(fs::path{path}.filename() == "checkpoint-0000000000-000000000005.ddp");
    CHECK(newest_in(folder) == "round 0 step 5");
    CHECK(read_checkpoint(path).step == 5);
}

TEST_CASE("the newest is the one of the latest round, then of the latest step") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path, 10};

    folder.save(at(1, 20));
    folder.save(at(0, 900));  // a worker of the old round, late
    folder.save(at(1, 3));

    CHECK(newest_in(folder) == "round 1 step 20");
}

TEST_CASE("a newest file cut at any byte is skipped for the one before it") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path};
    folder.save(at(0, 1));
    const auto newest = folder.save(at(0, 2));
    const auto whole = content_of(newest);

    for (std::size_t size = 0; size < whole.size(); ++size) {
        write(newest, std::string_view{whole}.substr(0, size));
        std::vector<std::string> passed_over;
        const auto found = folder.newest(&passed_over);

        CAPTURE(size);
        REQUIRE(found);
        CHECK(found->checkpoint.step == 1);
        CHECK(passed_over == std::vector<std::string>{newest + ": the file is cut short"});
    }
    write(newest, whole);
    CHECK(newest_in(folder) == "round 0 step 2");
}

TEST_CASE("a damaged, a renamed and a foreign file are skipped, each with its reason") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path, 10};
    const auto good = folder.save(at(0, 1));
    auto damaged = content_of(folder.save(at(0, 2)));
    damaged[60] = static_cast<char>(damaged[60] ^ 1);
    const auto in = [&](const char* name) { return (temporary.path / name).string(); };
    write(in("checkpoint-0000000000-000000000002.ddp"), damaged);
    write(in("checkpoint-0000000000-000000000003.ddp"), content_of(good));
    write(in("checkpoint-0000000000-000000000004.ddp"), "hello, I am a text");
    fs::create_directory(in("checkpoint-0000000000-000000000005.ddp"));
    write(in("checkpoint-9-9.ddp"), content_of(good));
    write(in("notes.txt"), "");

    std::vector<std::string> passed_over;
    const auto found = folder.newest(&passed_over);

    REQUIRE(found);
    CHECK(found->path == good);
    CHECK(
        passed_over ==
        std::vector<std::string>{
            in("checkpoint-0000000000-000000000005.ddp") + ": Is a directory",
            in("checkpoint-0000000000-000000000004.ddp") + ": this is not a checkpoint file",
            in("checkpoint-0000000000-000000000003.ddp") + ": its name does not match its content",
            in("checkpoint-0000000000-000000000002.ddp") +
                ": the file is damaged: its checksum is wrong"});
}

TEST_CASE("the last few are kept, and what a killed writer left is removed") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path, 2};
    write(temporary.path / ".unfinished-1-checkpoint-0000000000-000000000001.ddp", "half");
    write(temporary.path / "notes.txt", "mine");

    for (std::uint64_t step = 1; step <= 5; ++step)
        folder.save(at(0, step));

    CHECK(
        temporary.names() == std::vector<std::string>{
                                 "checkpoint-0000000000-000000000004.ddp",
                                 "checkpoint-0000000000-000000000005.ddp",
                                 "notes.txt"});
}

TEST_CASE("the checkpoint just written is kept, also when other files have newer names") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path, 1};
    folder.save(at(7, 1));

    folder.save(at(0, 2));

    CHECK(
        temporary.names() ==
        std::vector<std::string>{
            "checkpoint-0000000000-000000000002.ddp", "checkpoint-0000000007-000000000001.ddp"});
}

TEST_CASE("a failed save throws the reason and leaves only the earlier checkpoints") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path};
    folder.save(at(0, 1));
    const auto before = temporary.names();
    rlimit unlimited{};
    ::getrlimit(RLIMIT_FSIZE, &unlimited);
    const auto on_excess = ::signal(SIGXFSZ, SIG_IGN);

    const rlimit small{40, unlimited.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::string what;
    try {
        folder.save(at(0, 2));
    } catch (const Error& error) {
        what = error.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &unlimited);
    ::signal(SIGXFSZ, on_excess);

    CHECK(what.starts_with("the checkpoint was not saved: write "));
    CHECK(what.ends_with(": File too large"));
    CHECK(temporary.names() == before);
    CHECK(newest_in(folder) == "round 0 step 1");
}

TEST_CASE("a folder that is a file is an error, for reading and for writing") {
    const TemporaryFolder temporary;
    write(temporary.path / "file", "");
    const CheckpointFolder folder{temporary.path / "file"};

    CHECK_THROWS_AS(folder.newest(), Error);
    CHECK_THROWS_AS(folder.save(at(0, 1)), Error);
}

TEST_CASE("a file's name has round and step, however large") {
    using checkpoint::Position;
    const Position largest{~std::uint64_t{0}, ~std::uint64_t{0}};
    CHECK(checkpoint::position_in(checkpoint::file_name(largest)) == largest);
    CHECK(checkpoint::position_in(checkpoint::file_name({3, 4})) == Position{3, 4});
    for (const auto* name :
         {"",
          "checkpoint-.ddp",
          "checkpoint-1.ddp",
          "checkpoint-1-.ddp",
          "checkpoint--1.ddp",
          "checkpoint-1-2.ddp.tmp",
          "checkpoint-1-2x.ddp",
          "checkpoint-99999999999999999999-1.ddp"})
        CHECK_FALSE(checkpoint::position_in(name).has_value());
}

TEST_CASE("targets are written only from a whole file") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path};
    folder.save(at(0, 1));
    const auto newest = folder.save(at(0, 2));
    auto damaged = content_of(newest);
    damaged.back() ^= 1;
    write(newest, damaged);
    std::vector<float> weight(2, 7);
    const std::vector<TensorTarget> targets{{"weight", weight.data(), weight.size()}};

    const auto found = folder.newest(targets);

    REQUIRE(found);
    CHECK(found->checkpoint.step == 1);
    CHECK(found->checkpoint.tensors.empty());
    CHECK(weight == std::vector<float>{1.5F, 1});
    weight.assign(2, 7);
    CHECK_THROWS_AS(read_checkpoint(newest, targets), Error);
    CHECK(weight == std::vector<float>(2, 7));
}

TEST_CASE("a whole checkpoint that does not fit its targets is an error, and writes nothing") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path};
    const auto path = folder.save(at(0, 1));
    std::vector<float> weight(2, 7);
    const std::vector<TensorTarget> targets{
        {"weight", weight.data(), weight.size()}, {"bias", weight.data(), 1}};

    CHECK_THROWS_WITH_AS(
        static_cast<void>(folder.newest(targets)),
        (path + ": it has no tensor 'bias': the checkpoint does not fit the model").c_str(),
        Error);
    CHECK(weight == std::vector<float>(2, 7));
}

TEST_CASE("a file that was checked is read again although its name is another file's, or gone") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path};
    const auto path = folder.save(at(0, 1));
    auto file = checkpoint::FileReader::open(path).value();

    CHECK(checkpoint::read_at(file, {0, 1}, {{}, true}).has_value());
    write(temporary.path / "other", "no checkpoint");
    fs::rename(temporary.path / "other", path);
    CHECK(checkpoint::read_at(file, {0, 1}, {}).value().text("what") == "round 0 step 1");
    fs::remove(path);
    CHECK(checkpoint::read_at(file, {0, 1}, {}).value().text("what") == "round 0 step 1");
}

TEST_CASE("two targets of one name, or one without memory, are refused before anything is read") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path};
    std::vector<float> weight(2, 7);
    const std::vector<TensorTarget> twice{
        {"weight", weight.data(), 2}, {"weight", weight.data(), 2}};
    const std::vector<TensorTarget> without_memory{{"weight", nullptr, 2}};

    for (const auto& targets : {twice, without_memory}) {
        CHECK_THROWS_AS(static_cast<void>(folder.newest(targets)), UsageError);
        CHECK_THROWS_AS(read_checkpoint(temporary.path / "none", targets), UsageError);
    }
    CHECK_FALSE(folder.newest({{"empty", nullptr, 0}}).has_value());
}

// A sanitizer's allocator keeps what is freed.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a model is loaded into its own memory, and little more") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path};
    std::vector<float> model(std::size_t{8} << 20, 1.25F);
    Checkpoint checkpoint;
    checkpoint.round = 0;
    checkpoint.add_view("model", model.data(), model.size());
    folder.save(checkpoint);
    std::fill(model.begin(), model.end(), 0.0F);
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak is counted from here
    const auto before = memory_now("VmRSS");

    REQUIRE(folder.newest({{"model", model.data(), model.size()}}));

    const auto model_kib = static_cast<long>(model.size() * sizeof(float) / 1024);
    CHECK(memory_now("VmHWM") - before < model_kib / 10);
    CHECK(std::all_of(model.begin(), model.end(), [](float value) { return value == 1.25F; }));
}
#endif
