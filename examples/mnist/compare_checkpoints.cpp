// SPDX-License-Identifier: Apache-2.0
// Compares the parameters of two checkpoints bit for bit. Exit codes: 0 equal, 1 different, 2
// unreadable.
#include "comparison.hpp"
#include "ddprun/checkpoint.hpp"
#include "ddprun/error.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace {

constexpr int different = 1;
constexpr int unreadable = 2;

/// Reads a file, or the newest whole checkpoint of a folder.
ddprun::CheckpointFolder::Found read(const std::string& path) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) return {ddprun::read_checkpoint(path), path};
    std::vector<std::string> passed_over;
    auto found = ddprun::CheckpointFolder{path}.newest(&passed_over);
    for (const auto& line : passed_over)
        std::fprintf(stderr, "checkpoint passed over: %s\n", line.c_str());
    if (!found) throw ddprun::Error(path + ": there is no whole checkpoint in this folder");
    return std::move(*found);
}

int compare(const std::string& first, const std::string& second) {
    const auto a = read(first);
    const auto b = read(second);
    for (const auto* found : {&a, &b})
        std::printf(
            "%s: round %llu step %llu\n",
            found->path.c_str(),
            static_cast<unsigned long long>(found->checkpoint.round),
            static_cast<unsigned long long>(found->checkpoint.step));
    const auto difference = mnist::compare_parameters(a.checkpoint, b.checkpoint);
    std::printf("%s\n", difference ? mnist::describe(*difference).c_str() : "same parameters");
    return difference ? different : 0;
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app{
        "Do two checkpoints hold the same parameters, bit for bit?\n"
        "Exit code 0: yes, 1: no, 2: one of them cannot be read.",
        "compare_checkpoints"};
    std::string first;
    std::string second;
    app.add_option("A", first, "file, or folder: its newest whole checkpoint")->required();
    app.add_option("B", second, "likewise")->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : unreadable;
    }
    return compare(first, second);
} catch (const std::exception& error) {
    std::fprintf(stderr, "compare_checkpoints: %s\n", error.what());
    return unreadable;
}
