// SPDX-License-Identifier: Apache-2.0
// Paints handwritten digits into files of MNIST's format, for machines that cannot download MNIST.
#include "digit_set.hpp"
#include "progress.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

namespace {

struct Options {
    std::string out;
    std::size_t train = mnist::usual_count(mnist::Split::train);
    std::size_t test = mnist::usual_count(mnist::Split::test);
    std::uint64_t seed = mnist::usual_seed;
};

void make(const Options& options, mnist::Split split, std::size_t count, const std::string& what) {
    mnist::Progress progress{"painting " + what + " digits", count};
    const auto data = mnist::paint_digits(
        count, split, options.seed, [&](std::size_t done) { progress.update(done); });
    mnist::write_dataset(options.out, split, data);
}

void add_options(CLI::App& app, Options& options) {
    app.add_option("--out", options.out, "folder to write the four files into")->required();
    app.add_option("--train", options.train, "how many digits to train on")
        ->check(CLI::Range(1, 10'000'000))
        ->capture_default_str();
    app.add_option("--test", options.test, "how many digits to test with")
        ->check(CLI::Range(1, 10'000'000))
        ->capture_default_str();
    app.add_option("--seed", options.seed, "other digits for another seed")->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app{"Paints handwritten digits into files of MNIST's format.", "make_digits"};
    Options options;
    add_options(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }

    make(options, mnist::Split::train, options.train, "training");
    make(options, mnist::Split::test, options.test, "test");
    mnist::say(
        options.out + ": " + std::to_string(options.train) + " digits to train on, " +
        std::to_string(options.test) + " to test with");
    return 0;
} catch (const mnist::DataError& error) {
    std::fprintf(stderr, "make_digits: %s\n", error.what());
    return 2;
} catch (const std::exception& error) {
    std::fprintf(stderr, "make_digits: %s\n", error.what());
    return 1;
}
