// SPDX-License-Identifier: Apache-2.0
#include "ddprun/checkpoint_writer.hpp"
#include "ddprun/shared_checkpoint.hpp"
#include "tests/process/sdk/thread_ranks.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace ddprun;
using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

Checkpoint at(std::uint64_t round, std::uint64_t step) {
    Checkpoint checkpoint;
    checkpoint.round = round;
    checkpoint.step = step;
    checkpoint.add("weight", {2}, std::vector<float>{1.5F, static_cast<float>(step)});
    return checkpoint;
}

std::string place_of(const std::optional<CheckpointFolder::Found>& found) {
    if (!found) return "none";
    return std::to_string(found->checkpoint.round) + "/" + std::to_string(found->checkpoint.step);
}

/// Rank r's folder is `parent`/r.
CheckpointFolder own_folder(const fs::path& parent, int rank) {
    return CheckpointFolder(parent / std::to_string(rank));
}

/// What each rank loads from its own folder.
Texts loaded(const fs::path& parent, int size) {
    Texts places(static_cast<std::size_t>(size));
    const auto complaints = on_ranks(size, [&](const ProcessGroup& group) {
        places[static_cast<std::size_t>(group.rank())] =
            place_of(load_newest(own_folder(parent, group.rank()), group));
    });
    for (const auto& complaint : complaints)
        if (!complaint.empty()) return complaints;
    return places;
}

}  // namespace

TEST_CASE("sdk: ranks load the newest of a shared folder, on any world size") {
    const TemporaryFolder folder;
    for (const int size : {3, 1, 2, 4}) {
        const auto complaints = on_ranks(size, [&](const ProcessGroup& group) {
            const CheckpointFolder shared(folder.path);
            const auto found = load_newest(shared, group);
            const auto step = found ? found->checkpoint.step : 0;
            if (found) {
                std::vector<float> weight(2);
                found->checkpoint.copy_to("weight", weight.data(), weight.size());
                require(weight[1] == static_cast<float>(step), "not the weights of that step");
            }
            group.barrier().wait();
            if (group.rank() == 0) shared.save(at(0, step + 10));
        });
        CHECK(complaints == Texts(static_cast<std::size_t>(size)));
    }
    CHECK(place_of(CheckpointFolder(folder.path).newest()) == "0/40");
}

TEST_CASE("sdk: ranks load a model of several pieces into memory of their own") {
    const TemporaryFolder folder;
    constexpr std::size_t count = (std::size_t{9} << 20) / sizeof(float) + 3;
    std::vector<float> model(count);
    for (std::size_t i = 0; i < count; ++i)
        model[i] = static_cast<float>(i);
    auto saved = at(0, 5);
    saved.add_view("model", model.data(), model.size());
    CheckpointFolder(folder.path).save(saved);

    const auto complaints = on_ranks(3, [&](const ProcessGroup& group) {
        std::vector<float> own(count);
        const auto found =
            load_newest(CheckpointFolder(folder.path), group, {{"model", own.data(), own.size()}});
        require(place_of(found) == "0/5", "loaded " + place_of(found));
        require(own == model, "not the model");
        require(found->checkpoint.find("model") == nullptr, "the model is in memory twice");
        require(found->checkpoint.find("weight") != nullptr, "without the rest");
    });

    CHECK(complaints == Texts{"", "", ""});
}

TEST_CASE("sdk: a checkpoint that does not fit the model is an error on all ranks") {
    const TemporaryFolder folder;
    const auto path = CheckpointFolder(folder.path).save(at(0, 5));
    const auto expected = "rank 0: " + path +
                          ": tensor 'weight' has 2 values, expected are 3: the checkpoint does not "
                          "fit the model";

    const auto complaints = on_ranks(2, [&](const ProcessGroup& group) {
        std::vector<float> own(3);
        load_newest(CheckpointFolder(folder.path), group, {{"weight", own.data(), own.size()}});
    });

    CHECK(complaints == Texts{expected, expected});
}

TEST_CASE("sdk: a checkpoint that fits the model of its own rank alone is not called damaged") {
    const TemporaryFolder folder;
    CheckpointFolder(folder.path).save(at(0, 5));

    const auto complaints = on_ranks(2, [&](const ProcessGroup& group) {
        std::vector<float> own(group.rank() == 0 ? 2 : 3);
        load_newest(CheckpointFolder(folder.path), group, {{"weight", own.data(), own.size()}});
    });

    CHECK(
        complaints == Texts{
                          "",
                          "rank 1, with the checkpoint of rank 0: tensor 'weight' has 2 values, "
                          "expected are 3: the "
                          "checkpoint does not fit the model"});
}

TEST_CASE("sdk: without any checkpoint every rank returns none") {
    const TemporaryFolder parent;
    CHECK(loaded(parent.path, 3) == Texts{"none", "none", "none"});
}

TEST_CASE("sdk: with local folders the newest checkpoint of any rank is loaded by all") {
    const TemporaryFolder parent;
    own_folder(parent.path, 0).save(at(1, 900));
    own_folder(parent.path, 1).save(at(2, 5));
    own_folder(parent.path, 1).save(at(2, 7));

    CHECK(loaded(parent.path, 3) == Texts{"2/7", "2/7", "2/7"});
}

TEST_CASE("sdk: a damaged newest checkpoint is skipped for the next one, on any rank") {
    const TemporaryFolder parent;
    own_folder(parent.path, 0).save(at(1, 1));
    const auto newest = own_folder(parent.path, 1).save(at(1, 9));
    own_folder(parent.path, 2).save(at(1, 8));
    fs::resize_file(newest, fs::file_size(newest) - 1);

    std::vector<std::string> passed_over;
    const auto complaints = on_ranks(3, [&](const ProcessGroup& group) {
        std::vector<std::string> lines;
        const auto found = load_newest(own_folder(parent.path, group.rank()), group, &lines);
        require(place_of(found) == "1/8", "loaded " + place_of(found));
        if (group.rank() == 1) passed_over = lines;
    });

    CHECK(complaints == Texts{"", "", ""});
    CHECK(passed_over == Texts{newest + ": the file is cut short"});
}

TEST_CASE("sdk: a folder that one rank cannot read is an error on all, naming the rank") {
    const TemporaryFolder parent;
    own_folder(parent.path, 0).save(at(1, 1));
    std::ofstream(parent.path / "1") << "I am a file";

    const auto expected = "rank 1: cannot read the checkpoint folder " +
                          (parent.path / "1").string() + ": Not a directory";
    CHECK(loaded(parent.path, 3) == Texts{expected, expected, expected});
}

TEST_CASE("sdk: a writer saves in the background, and the newest is on disk after wait") {
    const TemporaryFolder folder;
    CheckpointWriter writer(CheckpointFolder(folder.path, 2));
    CHECK(writer.wait().empty());

    for (std::uint64_t step = 1; step <= 50; ++step)
        writer.save(at(0, step));
    const auto path = writer.wait();

    CHECK(fs::path(path).filename() == "checkpoint-0000000000-000000000050.ddp");
    CHECK(place_of(CheckpointFolder(folder.path).newest()) == "0/50");
    CHECK(folder.names().size() <= 2);
}

TEST_CASE("sdk: a writer copies what a checkpoint has a view of") {
    const TemporaryFolder folder;
    std::vector<float> values{1, 2};
    auto checkpoint = at(0, 1);
    checkpoint.add_view("view", values.data(), values.size());
    CheckpointWriter writer(CheckpointFolder(folder.path));

    writer.save(checkpoint);
    values = {0, 0};

    CHECK(
        read_checkpoint(writer.wait()).find("view")->values ==
        Tensor::Values{std::vector<float>{1, 2}});
}

TEST_CASE("sdk: the destructor of a writer writes what is queued") {
    const TemporaryFolder folder;
    { CheckpointWriter(CheckpointFolder(folder.path)).save(at(3, 4)); }
    CHECK(place_of(CheckpointFolder(folder.path).newest()) == "3/4");
}

TEST_CASE("sdk: a failed background write is reported once, and the next one is tried") {
    const TemporaryFolder folder;
    const auto place = folder.path / "checkpoints";
    std::ofstream(place) << "in the way";
    CheckpointWriter writer{CheckpointFolder(place)};

    writer.save(at(0, 1));
    CHECK_THROWS_AS(writer.wait(), Error);
    fs::remove(place);
    writer.save(at(0, 2));

    CHECK(fs::path(writer.wait()).filename() == "checkpoint-0000000000-000000000002.ddp");
}

TEST_CASE("sdk: a reader always finds a checkpoint while another process saves and prunes") {
    const TemporaryFolder temporary;
    const CheckpointFolder folder{temporary.path.string(), 1};
    folder.save(at(0, 0));
    std::atomic<bool> is_over = false;
    std::thread writer([&] {
        for (std::uint64_t step = 1; step <= 200; ++step)
            folder.save(at(0, step));
        is_over = true;
    });

    int missed = 0;
    std::vector<float> weight(2);
    while (!is_over) {
        missed += folder.newest() ? 0 : 1;
        // The file may be pruned between its check and its loading.
        missed += folder.newest({{"weight", weight.data(), weight.size()}}) ? 0 : 1;
    }
    writer.join();

    CHECK(missed == 0);
}
