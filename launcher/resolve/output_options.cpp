// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/output_options.hpp"

#include "agent/output/progress_pattern.hpp"
#include "launcher/grammar/number.hpp"
#include "launcher/grammar/rank_masks.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace ddprun::launcher {
namespace {

using agent::LogFormat;
using agent::LogLayout;

constexpr std::string_view no_files = "/dev/null";
constexpr std::uint64_t smallest_file_bytes = 1024;

Failure wrong(const Given& given, const std::string& accepted) {
    return {system_code(EINVAL), given.origin + ": '" + given.text + "': " + accepted};
}

/// Reads the output options of one command line. The first mistake ends it.
class OutputResolution {
public:
    OutputResolution(const Options& options, const Environment& environment)
        : options_(options),
          environment_(environment) {}

    Result<OutputSpec> run() {
        using Step = Result<> (OutputResolution::*)();
        constexpr Step steps[] = {
            &OutputResolution::shown_ranks,
            &OutputResolution::masks,
            &OutputResolution::format,
            &OutputResolution::layout,
            &OutputResolution::filters,
            &OutputResolution::progress,
            &OutputResolution::folder,
            &OutputResolution::sizes,
        };
        for (const auto step : steps)
            if (auto done = (this->*step)(); !done) return done.error();
        return std::move(spec_);
    }

private:
    Result<> shown_ranks();
    Result<> masks();
    Result<> format();
    Result<> layout();
    Result<> filters();
    Result<> progress();
    Result<> folder();
    Result<> sizes();

    std::optional<Given> find(std::string_view name) const { return options_.find(name); }
    bool is_masked() const {
        const auto has_any = [](const std::vector<agent::RankMask>& masks) {
            return std::any_of(masks.begin(), masks.end(), [](const agent::RankMask& mask) {
                return mask.has_out || mask.has_err;
            });
        };
        return has_any(spec_.plan.redirects) || has_any(spec_.plan.tee);
    }

    const Options& options_;
    const Environment& environment_;
    OutputSpec spec_;
};

Result<> OutputResolution::shown_ranks() {
    const auto given = find("local-ranks-filter");
    if (!given || given->text.empty()) return {};
    auto ranks = parse_ranks(given->text);
    if (!ranks) return Failure{ranks.error().code, given->origin + ": " + ranks.error().context};
    spec_.plan.console_ranks = std::move(*ranks);
    return {};
}

Result<> OutputResolution::masks() {
    const std::pair<const char*, std::vector<agent::RankMask>*> both[] = {
        {"redirects", &spec_.plan.redirects}, {"tee", &spec_.plan.tee}};
    for (const auto& [name, place] : both) {
        const auto given = find(name);
        if (!given) continue;
        auto masks = parse_rank_masks(given->text);
        if (!masks)
            return Failure{masks.error().code, given->origin + ": " + masks.error().context};
        *place = std::move(*masks);
    }
    return {};
}

/// The option applies to everything on the console; torchrun's variable only to teed output, as in
/// torchrun.
Result<> OutputResolution::format() {
    if (const auto given = find("log-format")) {
        if (given->text != "text" && given->text != "json")
            return wrong(*given, "accepted are text and json");
        spec_.plan.format = given->text == "json" ? LogFormat::json : LogFormat::text;
    }
    const auto variable = value_of(environment_, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    if (const auto given = find("log-line-prefix-template")) {
        spec_.plan.prefix = given->text;
        spec_.plan.prefixes_everything = true;
    } else if (variable && !variable->empty()) {
        spec_.plan.prefix = *variable;
    }
    return {};
}

Result<> OutputResolution::layout() {
    const auto compat = options_.find("compat");
    if (compat && compat->text == "torchrun") spec_.plan.layout = LogLayout::torchrun;
    const auto given = find("log-layout");
    if (!given) return {};
    if (given->text != "ddprun" && given->text != "torchrun")
        return wrong(*given, "accepted are ddprun and torchrun");
    spec_.plan.layout = given->text == "torchrun" ? LogLayout::torchrun : LogLayout::ddprun;
    return {};
}

Result<> OutputResolution::filters() {
    if (const auto given = find("duplicate-stdout-filters"))
        spec_.plan.out_filters = parse_filters(given->text);
    if (const auto given = find("duplicate-stderr-filters"))
        spec_.plan.err_filters = parse_filters(given->text);
    return {};
}

Result<> OutputResolution::progress() {
    const auto given = find("progress-regex");
    if (!given) return {};
    if (const auto pattern = agent::ProgressPattern::parse(given->text); !pattern)
        return wrong(*given, pattern.error().context);
    spec_.plan.progress_pattern = given->text;
    return {};
}

Result<> OutputResolution::folder() {
    const auto given = find("log-dir");
    const bool is_named = given && !given->text.empty();
    const bool is_off = is_named && given->text == no_files;
    spec_.has_files = !is_off && (is_named || is_masked());
    if (is_named) spec_.log_dir = given->text;
    spec_.log_dir_origin = is_named ? given->origin : "--log-dir";
    const auto temporary = value_of(environment_, "TMPDIR");
    spec_.temporary_folder = temporary && !temporary->empty() ? *temporary : "/tmp";
    const bool is_filtering = !spec_.plan.out_filters.empty() || !spec_.plan.err_filters.empty();
    if (is_off && is_filtering)
        return wrong(*given, "the filtered lines need a folder; give one, or no filters");
    return {};
}

Result<> OutputResolution::sizes() {
    if (const auto given = find("log-max-size")) {
        const auto size = parse_size(given->text);
        if (!size || *size < smallest_file_bytes)
            return wrong(*given, "accepted is a size from 1K up, as in 100M or 2G");
        spec_.plan.max_file_bytes = *size;
    }
    if (const auto given = find("log-keep")) {
        const auto count = parse_int(given->text);
        if (!count || *count < 0) return wrong(*given, "accepted is a whole number from 0 up");
        if (!spec_.plan.max_file_bytes)
            return wrong(*given, "counts the files that --log-max-size has filled; give that too");
        spec_.plan.kept_files = *count;
    }
    return {};
}

}  // namespace

Result<OutputSpec> resolve_output(const Options& options, const Environment& environment) {
    return OutputResolution{options, environment}.run();
}

Result<std::uint64_t> parse_size(std::string_view text) {
    const Failure refused{system_code(EINVAL), "'" + std::string{text} + "' is no size"};
    text = trimmed(text);
    double number = 0;
    const auto* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || !(number >= 0)) return refused;

    std::string unit{trimmed({stop, static_cast<std::size_t>(end - stop)})};
    for (const auto* ending : {"iB", "B", "b"})
        if (unit.ends_with(ending)) {
            unit.resize(unit.size() - std::string_view{ending}.size());
            break;
        }
    constexpr std::string_view units = "KMGT";
    if (unit.size() > 1) return refused;
    if (!unit.empty()) {
        const char letter = unit.front() == 'k' ? 'K' : unit.front();
        const auto power = units.find(letter);
        if (power == std::string_view::npos) return refused;
        for (std::size_t i = 0; i <= power; ++i)
            number *= 1024;
    }
    constexpr double largest = 9e18;
    if (number > largest) return refused;
    return static_cast<std::uint64_t>(number);
}

std::vector<std::string> parse_filters(std::string_view text) {
    std::vector<std::string> filters(1);
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != ',') {
            filters.back() += text[at];
        } else if (text.substr(at + 1).starts_with(',')) {
            filters.back() += ',';
            ++at;
        } else {
            filters.emplace_back();
        }
    }
    // An empty filter would match every line.
    std::erase_if(filters, [](const std::string& filter) { return filter.empty(); });
    return filters;
}

}  // namespace ddprun::launcher
