// SPDX-License-Identifier: Apache-2.0
#include "ddprun/distributed_sampler.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using ddprun::DistributedSampler;

namespace {

struct Case {
    std::uint64_t samples;
    int world;
    int rank;
    DistributedSampler::Options options;
    std::uint64_t epoch;

    std::string text() const {
        return std::to_string(samples) + " " + std::to_string(world) + " " + std::to_string(rank) +
               " " + std::to_string(options.shuffle) + " " + std::to_string(options.seed) + " " +
               std::to_string(options.drop_last) + " " + std::to_string(epoch);
    }
};

constexpr std::uint64_t many = 1000;  // of so many samples only the outermost ranks are compared

std::vector<Case> all_cases() {
    std::vector<Case> cases;
    for (const std::uint64_t samples :
         {0u, 1u, 2u, 3u, 5u, 10u, 11u, 127u, 128u, 1000u, 60'000u, 60'001u})
        for (const int world : {1, 2, 3, 7, 8, 64})
            for (const std::uint64_t seed :
                 {0ULL, 42ULL, 0xFFFF'FFFFULL, 0x1'0000'0000ULL, 0x100'0000'0007ULL})
                for (const std::uint64_t epoch : {0U, 1U, 9U})
                    for (const bool drop_last : {false, true})
                        for (int rank = 0; rank < world; ++rank)
                            if (samples < many || (rank == 0 && epoch < 2) || rank == world - 1)
                                cases.push_back(
                                    {samples, world, rank, {true, seed, drop_last}, epoch});
    for (const std::uint64_t samples : {0U, 2U, 10U, 1000U})
        for (const int world : {1, 3, 8})
            for (const bool drop_last : {false, true})
                cases.push_back({samples, world, world - 1, {false, 7, drop_last}, 3});
    return cases;
}

std::vector<std::uint64_t> ours(const Case& wanted) {
    DistributedSampler sampler{wanted.samples, wanted.world, wanted.rank, wanted.options};
    sampler.set_epoch(wanted.epoch);
    auto indices = sampler.indices();
    CHECK(indices.size() == sampler.size());
    return indices;
}

std::vector<std::uint64_t> next_list(std::ifstream& file) {
    std::uint64_t count = 0;
    REQUIRE(file.read(reinterpret_cast<char*>(&count), sizeof count));
    std::vector<std::uint64_t> list(count);
    const auto bytes = static_cast<std::streamsize>(count * sizeof count);
    REQUIRE(file.read(reinterpret_cast<char*>(list.data()), bytes));
    return list;
}

/// A Python with PyTorch, or null after reporting its absence.
const char* torch_python() {
    const char* python = std::getenv("DDPRUN_TORCH_PYTHON");
    if (python != nullptr && *python != '\0') return python;
    const char* required = std::getenv("DDPRUN_REQUIRE_TORCH");
    REQUIRE_MESSAGE(
        (required == nullptr || std::string{required} != "1"), "DDPRUN_TORCH_PYTHON is not set");
    std::puts("SKIP sampler: DDPRUN_TORCH_PYTHON names no Python with PyTorch");
    return nullptr;
}

}  // namespace

TEST_CASE("the sampler gives what PyTorch's DistributedSampler gives, over many sizes") {
    const char* python = torch_python();
    if (python == nullptr) return;
    auto folder = (std::filesystem::temp_directory_path() / "ddprun-sampler-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    const auto cases = all_cases();
    std::ofstream list{folder + "/cases"};
    for (const auto& wanted : cases)
        list << wanted.text() << '\n';
    list.close();

    const auto command = "'" + std::string{python} + "' '" DDPRUN_SAMPLER_SCRIPT "' '" + folder +
                         "/cases' '" + folder + "/out'";
    REQUIRE(std::system(command.c_str()) == 0);

    std::ifstream out{folder + "/out", std::ios::binary};
    for (const auto& wanted : cases) {
        CAPTURE(wanted.text());
        CHECK((ours(wanted) == next_list(out)));
    }
    CHECK(out.peek() == std::ifstream::traits_type::eof());
    std::filesystem::remove_all(folder);
}
