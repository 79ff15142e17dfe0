// SPDX-License-Identifier: Apache-2.0
// Paints pictures of ten kinds into files of CIFAR-10's format, for machines that cannot download
// CIFAR-10.
#include "image_file.hpp"
#include "picture_painter.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

namespace {

struct Options {
    std::string out;
    std::size_t train = 50'000;
    std::size_t test = 10'000;
    std::uint64_t seed = 1;
};

void add_options(CLI::App& app, Options& options) {
    app.add_option("--out", options.out, "folder to write the six files into")->required();
    app.add_option("--train", options.train, "how many pictures to train on")
        ->check(CLI::Range(5, 1'000'000))
        ->capture_default_str();
    app.add_option("--test", options.test, "how many pictures to test with")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--seed", options.seed, "other pictures for another seed")
        ->capture_default_str();
}

void make(const Options& options, cifar::Split split, std::size_t count) {
    cifar::write_dataset(options.out, split, cifar::paint_pictures(count, split, options.seed));
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app{"Paints pictures of ten kinds into files of CIFAR-10's format.", "make_images"};
    Options options;
    add_options(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    make(options, cifar::Split::train, options.train);
    make(options, cifar::Split::test, options.test);
    std::printf(
        "%s: %zu pictures to train on, %zu to test with\n",
        options.out.c_str(),
        options.train,
        options.test);
    return 0;
} catch (const cifar::DataError& error) {
    std::fprintf(stderr, "make_images: %s\n", error.what());
    return 2;
} catch (const std::exception& error) {
    std::fprintf(stderr, "make_images: %s\n", error.what());
    return 1;
}
