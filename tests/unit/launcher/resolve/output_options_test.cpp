// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/output_options.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::launcher;

namespace {

Result<OutputSpec> output_of(std::vector<std::string> words, const Environment& environment = {}) {
    words.push_back("train.py");
    const auto options = parse_options(words, environment);
    REQUIRE(options.has_value());
    return resolve_output(*options, environment);
}

OutputSpec good(std::vector<std::string> words, const Environment& environment = {}) {
    auto output = output_of(std::move(words), environment);
    REQUIRE(output.has_value());
    return *output;
}

std::string refusal(std::vector<std::string> words) {
    const auto output = output_of(std::move(words));
    REQUIRE_FALSE(output.has_value());
    CHECK(output.error().code == system_code(EINVAL));
    return output.error().context;
}

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("without options about output nothing is asked for") {
    const auto output = good({});
    CHECK(output.plan == OutputPlan{});
    CHECK_FALSE(output.has_files);
}

TEST_CASE("files are wanted by a mask or a folder, and not by /dev/null") {
    CHECK(good({"-r", "3"}).has_files);
    CHECK(good({"-t", "0:1"}).has_files);
    CHECK(good({"--log-dir=logs"}).has_files);
    CHECK(good({"--log-dir=logs"}).log_dir == "logs");
    CHECK_FALSE(good({"-r", "0"}).has_files);
    CHECK_FALSE(good({"-r", "0:0"}).has_files);
    CHECK_FALSE(good({"-r", "3", "--log-dir=/dev/null"}).has_files);
    CHECK(good({}, {{"PET_REDIRECTS", "3"}}).has_files);
}

TEST_CASE("without --log-dir the folder is in the temporary folder") {
    CHECK(good({"-r", "3"}).temporary_folder == "/tmp");
    CHECK(good({"-r", "3"}, {{"TMPDIR", "/scratch"}}).temporary_folder == "/scratch");
}

TEST_CASE("torchrun's variable is the prefix of what is teed, the option is for everything") {
    const std::string name = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
    CHECK(good({}, {{name, "${rank}: "}}).plan.prefix == "${rank}: ");
    CHECK_FALSE(good({}, {{name, "${rank}: "}}).plan.prefixes_everything);
    CHECK(good({}, {{name, ""}}).plan.prefix == "[${role_name}${local_rank}]:");

    const auto both = good({"--log-line-prefix-template="}, {{name, "${rank}: "}});
    CHECK(both.plan.prefix.empty());
    CHECK(both.plan.prefixes_everything);
}

TEST_CASE("layout, format and sizes are read") {
    CHECK(good({"--log-layout=torchrun"}).plan.layout == LogLayout::torchrun);
    CHECK(good({"--compat=torchrun"}).plan.layout == LogLayout::torchrun);
    CHECK(good({"--compat=torchrun", "--log-layout=ddprun"}).plan.layout == LogLayout::ddprun);
    CHECK(good({"--log-format=json"}).plan.format == LogFormat::json);
    const auto sized = good({"--log-max-size=2M", "--log-keep=3"});
    CHECK(sized.plan.max_file_bytes == 2U * 1024 * 1024);
    CHECK(sized.plan.kept_files == 3);
}

TEST_CASE("ranks and filters are read") {
    const auto output = good(
        {"--local-ranks-filter=0,2",
         "--duplicate-stdout-filters=loss,a,,b",
         "--duplicate-stderr-filters=Error"});
    CHECK(output.plan.console_ranks == std::vector<RankRange>{{0, 0}, {2, 2}});
    CHECK(output.plan.out_filters == std::vector<std::string>{"loss", "a,b"});
    CHECK(output.plan.err_filters == std::vector<std::string>{"Error"});
    CHECK(parse_filters(",x,").size() == 1);
    CHECK(parse_filters("").empty());
}

TEST_CASE("a mistake names the option, what was given and what is accepted") {
    CHECK(contains(refusal({"-r", "0:4"}), "-r: '0:4': accepted are"));
    CHECK(contains(refusal({"--tee=11"}), "--tee: '11': accepted are"));
    CHECK(contains(refusal({"--local-ranks-filter=all"}), "--local-ranks-filter: 'all': accepted"));
    CHECK(contains(refusal({"--log-format=xml"}), "--log-format: 'xml': accepted"));
    CHECK(contains(refusal({"--log-layout=mine"}), "--log-layout: 'mine': accepted"));
    CHECK(contains(refusal({"--log-max-size=big"}), "--log-max-size: 'big': accepted"));
    CHECK(contains(refusal({"--log-max-size=1"}), "from 1K up"));
    CHECK(contains(refusal({"--log-max-size=1M", "--log-keep=-1"}), "--log-keep: '-1'"));
    CHECK(contains(refusal({"--log-keep=1"}), "--log-max-size"));
    CHECK(contains(
        refusal({"--log-dir=/dev/null", "--duplicate-stdout-filters=x"}),
        "--log-dir: '/dev/null'"));
}

TEST_CASE("sizes have units of 1024") {
    struct Row {
        const char* text;
        std::uint64_t bytes;
    };
    for (const auto& row : std::vector<Row>{
             {"0", 0},
             {"4096", 4096},
             {"4096B", 4096},
             {"1k", 1024},
             {"1.5K", 1536},
             {"10 MB", 10'485'760},
             {"2GiB", 2'147'483'648},
             {"1T", 1'099'511'627'776}}) {
        CAPTURE(row.text);
        const auto size = parse_size(row.text);
        REQUIRE(size.has_value());
        CHECK(*size == row.bytes);
    }
    for (const auto* text : {"", "K", "-1", "1X", "1KK", "nan", "inf", "99999999T", "1M1"})
        CHECK_FALSE(parse_size(text).has_value());
}
