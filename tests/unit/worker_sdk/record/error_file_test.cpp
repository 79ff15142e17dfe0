// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/record/error_file.hpp"

#include "agent/report/error_file.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

using namespace ddprun;
using record_errors::ErrorFileText;

namespace {

std::string file_for(const std::string& message, const std::string& stack) {
    const auto text = std::make_unique<ErrorFileText>();
    record_errors::write_error_file_text(
        *text, {message.data(), message.size()}, {stack.data(), stack.size()}, 1'700'000'000);
    return {text->data(), text->size()};
}

}  // namespace

TEST_CASE("the error file has PyTorch's exact format") {
    CHECK(
        file_for("Error: a \"b\"\n\\c\x01", "#0 main") ==
        R"({"message": {"message": "Error: a \"b\"\n\\c\u0001", "extraInfo": {"py_callstack": "#0 main", "timestamp": "1700000000"}}})"
        "\n");
}

TEST_CASE("the error file is complete with long and odd texts") {
    for (const char c : {'x', '\x02', '"', '\n'}) {
        const auto report =
            agent::parse_error_file(file_for(std::string(100'000, c), std::string(100'000, c)));
        REQUIRE(report.has_value());
        CHECK(report->message.size() > 1000);
        CHECK(report->details.size() > 1000);
    }
}
