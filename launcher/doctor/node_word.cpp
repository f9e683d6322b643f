#include "launcher/doctor/node_word.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/doctor/report_rules.hpp"

namespace ddprun::inline launch {
namespace {

template <class Whole>
std::string json_text(const Whole& whole) {
    boost::json::object root;
    put_members<ReportRules>(root, whole);
    return boost::json::serialize(root);
}

template <class Whole>
std::optional<Whole> parse_whole(std::string_view text, std::size_t limit) {
    if (text.size() > limit) return std::nullopt;
    const auto root = parse_json_object(text, kMaxReportDepth);
    Whole whole;
    if (!root || !take_members<ReportRules>(*root, whole)) return std::nullopt;
    return whole;
}

std::string gpus_text(const GpuFacts& gpu) {
    return gpu.devices.count == 0 ? "none" : std::to_string(gpu.devices.count);
}

}  // namespace

std::vector<NodeFact> node_facts(const Surroundings& seen) {
    std::vector<NodeFact> facts{{"ddprun", seen.version},      {"compiler", seen.compiler},
                                {"glibc", seen.glibc},         {"machine", seen.machine},
                                {"gpus", gpus_text(seen.gpu)}, {"driver", seen.gpu.driver}};
    if (seen.python) {
        facts.push_back({"python", seen.python->version});
        // Where it lies differs by nature.
        facts.push_back({"pytorch", seen.python->torch.substr(0, seen.python->torch.find(' '))});
    }
    facts.push_back({"kernel", seen.kernel});
    return facts;
}

bool is_sound(const Roster& roster) {
    const bool is_ordered = std::is_sorted(roster.nodes.begin(), roster.nodes.end(),
                                           [](const auto& a, const auto& b) { return a.rank < b.rank; });
    return roster.token.size() == kMeetingTokenSize && is_ordered;
}

std::string to_json(const NodeWord& word) { return json_text(word); }
std::string to_json(const Roster& roster) { return json_text(roster); }
std::string to_json(const NodeTidings& tidings) { return json_text(tidings); }

std::optional<NodeWord> parse_node_word(std::string_view text) {
    return parse_whole<NodeWord>(text, kMaxReportText);
}

std::optional<Roster> parse_roster(std::string_view text) {
    return parse_whole<Roster>(text, kMaxReportText);
}

std::optional<NodeTidings> parse_node_tidings(std::string_view text, int from, int nodes) {
    auto tidings = parse_whole<NodeTidings>(text, kMaxTidingsText);
    if (!tidings) return std::nullopt;
    const bool is_own = std::all_of(tidings->pairs.begin(), tidings->pairs.end(), [&](const PairReach& pair) {
        return pair.from == from && pair.to >= 0 && pair.to < nodes && pair.to != from;
    });
    return is_own ? tidings : std::nullopt;
}

}  // namespace ddprun::inline launch
