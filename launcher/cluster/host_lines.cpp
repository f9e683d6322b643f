#include "launcher/cluster/host_lines.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "rendezvous/job/failure.hpp"

namespace ddprun::inline launch {

std::vector<std::string_view> words_between_blanks(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r\n";
    std::vector<std::string_view> words;
    for (;;) {
        text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
        if (text.empty()) return words;
        const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
        words.push_back(word);
        text.remove_prefix(word.size());
    }
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

const std::string* named_file(const ClusterView& view, std::string_view variable) {
    const std::string* path = text_of(view, variable);
    if (path == nullptr) return nullptr;
    const auto file = view.files.find(*path);
    return file == view.files.end() ? nullptr : &file->second;
}

std::string count_conflict(std::string_view variable, std::optional<int> count, std::string_view list,
                           const std::vector<ListedHost>& hosts) {
    if (!count || hosts.empty() || static_cast<std::size_t>(*count) == hosts.size()) return {};
    return fmt::format("{}={}, but {} has {} hosts", variable, *count, list, hosts.size());
}

void claim_listed_hosts(const ClusterView& view, FamilyFacts& facts) {
    if (facts.hosts.empty()) return;
    claim(facts, Fact::nnodes, std::to_string(facts.hosts.size()), facts.hosts_source);
    claim(facts, Fact::master_addr, facts.hosts.front().name, facts.hosts_source);
    if (const auto position = own_position(view, names_of(facts.hosts)))
        claim(facts, Fact::node_rank, std::to_string(*position), facts.hosts_source);
}

}  // namespace ddprun::inline launch
