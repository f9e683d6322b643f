#include "rendezvous/coordinator/node_differences.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "rendezvous/coordinator/control_text.hpp"
#include "rendezvous/job/json_codec.hpp"

namespace ddprun {
namespace {

using Nodes = std::vector<const JobNode*>;

// The nodes that have one value; nullptr: those without the trait.
struct Camp {
    const std::string* value = nullptr;
    Nodes nodes;
};

const std::string* value_of(const JobNode& node, std::string_view name) {
    const auto& traits = node.hello.traits;
    const auto found = std::find_if(traits.begin(), traits.end(),
                                    [name](const NodeTrait& trait) { return trait.name == name; });
    return found == traits.end() ? nullptr : &found->value;
}

// The largest first, and of as large ones that with the lowest node.
std::vector<Camp> camps_of(const Nodes& nodes, std::string_view name) {
    std::vector<Camp> camps;
    std::map<std::optional<std::string_view>, std::size_t> places;
    for (const JobNode* node : nodes) {
        const std::string* value = value_of(*node, name);
        const auto key = value == nullptr ? std::nullopt : std::optional<std::string_view>(*value);
        const auto [place, is_new] = places.emplace(key, camps.size());
        if (is_new) camps.push_back({value, {}});
        camps[place->second].nodes.push_back(node);
    }
    std::stable_sort(camps.begin(), camps.end(),
                     [](const Camp& a, const Camp& b) { return a.nodes.size() > b.nodes.size(); });
    return camps;
}

std::string shown(const std::string* value) {
    if (value == nullptr) return "not set";
    std::string text = *value;
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return fmt::format("\"{}\"", text);
}

std::string named(const Nodes& nodes) {
    std::string text;
    const std::size_t listed = std::min(nodes.size(), kMaxNodesNamed);
    for (std::size_t i = 0; i < listed; ++i) {
        const bool is_last = i + 1 == nodes.size();
        text += i == 0 ? "" : is_last ? " and " : ", ";
        text += node_text(nodes[i]->hello.node_rank, nodes[i]->hello.host);
    }
    return listed < nodes.size() ? fmt::format("{} and {} more", text, nodes.size() - listed) : text;
}

std::string sentence(std::string_view name, std::vector<Camp> camps) {
    const Camp most = std::move(camps.front());
    camps.erase(camps.begin());
    std::string text = fmt::format("nodes differ in {}: ", name);
    for (std::size_t i = 0; i < std::min(camps.size(), kMaxValuesNamed); ++i) {
        const Camp& camp = camps[i];
        const char* verb = i > 0 ? "" : camp.nodes.size() == 1 ? "has " : "have ";
        text += fmt::format("{} {}{}{}, ", named(camp.nodes), verb,
                            i == 0 && camp.value == nullptr ? "it " : "", shown(camp.value));
    }
    if (camps.size() > kMaxValuesNamed)
        text += fmt::format("{} other values, ", camps.size() - kMaxValuesNamed);
    text +=
        fmt::format("{} {}", most.nodes.size() == 1 ? named(most.nodes) : "the others", shown(most.value));
    return cut_text(text, kMaxDifferenceText);
}

void compare(const Nodes& nodes, std::vector<std::string>& sentences, std::size_t& untold) {
    // So it nearly always is.
    const auto& first = nodes.front()->hello.traits;
    if (std::all_of(nodes.begin(), nodes.end(),
                    [&first](const JobNode* node) { return node->hello.traits == first; }))
        return;
    const bool programs_may = std::any_of(nodes.begin(), nodes.end(),
                                          [](const JobNode* node) { return node->hello.allow_different; });
    std::set<std::string_view> names;
    for (const JobNode* node : nodes) {
        for (const NodeTrait& trait : node->hello.traits) {
            if (!(trait.of_program && programs_may) && names.size() < kMaxTraitsCompared)
                names.insert(trait.name);
        }
    }
    for (const std::string_view name : names) {
        std::vector<Camp> camps = camps_of(nodes, name);
        if (camps.size() == 1) continue;
        if (sentences.size() < kMaxDifferencesTold) {
            sentences.push_back(sentence(name, std::move(camps)));
        } else {
            ++untold;
        }
    }
}

}  // namespace

std::vector<std::string> differences_of(const JobNodes& nodes) {
    std::map<std::string_view, Nodes> by_role;
    for (const auto& [rank, node] : nodes) {
        if (node.hello.local_world_size > 0) by_role[node.hello.role].push_back(&node);
    }
    std::vector<std::string> sentences;
    std::size_t untold = 0;
    for (const auto& [role, alike] : by_role) compare(alike, sentences, untold);
    if (untold > 0) sentences.back() = fmt::format("nodes differ in {} more", untold + 1);
    return sentences;
}

Refused refused_for(const std::vector<std::string>& differences) {
    std::string reason = "the job is refused by --strict-env on node 0";
    const char* before = ": ";
    for (const std::string& difference : differences) {
        reason += before + difference;
        before = "; ";
    }
    return {std::move(reason), kExitNotAdmitted};
}

}  // namespace ddprun
