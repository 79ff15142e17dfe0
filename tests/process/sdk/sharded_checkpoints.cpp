// SPDX-License-Identifier: Apache-2.0
#include "ddprun/sharded_optimizer.hpp"
#include "tests/process/sdk/sharded_steps.hpp"
#include "tests/process/sdk/thread_ranks.hpp"
#include "tests/process/sdk/workers.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;
using namespace ddprun::tests;
namespace fs = std::filesystem;

namespace {

Texts none(int ranks) {
    return Texts(static_cast<std::size_t>(ranks));
}

Checkpoint at(std::uint64_t round, std::uint64_t step) {
    Checkpoint checkpoint;
    checkpoint.round = round;
    checkpoint.step = step;
    checkpoint.texts["seed"] = "7";
    checkpoint.add("uses", {2}, std::vector<float>{1, static_cast<float>(step)});
    return checkpoint;
}

const auto adam_w = small_buckets(false, ElementType::float32);

using Body = std::function<void(ShardedOptimizer&)>;

/// The values that `body` leaves on rank 0; every rank has the same.
std::vector<float> values_after(
    int ranks, const ShardedOptimizer::Options& options, const Body& body) {
    std::vector<std::vector<float>> values(static_cast<std::size_t>(ranks));
    const auto complaints = on_ranks(ranks, [&](const ProcessGroup& group) {
        ShardedOptimizer model(group, odd_parameters(), options);
        if (group.rank() == 0) set_first_values(model);
        model.broadcast_parameters();
        body(model);
        values[static_cast<std::size_t>(group.rank())] = values_of(model);
    });
    CHECK(complaints == none(ranks));
    for (const auto& one : values)
        CHECK(one == values.front());
    return values.front();
}

void take_steps(ShardedOptimizer& model, std::uint64_t first, std::uint64_t end) {
    for (auto number = first; number < end; ++number)
        take_step(model, number);
}

/// Two sets of two ranks, of step 1 and step 2.
void save_two(const fs::path& folder) {
    values_after(2, adam_w, [&](ShardedOptimizer& model) {
        for (const std::uint64_t step : {1, 2}) {
            take_step(model, step);
            model.save(ShardedFolder(folder), at(0, step));
        }
    });
}

/// The file in the newest set.
fs::path file_of(const fs::path& folder, int index) {
    return folder /
           ("checkpoint-0000000000-000000000002.shard-" + std::to_string(index) + "-of-2.ddp");
}

/// The loaded step, why newer sets were skipped, and the thrown error.
struct Loaded {
    std::uint64_t step = 0;
    std::string passed_over;
    Texts complaints;
};

Loaded loaded(
    const fs::path& folder, int ranks, const ShardedOptimizer::Options& options = adam_w) {
    Loaded result;
    std::vector<std::string> lines(static_cast<std::size_t>(ranks));
    result.complaints = on_ranks(ranks, [&](const ProcessGroup& group) {
        ShardedOptimizer model(group, odd_parameters(), options);
        std::vector<std::string> passed_over;
        const auto found = model.load_newest(ShardedFolder(folder), &passed_over);
        for (const auto& line : passed_over)
            lines[static_cast<std::size_t>(group.rank())] += line + "\n";
        if (group.rank() == 0 && found) result.step = found->step;
    });
    for (const auto& line : lines)
        result.passed_over += line;
    return result;
}

void damage(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(path) / 2));
    file.put('\x55');
    file.put('\x2a');
}

bool mentions(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("sdk: a sharded run goes on with the same bits after two changes of the world size") {
    for (const bool is_sgd : {false, true})
        for (const auto type : {ElementType::float32, ElementType::bfloat16})
            for (const int between : {1, 2, 4, 5}) {
                CAPTURE(between);
                const TemporaryFolder folder;
                const ShardedFolder sharded(folder.path);
                const auto options = small_buckets(is_sgd, type);
                const auto undisturbed = values_after(
                    3, options, [](ShardedOptimizer& model) { take_steps(model, 0, 6); });

                const auto saved = values_after(3, options, [&](ShardedOptimizer& model) {
                    take_steps(model, 0, 3);
                    model.save(sharded, at(0, 3));
                });
                auto other_buckets = options;
                other_buckets.bucket_bytes = 512;
                const auto moved =
                    values_after(between, other_buckets, [&](ShardedOptimizer& model) {
                        const auto found = model.load_newest(sharded);
                        require(found && found->step == 3, "not found");
                        require(found->texts == at(0, 3).texts, "not its texts");
                        require(
                            found->find("uses")->values == at(0, 3).find("uses")->values, "uses");
                        require(
                            found->find("first/one.weight") == nullptr, "state is in memory twice");
                        require(model.committed_steps() == 3, "the number of steps");
                        model.save(sharded, at(1, 3));
                    });
                CHECK(moved == saved);
                const auto resumed = values_after(3, options, [&](ShardedOptimizer& model) {
                    require(model.load_newest(sharded).has_value(), "not found");
                    take_steps(model, 3, 6);
                });
                CHECK(resumed == undisturbed);
            }
}

TEST_CASE("sdk: a sharded checkpoint is loaded from the folders of several hosts") {
    const TemporaryFolder folder;
    const auto own = [&](const ShardedOptimizer& model) {
        return ShardedFolder(folder.path / std::to_string(model.group().rank() % 2));
    };
    const auto saved = values_after(4, adam_w, [&](ShardedOptimizer& model) {
        take_step(model, 0);
        model.save(own(model), at(0, 1));
    });
    const auto back = values_after(3, adam_w, [&](ShardedOptimizer& model) {
        require(model.load_newest(own(model)).has_value(), "not found");
    });
    CHECK(back == saved);
}

TEST_CASE("sdk: a loaded sharded checkpoint is the one that was saved, and can be saved again") {
    const TemporaryFolder folder;
    values_after(2, adam_w, [&](ShardedOptimizer& model) {
        const ShardedFolder sharded(folder.path);
        take_step(model, 1);
        model.save(sharded, at(0, 1));
        auto found = model.load_newest(sharded);
        require(found && found->tensors.size() == at(0, 1).tensors.size(), "other tensors");
        found->step = 2;
        model.save(sharded, *found);
        found = model.load_newest(sharded);
        require(found && found->step == 2, "it was not saved again");
    });
}

TEST_CASE("sdk: no checkpoint, or none that is complete, is nothing to load") {
    const TemporaryFolder folder;
    CHECK(loaded(folder.path / "missing", 2).complaints == none(2));
    save_two(folder.path);
    CHECK(loaded(folder.path, 3).step == 2);
    fs::remove(file_of(folder.path, 1));
    const auto before = loaded(folder.path, 3);
    CHECK(before.step == 1);
    CHECK(before.passed_over.empty());
    CHECK(before.complaints == none(3));
}

TEST_CASE("sdk: a set with a damaged or truncated file is passed over, with the reason") {
    for (const int ranks : {1, 2, 3}) {
        const TemporaryFolder folder;
        save_two(folder.path);
        damage(file_of(folder.path, 1));
        auto result = loaded(folder.path, ranks);
        CHECK(result.step == 1);
        CHECK(
            result.passed_over ==
            file_of(folder.path, 1).string() + ": the file is damaged: its checksum is wrong\n");

        fs::resize_file(file_of(folder.path, 1), fs::file_size(file_of(folder.path, 1)) - 5);
        result = loaded(folder.path, ranks);
        CHECK(result.step == 1);
        CHECK(result.passed_over == file_of(folder.path, 1).string() + ": the file is cut short\n");
        CHECK(result.complaints == none(ranks));
    }
}

TEST_CASE("sdk: files of two saves of one step are no set") {
    const TemporaryFolder folder, other;
    save_two(folder.path);
    save_two(other.path);
    fs::copy_file(
        file_of(other.path, 1), file_of(folder.path, 1), fs::copy_options::overwrite_existing);
    for (const int ranks : {1, 2}) {
        const auto result = loaded(folder.path, ranks);
        CHECK(result.step == 1);
        CHECK(mentions(result.passed_over, "the files of the set are of different saves"));
    }
}

TEST_CASE("sdk: a sharded checkpoint of another optimizer is an error on all ranks") {
    const TemporaryFolder folder;
    save_two(folder.path);
    const auto result = loaded(folder.path, 2, small_buckets(true, ElementType::float32));
    const auto expected = file_of(folder.path, 0).string() +
                          " and the other files of the set have 0 of the 1 values of tensor "
                          "'momentum/one.weight': the checkpoint does not fit the model";
    CHECK(result.complaints == Texts{expected, expected});
}

TEST_CASE("sdk: a sharded checkpoint of another model is an error on all ranks") {
    const TemporaryFolder folder;
    save_two(folder.path);
    auto specs = odd_parameters();
    ++specs[3].count;
    const auto complaints = on_ranks(2, [&](const ProcessGroup& group) {
        ShardedOptimizer model(group, specs, adam_w);
        model.load_newest(ShardedFolder(folder.path));
    });
    for (const auto& complaint : complaints) {
        CAPTURE(complaint);
        CHECK(mentions(complaint, "'four.weight' has 4099 values, expected are 4100"));
        CHECK(mentions(complaint, "the checkpoint does not fit the model"));
    }
}

namespace {

/// A rank's part of five values, divided as equally as possible: of six ranks one has none.
struct Held {
    Held(int rank, int ranks) {
        const auto begin_of = [&](int n) {
            return static_cast<std::uint64_t>(n) * 5 / ranks_of(ranks);
        };
        begin = begin_of(rank);
        half.resize(begin_of(rank + 1) - begin);
        wide.resize(half.size());
    }
    static std::uint64_t ranks_of(int ranks) { return static_cast<std::uint64_t>(ranks); }

    std::vector<TensorPart> parts() {
        return {
            {"half", ElementType::bfloat16, 5, begin, half.size(), half.data()},
            {"wide", ElementType::int64, 5, begin, wide.size(), wide.data()}};
    }

    std::uint64_t begin = 0;
    std::vector<BFloat16> half;
    std::vector<std::int64_t> wide;
};

}  // namespace

TEST_CASE("sdk: parts of 16 and 64 bits go from any number of ranks to any other") {
    for (const int before : {1, 3, 6})
        for (const int after : {1, 2, 6}) {
            const TemporaryFolder folder;
            auto complaints = on_ranks(before, [&](const ProcessGroup& group) {
                Held held(group.rank(), before);
                for (std::size_t i = 0; i < held.half.size(); ++i) {
                    const auto number = held.begin + i + 1;
                    held.half[i] = BFloat16(static_cast<float>(number));
                    held.wide[i] = -static_cast<std::int64_t>(number);
                }
                ShardedFolder(folder.path).save(group, at(0, 1), held.parts());
            });
            CHECK(complaints == none(before));
            complaints = on_ranks(after, [&](const ProcessGroup& group) {
                Held held(group.rank(), after);
                const auto found = ShardedFolder(folder.path).load_newest(group, held.parts());
                require(found.has_value(), "not found");
                for (std::size_t i = 0; i < held.half.size(); ++i) {
                    const auto number = held.begin + i + 1;
                    require(held.half[i] == BFloat16(static_cast<float>(number)), "bfloat16");
                    require(held.wide[i] == -static_cast<std::int64_t>(number), "int64");
                }
            });
            CHECK(complaints == none(after));
        }
}

TEST_CASE("sdk: parts that are none are an error on all ranks") {
    const TemporaryFolder folder;
    const auto said_of = [&](const TensorPart& part) {
        const auto complaints = on_ranks(2, [&](const ProcessGroup& group) {
            std::vector<TensorPart> parts;
            if (group.rank() == 1) parts.push_back(part);
            ShardedFolder(folder.path).save(group, at(0, 1), parts);
        });
        CHECK(complaints[0] == complaints[1]);
        return complaints[0];
    };
    float value = 0;
    CHECK(
        said_of({"w", ElementType::float32, 5, 5, 1, &value}) ==
        "rank 1: tensor 'w' is a part that lies outside its tensor");
    CHECK(
        said_of({"w", ElementType::float32, 5, 0, 1, nullptr}) ==
        "rank 1: tensor 'w' is a null pointer");
    CHECK(
        said_of({"w", ElementType::int32, 5, 0, 1, &value}) ==
        "rank 1: tensor 'w' is of a type that no checkpoint has");
    CHECK(
        said_of({"w", ElementType::float32, 0, 0, 0, &value}) ==
        "rank 1: tensor 'w' has no values");
}

TEST_CASE("sdk: a rank that cannot write its file is named on all ranks") {
    const TemporaryFolder folder;
    std::ofstream(folder.path / "a file") << "in the way";
    const auto complaints = on_ranks(2, [&](const ProcessGroup& group) {
        ShardedOptimizer model(group, odd_parameters(), adam_w);
        model.broadcast_parameters();
        const bool is_first = group.rank() == 0;
        std::string said;
        try {
            model.save(ShardedFolder(folder.path / (is_first ? "good" : "a file")), at(0, 1));
        } catch (const Error& error) {
            said = error.what();
        }
        require(mentions(said, "rank 1: cannot make the checkpoint folder"), said);
        // Training continues, and may save elsewhere.
        take_step(model, 0);
        model.save(ShardedFolder(folder.path / "good"), at(0, 2));
    });
    CHECK(complaints == none(2));
}

TEST_CASE("sdk: a checkpoint without a round is refused on all ranks before anything is written") {
    const TemporaryFolder folder;
    const auto complaints = on_ranks(2, [&](const ProcessGroup& group) {
        ShardedOptimizer model(group, odd_parameters(), adam_w);
        model.broadcast_parameters();
        const auto said = misuse([&] { model.save(ShardedFolder(folder.path / "new"), {}); });
        require(mentions(said, "it has no round"), said);
    });
    CHECK(complaints == none(2));
    CHECK_FALSE(fs::exists(folder.path / "new"));
}

TEST_CASE("sdk: the newest sets are kept, and unfinished files removed") {
    const TemporaryFolder folder;
    std::ofstream(folder.path / ".unfinished-7-x") << "of a rank that was killed";
    values_after(2, adam_w, [&](ShardedOptimizer& model) {
        for (std::uint64_t step = 1; step <= 4; ++step) {
            take_step(model, step);
            model.save(ShardedFolder(folder.path, 2), at(0, step));
        }
    });
    CHECK(
        folder.names() == std::vector<std::string>{
                              "checkpoint-0000000000-000000000003.shard-0-of-2.ddp",
                              "checkpoint-0000000000-000000000003.shard-1-of-2.ddp",
                              "checkpoint-0000000000-000000000004.shard-0-of-2.ddp",
                              "checkpoint-0000000000-000000000004.shard-1-of-2.ddp"});
}

// A sanitizer has memory of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("sdk: a sharded checkpoint is saved and loaded in a tenth of the shard's memory") {
    const TemporaryFolder folder;
    Workers workers(2, {"sharded_memory"}, {{"SDK_WORKER_FOLDER", folder.path.string()}});
    for (const int rank : {0, 1}) {
        const int code = workers.exit_code(rank);
        CAPTURE(workers.output(rank));
        CHECK(code == 0);
    }
}
#endif
