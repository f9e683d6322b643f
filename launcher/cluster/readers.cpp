#include "launcher/cluster/readers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxListShown = 120;

}  // namespace

const std::string* text_of(const ClusterView& view, std::string_view variable) {
    if (variable.empty()) return nullptr;
    const std::string* text = find_variable(view.environment, variable);
    return text != nullptr && text->empty() ? nullptr : text;
}

std::optional<int> number_of(const ClusterView& view, std::string_view variable, int lowest) {
    const std::string* text = text_of(view, variable);
    return text != nullptr ? whole_number<int>(*text, lowest) : std::nullopt;
}

std::string wrong_number(const ClusterView& view, std::string_view variable, int lowest) {
    const std::string* text = text_of(view, variable);
    if (text == nullptr || number_of(view, variable, lowest)) return {};
    return lack_of(view, variable, fmt::format("no whole number from {} on", lowest));
}

std::string lack_of(const ClusterView& view, std::string_view variable, std::string_view wanted) {
    const std::string* text = text_of(view, variable);
    return text == nullptr
               ? fmt::format("{} is not set", variable)
               : fmt::format("{}={} is {}", variable, harmless_line(*text, kMaxListShown), wanted);
}

std::optional<Named> first_of(const ClusterView& view, const std::vector<std::string_view>& variables) {
    for (const std::string_view variable : variables) {
        if (const std::string* text = text_of(view, variable)) return Named{std::string(variable), *text};
    }
    return std::nullopt;
}

bool is_own_name(const ClusterView& view, const std::string& name) {
    return position_of(view.host_name, {name}).has_value() ||
           std::find(view.addresses.begin(), view.addresses.end(), name) != view.addresses.end();
}

std::optional<int> own_position(const ClusterView& view, const std::vector<std::string>& hosts) {
    if (const auto position = position_of(view.host_name, hosts)) return position;
    std::optional<int> found;
    for (std::size_t place = 0; place < hosts.size(); ++place) {
        const bool is_ours =
            std::find(view.addresses.begin(), view.addresses.end(), hosts[place]) != view.addresses.end();
        if (!is_ours) continue;
        if (found) return std::nullopt;
        found = static_cast<int>(place);
    }
    return found;
}

void claim(FamilyFacts& facts, Fact fact, std::string value, std::string_view source) {
    facts.claims.try_emplace(fact, Claim{std::move(value), std::string(source), Belief::assumed});
}

void claim_told(const ClusterView& view, FamilyFacts& facts, Fact fact, std::string_view variable,
                std::string_view before) {
    if (const std::string* text = text_of(view, variable))
        claim(facts, fact, std::string(before) + *text, variable);
}

void claim_number(const ClusterView& view, FamilyFacts& facts, Fact fact, std::string_view variable,
                  int lowest) {
    if (const auto number = number_of(view, variable, lowest))
        claim(facts, fact, std::to_string(*number), variable);
}

void refuse(FamilyFacts& facts, std::string conflict) {
    if (facts.conflict.empty()) facts.conflict = std::move(conflict);
}

void refuse_wrong_number(const ClusterView& view, FamilyFacts& facts, std::string_view variable, int lowest) {
    std::string wrong = wrong_number(view, variable, lowest);
    if (wrong.empty() || !facts.conflict.empty()) return;
    facts.conflict = std::move(wrong);
    facts.is_malformed = true;
}

std::optional<int> take_number(const ClusterView& view, FamilyFacts& facts, std::string_view variable,
                               int lowest) {
    refuse_wrong_number(view, facts, variable, lowest);
    return number_of(view, variable, lowest);
}

void claim_master(const ClusterView& view, FamilyFacts& facts) {
    claim_told(view, facts, Fact::master_addr, "MASTER_ADDR");
    claim_told(view, facts, Fact::master_port, "MASTER_PORT");
}

bool take_host_list(const ClusterView& view, FamilyFacts& facts, std::string_view variable) {
    const std::string* text = text_of(view, variable);
    if (text == nullptr) return false;
    const auto hosts = expand_host_list(*text);
    if (const auto* wrong = std::get_if<std::string>(&hosts)) {
        const std::string shown = harmless_line(*text, kMaxListShown);
        facts.conflict = wrong->starts_with(shown) ? fmt::format("{}: {}", variable, *wrong)
                                                   : fmt::format("{}={}: {}", variable, shown, *wrong);
        return false;
    }
    for (const std::string& name : std::get<std::vector<std::string>>(hosts))
        facts.hosts.push_back({name, 0});
    facts.hosts_source = variable;
    return true;
}

void claim_listed(FamilyFacts& facts) {
    if (facts.hosts.empty()) return;
    claim(facts, Fact::nnodes, std::to_string(facts.hosts.size()), facts.hosts_source);
    claim(facts, Fact::master_addr, facts.hosts.front().name, facts.hosts_source);
}

void claim_listed_hosts(const ClusterView& view, FamilyFacts& facts) {
    claim_listed(facts);
    if (const auto position = own_position(view, names_of(facts.hosts)))
        claim(facts, Fact::node_rank, std::to_string(*position), facts.hosts_source);
}

const std::string* named_file(const ClusterView& view, std::string_view variable) {
    const std::string* path = text_of(view, variable);
    if (path == nullptr) return nullptr;
    const auto file = view.files.find(*path);
    return file == view.files.end() ? nullptr : &file->second;
}

std::vector<ListedHost> count_repeats(const std::vector<std::string_view>& words) {
    std::vector<ListedHost> hosts;
    std::unordered_map<std::string_view, std::size_t> places;
    for (const std::string_view word : words) {
        if (word.size() > kMaxHostText) return {};
        const auto [place, is_new] = places.try_emplace(word, hosts.size());
        if (is_new && hosts.size() == kMaxListedHosts) return {};
        if (is_new) hosts.push_back({std::string(word), 0});
        ++hosts[place->second].slots;
    }
    return hosts;
}

std::string count_conflict(std::string_view variable, std::optional<int> count, std::string_view list,
                           const std::vector<ListedHost>& hosts) {
    if (!count || hosts.empty() || static_cast<std::size_t>(*count) == hosts.size()) return {};
    return fmt::format("{}={}, but {} has {} hosts", variable, *count, list, hosts.size());
}

}  // namespace launch
}  // namespace ddprun
