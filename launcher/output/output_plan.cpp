#include "launcher/output/output_plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "launcher/path_template.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view leading_name(std::string_view text) {
    std::size_t size = 0;
    if (!text.empty() && begins_name(text.front())) {
        while (size < text.size() && continues_name(text[size])) ++size;
    }
    return text.substr(0, size);
}

// Reads what a dollar sign at the start of `text` stands for: the name, and how many bytes it takes with the
// sign. No name where the rules of string.Template see none.
std::pair<std::string_view, std::size_t> dollar_name(std::string_view text) {
    if (text.size() > 1 && text[1] == '{') {
        const auto name = leading_name(text.substr(2));
        const std::size_t end = 2 + name.size();
        if (name.empty() || end >= text.size() || text[end] != '}') return {{}, 1};
        return {name, end + 1};
    }
    const auto name = leading_name(text.substr(1));
    return {name, 1 + name.size()};
}

}  // namespace

std::optional<LinePrefix::Field> LinePrefix::field_named(std::string_view name, Grammar grammar) {
    static constexpr struct {
        Field field;
        std::string_view ours, torchruns;
    } kNames[] = {{Field::host, "host", "hostname"},
                  {Field::rank, "rank", "rank"},
                  {Field::local_rank, "local_rank", "local_rank"},
                  {Field::role, "role", "role_name"},
                  {Field::time, "time", ""},
                  {Field::stream, "stream", ""}};
    for (const auto& entry : kNames) {
        if (!name.empty() && name == (grammar == Grammar::ours ? entry.ours : entry.torchruns))
            return entry.field;
    }
    return std::nullopt;
}

std::variant<LinePrefix, std::string> LinePrefix::parse(std::string_view text) {
    LinePrefix prefix;
    while (!text.empty()) {
        const auto brace = text.find_first_of("{}");
        prefix.add_text(text.substr(0, brace));
        if (brace == std::string_view::npos) break;
        text.remove_prefix(brace);
        if (text.size() > 1 && text[0] == text[1]) {
            prefix.add_text(text.substr(0, 1));
            text.remove_prefix(2);
            continue;
        }
        const auto end = text.front() == '{' ? text.find('}') : std::string_view::npos;
        if (end == std::string_view::npos) {
            return fmt::format("'{}' has a brace without its other half ({{{{ and }}}} are braces)", text);
        }
        const auto field = field_named(text.substr(1, end - 1), Grammar::ours);
        if (!field) {
            return fmt::format(
                "'{}' is none of {{host}} {{rank}} {{local_rank}} {{role}} {{time}} {{stream}}",
                text.substr(0, end + 1));
        }
        prefix.add_field(*field);
        text.remove_prefix(end + 1);
    }
    return prefix;
}

LinePrefix LinePrefix::parse_dollar(std::string_view text) {
    LinePrefix prefix;
    while (!text.empty()) {
        const auto dollar = text.find('$');
        prefix.add_text(text.substr(0, dollar));
        if (dollar == std::string_view::npos) break;
        text.remove_prefix(dollar);
        if (text.size() > 1 && text[1] == '$') {
            prefix.add_text("$");
            text.remove_prefix(2);
            continue;
        }
        const auto [name, size] = dollar_name(text);
        const auto field = field_named(name, Grammar::torchruns);
        if (field) {
            prefix.add_field(*field);
        } else {
            prefix.add_text(text.substr(0, size));
        }
        text.remove_prefix(size);
    }
    return prefix;
}

LinePrefix LinePrefix::tee_header() { return parse_dollar("[${role_name}${local_rank}]:"); }

bool LinePrefix::uses_time() const {
    return std::any_of(pieces_.begin(), pieces_.end(),
                       [](const Piece& piece) { return piece.field == Field::time; });
}

LinePrefix LinePrefix::with(const LineOrigin& origin) const {
    LinePrefix result;
    for (const Piece& piece : pieces_) {
        if (piece.field == Field::time) {
            result.add_field(Field::time);
        } else {
            result.add_text(value(piece, origin));
        }
    }
    return result;
}

std::string LinePrefix::render(std::string_view time) const {
    std::string text;
    for (const Piece& piece : pieces_) text += piece.field == Field::time ? time : piece.text;
    return text;
}

std::string LinePrefix::value(const Piece& piece, const LineOrigin& origin) {
    switch (piece.field) {
        case Field::literal:
        case Field::time: return piece.text;
        case Field::host: return origin.host;
        case Field::rank: return std::to_string(origin.rank);
        case Field::local_rank: return std::to_string(origin.local_rank);
        case Field::role: return origin.role;
        case Field::stream: return origin.stream;
    }
    return {};
}

void LinePrefix::add_text(std::string_view text) {
    if (text.empty()) return;
    if (pieces_.empty() || pieces_.back().field != Field::literal) pieces_.emplace_back();
    pieces_.back().text += text;
}

namespace {

constexpr std::string_view kNullDevice = "/dev/null";

int bit(OutputStream stream) { return stream == OutputStream::out ? 1 : 2; }

std::optional<int> stream_value(std::string_view text) {
    if (text.size() != 1 || text[0] < '0' || text[0] > '3') return std::nullopt;
    return text[0] - '0';
}

std::variant<StreamChoice, std::string> parse_choice(std::string_view text) {
    static const std::string wanted =
        "must be 0 none, 1 stdout, 2 stderr or 3 both; or one of these by local rank, like 0:3,1:1";
    StreamChoice choice;
    if (const auto value = stream_value(text)) {
        choice.everywhere = *value;
        return choice;
    }
    for (;;) {
        const auto comma = text.find(',');
        const auto part = text.substr(0, comma);
        const auto colon = part.find(':');
        if (colon == std::string_view::npos) return wanted;
        const auto local_rank = whole_number<int>(part.substr(0, colon), 0);
        const auto value = stream_value(part.substr(colon + 1));
        if (!local_rank || !value) return wanted;
        choice.by_local_rank[*local_rank] = *value;
        if (comma == std::string_view::npos) return choice;
        text.remove_prefix(comma + 1);
    }
}

std::variant<LinePrefix, std::string> parse_prefix(std::string_view text) {
    if (text == "none") return LinePrefix();
    return LinePrefix::parse(text.empty() ? kDefaultPrefix : text);
}

std::variant<std::uint64_t, std::string> parse_log_max(std::string_view text) {
    const auto size = parse_size(text);
    if (!size) return "not a size: bytes, or a number with K, M or G behind it";
    if (*size < kMinLogMax) return "at least 4K";
    return *size;
}

// It cuts at single commas; two commas are one inside a part. Empty parts would match every line.
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

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
    constexpr std::string_view kUnits = "KMG";
    std::uint64_t unit = 1;
    if (!text.empty()) {
        const auto at = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
        if (at != std::string_view::npos) {
            unit <<= 10 * (at + 1);
            text.remove_suffix(1);
        }
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
    return everywhere != 0 || std::any_of(by_local_rank.begin(), by_local_rank.end(),
                                          [](const auto& entry) { return entry.second != 0; });
}

std::optional<std::string> StreamChoice::beyond(int count) const {
    if (by_local_rank.empty() || by_local_rank.rbegin()->first < count) return std::nullopt;
    const auto& [local_rank, value] = *by_local_rank.rbegin();
    return fmt::format("{}:{}", local_rank, value);
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
    std::optional<std::string> wrong;
    const auto take = [&wrong](std::string_view flag, std::string_view text, auto parsed, auto& part) {
        if (const auto* why = std::get_if<std::string>(&parsed)) {
            if (!wrong) wrong = fmt::format("{} '{}': {}", flag, text, *why);
        } else {
            part = std::get<0>(std::move(parsed));
        }
    };
    const auto take_unless_empty = [&take](std::string_view flag, const std::string& text, auto parse,
                                           auto& part) {
        if (!text.empty()) take(flag, text, parse(text), part);
    };
    take_unless_empty("--redirects", options.redirects, parse_choice, plan.redirects);
    take_unless_empty("--tee", options.tee, parse_choice, plan.tee);
    take_unless_empty("--local-ranks-filter", options.local_ranks_filter, parse_rank_set,
                      plan.local_ranks_shown);
    take_unless_empty("--show", options.show, parse_rank_set, plan.ranks_shown);
    if (options.prefix) take("--prefix", *options.prefix, parse_prefix(*options.prefix), plan.prefix);
    take_unless_empty("--log-max", options.log_max, parse_log_max, plan.log_max);
    if (const auto why = path_complaint(options.log_dir); why && !wrong)
        wrong = fmt::format("--log-dir '{}': {}", options.log_dir, *why);
    if (wrong) return *wrong;
    plan.out_filters = split_filters(options.duplicate_stdout_filters);
    plan.err_filters = split_filters(options.duplicate_stderr_filters);
    if (!options.log_line_prefix_template.empty()) {
        plan.tee_header = LinePrefix::parse_dollar(options.log_line_prefix_template);
    }
    plan.log_dir = options.log_dir;
    plan.files = options.log_dir != kNullDevice;
    return plan;
}

}  // namespace launch
}  // namespace ddprun
