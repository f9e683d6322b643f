#include "launcher/output/output_plan.hpp"

#include "rendezvous/system/whole_number.hpp"

namespace ddprun {
namespace {

constexpr std::string_view kNullDevice = "/dev/null";

int bit(OutputStream stream) { return stream == OutputStream::out ? 1 : 2; }

std::optional<int> stream_value(std::string_view text) {
    if (text.size() != 1 || text[0] < '0' || text[0] > '3') return std::nullopt;
    return text[0] - '0';
}

std::optional<StreamChoice> parse_choice(std::string_view text) {
    StreamChoice choice;
    if (text.empty()) return choice;
    if (const auto value = stream_value(text)) {
        choice.everywhere = *value;
        return choice;
    }
    for (;;) {
        const auto comma = text.find(',');
        const auto part = text.substr(0, comma);
        const auto colon = part.find(':');
        if (colon == std::string_view::npos) return std::nullopt;
        const auto local_rank = whole_number<int>(part.substr(0, colon), 0);
        const auto value = stream_value(part.substr(colon + 1));
        if (!local_rank || !value) return std::nullopt;
        choice.by_local_rank[*local_rank] = *value;
        if (comma == std::string_view::npos) return choice;
        text.remove_prefix(comma + 1);
    }
}

// Parts between single commas; two commas are one inside a part. Empty parts would match every line.
std::vector<std::string> split_filters(std::string_view text) {
    std::vector<std::string> filters;
    std::string part;
    const auto end_part = [&] {
        if (!part.empty()) filters.push_back(std::move(part));
        part.clear();
    };
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != ',') {
            part += text[at];
        } else if (at + 1 < text.size() && text[at + 1] == ',') {
            part += ',';
            ++at;
        } else {
            end_part();
        }
    }
    end_part();
    return filters;
}

std::string complaint(std::string_view flag, const std::string& value, std::string_view why) {
    return std::string(flag) + " '" + value + "': " + std::string(why);
}

// Each fills one part of the plan and returns what is wrong, or nothing.

std::string read_choice(std::string_view flag, const std::string& text, StreamChoice& choice) {
    const auto parsed = parse_choice(text);
    if (!parsed) {
        return complaint(flag, text,
                         "must match ^[0123]$ or ^(\\d+:[0123],)*(\\d+:[0123])$, that is V or R:V,R:V,... "
                         "with R a local rank and V 0 none, 1 stdout, 2 stderr, 3 both");
    }
    choice = *parsed;
    return {};
}

std::string read_ranks(std::string_view flag, const std::string& text, RankSet& ranks) {
    if (text.empty()) return {};
    auto parsed = parse_rank_set(text);
    if (const auto* why = std::get_if<std::string>(&parsed)) return complaint(flag, text, *why);
    ranks = std::get<RankSet>(std::move(parsed));
    return {};
}

std::string read_prefix(const std::optional<std::string>& text, std::optional<LinePrefix>& prefix) {
    if (!text) return {};
    if (*text == "none") {
        prefix = LinePrefix();
        return {};
    }
    auto parsed = LinePrefix::parse(text->empty() ? kDefaultPrefix : std::string_view(*text));
    if (const auto* why = std::get_if<std::string>(&parsed)) return complaint("--prefix", *text, *why);
    prefix = std::get<LinePrefix>(std::move(parsed));
    return {};
}

std::string read_log_max(const std::string& text, std::uint64_t& log_max) {
    if (text.empty()) return {};
    const auto size = parse_size(text);
    if (!size) return complaint("--log-max", text, "not a size: bytes, or a number with K, M or G behind it");
    if (*size < kMinLogMax) return complaint("--log-max", text, "at least 4K");
    log_max = *size;
    return {};
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
    std::uint64_t unit = 1;
    if (!text.empty()) {
        switch (text.back()) {
            case 'k':
            case 'K': unit = std::uint64_t{1} << 10; break;
            case 'm':
            case 'M': unit = std::uint64_t{1} << 20; break;
            case 'g':
            case 'G': unit = std::uint64_t{1} << 30; break;
            default: break;
        }
        if (unit != 1) text.remove_suffix(1);
    }
    const auto number = whole_number<std::uint64_t>(text);
    if (!number || *number > INT64_MAX / unit) return std::nullopt;
    return *number * unit;
}

std::string_view stream_name(OutputStream stream) {
    return stream == OutputStream::out ? "stdout" : "stderr";
}

bool StreamChoice::has(int local_rank, OutputStream stream) const {
    int value = everywhere;
    if (!by_local_rank.empty()) {
        const auto entry = by_local_rank.find(local_rank);
        value = entry == by_local_rank.end() ? 0 : entry->second;
    }
    return (value & bit(stream)) != 0;
}

bool StreamChoice::any() const {
    if (everywhere != 0) return true;
    for (const auto& [local_rank, value] : by_local_rank) {
        if (value != 0) return true;
    }
    return false;
}

std::optional<std::string> StreamChoice::beyond(int count) const {
    if (by_local_rank.empty() || by_local_rank.rbegin()->first < count) return std::nullopt;
    const auto& [local_rank, value] = *by_local_rank.rbegin();
    return std::to_string(local_rank) + ":" + std::to_string(value);
}

StreamPlan OutputPlan::stream(int local_rank, int rank, OutputStream stream) const {
    const bool teed = tee.has(local_rank, stream);
    const bool in_file = teed || redirects.has(local_rank, stream);
    StreamPlan result;
    result.to_file = in_file && files;
    result.to_console =
        (teed || !in_file) && local_ranks_shown.contains(local_rank) && ranks_shown.contains(rank);
    if (prefix) {
        result.prefix = *prefix;
    } else if (teed) {
        result.prefix = tee_header;
    }
    return result;
}

bool OutputPlan::wants_logs() const {
    return files && (redirects.any() || tee.any() || !out_filters.empty() || !err_filters.empty());
}

std::variant<OutputPlan, std::string> parse_output_options(const OutputOptions& options) {
    OutputPlan plan;
    std::string wrong = read_choice("--redirects", options.redirects, plan.redirects);
    if (wrong.empty()) wrong = read_choice("--tee", options.tee, plan.tee);
    if (wrong.empty()) {
        wrong = read_ranks("--local-ranks-filter", options.local_ranks_filter, plan.local_ranks_shown);
    }
    if (wrong.empty()) wrong = read_ranks("--show", options.show, plan.ranks_shown);
    if (wrong.empty()) wrong = read_prefix(options.prefix, plan.prefix);
    if (wrong.empty()) wrong = read_log_max(options.log_max, plan.log_max);
    if (!wrong.empty()) return wrong;
    plan.out_filters = split_filters(options.duplicate_stdout_filters);
    plan.err_filters = split_filters(options.duplicate_stderr_filters);
    if (!options.log_line_prefix_template.empty()) {
        plan.tee_header = LinePrefix::parse_dollar(options.log_line_prefix_template);
    }
    plan.log_dir = options.log_dir;
    plan.files = options.log_dir != kNullDevice;
    return plan;
}

}  // namespace ddprun
