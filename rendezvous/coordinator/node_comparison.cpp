#include "rendezvous/coordinator/node_comparison.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace job {
namespace {

using Nodes = std::vector<const JobNode*>;

// The nodes that have one value; nullptr: those without the trait.
struct Camp {
    const std::string* value = nullptr;
    Nodes nodes;
};

using Usual = NodeComparison::Usual;

const std::string* value_of(const std::vector<NodeTrait>& traits, std::string_view name) {
    const auto found = std::find_if(traits.begin(), traits.end(),
                                    [name](const NodeTrait& trait) { return trait.name == name; });
    return found == traits.end() ? nullptr : &found->value;
}

// The largest first, and of as large ones that with the lowest node.
std::vector<Camp> camps_of(const Nodes& nodes, std::string_view name) {
    std::vector<Camp> camps;
    std::map<std::optional<std::string_view>, std::size_t> places;
    for (const JobNode* node : nodes) {
        const std::string* value = value_of(node->hello.traits, name);
        const auto key = value == nullptr ? std::nullopt : std::optional<std::string_view>(*value);
        const auto [place, is_new] = places.emplace(key, camps.size());
        if (is_new) camps.push_back({value, {}});
        camps[place->second].nodes.push_back(node);
    }
    std::stable_sort(camps.begin(), camps.end(),
                     [](const Camp& a, const Camp& b) { return a.nodes.size() > b.nodes.size(); });
    return camps;
}

constexpr const char* kArguments = "arguments";

std::string shown(std::string_view name, const std::string* value) {
    if (value == nullptr) return "not set";
    if (is_hidden_value(*value))
        return fmt::format("a {} that is not shown", name == kArguments ? "word" : "value");
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

// `others`: who has the usual value; nobody's names where they are those of an earlier round.
std::string sentence(std::string_view name, const std::vector<Camp>& camps, const Camp& others) {
    std::string text = fmt::format("nodes differ in {}: ", name);
    for (std::size_t i = 0; i < std::min(camps.size(), kMaxValuesNamed); ++i) {
        const Camp& camp = camps[i];
        const char* verb = i > 0 ? "" : camp.nodes.size() == 1 ? "has " : "have ";
        text += fmt::format("{} {}{}{}, ", named(camp.nodes), verb,
                            i == 0 && camp.value == nullptr ? "it " : "", shown(name, camp.value));
    }
    if (camps.size() > kMaxValuesNamed)
        text += fmt::format("{} other values, ", camps.size() - kMaxValuesNamed);
    text += fmt::format("{} {}", others.nodes.size() == 1 ? named(others.nodes) : "the others",
                        shown(name, others.value));
    return cut_text(text, kMaxDifferenceText);
}

// So it nearly always is.
bool all_have(const Nodes& nodes, const std::vector<NodeTrait>& traits) {
    return std::all_of(nodes.begin(), nodes.end(),
                       [&traits](const JobNode* node) { return node->hello.traits == traits; });
}

// The key is a trait's name; the value says whether it is one of the program's.
using Names = std::map<std::string_view, bool>;

void add_names(Names& names, const std::vector<NodeTrait>& traits) {
    for (const NodeTrait& trait : traits) {
        if (names.size() < kMaxTraitsCompared) names.emplace(trait.name, trait.of_program);
    }
}

Usual usual_of(const Nodes& nodes) {
    Usual usual;
    usual.programs_may_differ = std::any_of(nodes.begin(), nodes.end(),
                                            [](const JobNode* node) { return node->hello.allow_different; });
    usual.traits = nodes.front()->hello.traits;
    usual.command = nodes.front()->hello.command;
    if (all_have(nodes, usual.traits)) return usual;
    usual.traits.clear();
    Names names;
    for (const JobNode* node : nodes) add_names(names, node->hello.traits);
    for (const auto& [name, of_program] : names) {
        const Camp most = camps_of(nodes, name).front();
        if (most.value != nullptr) usual.traits.push_back({std::string(name), *most.value, of_program});
    }
    return usual;
}

struct Sentences {
    std::vector<std::string> told;
    std::size_t untold = 0;

    std::vector<std::string> all() {
        if (untold > 0) told.back() = fmt::format("nodes differ in {} more", untold + 1);
        return std::move(told);
    }
};

// `are_first`: the usual is what most of them have.
void compare(const Nodes& nodes, const Usual& usual, bool are_first, Sentences& sentences) {
    if (all_have(nodes, usual.traits)) return;
    const bool programs_may = usual.programs_may_differ ||
                              std::any_of(nodes.begin(), nodes.end(),
                                          [](const JobNode* node) { return node->hello.allow_different; });
    Names names;
    add_names(names, usual.traits);
    for (const JobNode* node : nodes) add_names(names, node->hello.traits);
    for (const auto& [name, of_program] : names) {
        if (of_program && programs_may) continue;
        std::vector<Camp> camps = camps_of(nodes, name);
        Camp others{value_of(usual.traits, name), {}};
        const auto same = std::find_if(camps.begin(), camps.end(), [&others](const Camp& camp) {
            return camp.value == nullptr || others.value == nullptr ? camp.value == others.value
                                                                    : *camp.value == *others.value;
        });
        if (same != camps.end()) {
            if (are_first) others.nodes = same->nodes;
            camps.erase(same);
        }
        if (camps.empty()) continue;
        if (sentences.told.size() < kMaxDifferencesTold) {
            sentences.told.push_back(sentence(name, camps, others));
        } else {
            ++sentences.untold;
        }
    }
}

// Compares commands whose programs are alike, as a trait that has no more than what differs.
void compare_arguments(const Nodes& nodes, const Usual& usual, bool are_first, Sentences& sentences) {
    std::vector<const JobCommand*> commands{&usual.command};
    for (const JobNode* node : nodes) commands.push_back(&node->hello.command);
    if (std::all_of(commands.begin(), commands.end(), [&usual](const JobCommand* command) {
            return command->whole == usual.command.whole || command->digest != usual.command.digest;
        }))
        return;
    std::vector<std::string> words = differing_words(commands);
    // What differs is not shown, or lies behind what travels.
    const bool is_hidden =
        std::all_of(words.begin(), words.end(), [](const auto& text) { return text.empty(); });
    for (std::size_t i = 0; is_hidden && i < words.size(); ++i) words[i] = hidden_value(commands[i]->whole);
    std::vector<JobNode> differing(nodes.size());
    Nodes shown;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        Hello& hello = differing[i].hello;
        hello.node_rank = nodes[i]->hello.node_rank;
        hello.host = nodes[i]->hello.host;
        hello.allow_different = nodes[i]->hello.allow_different;
        hello.traits = {{kArguments, words[i + 1], true}};
        shown.push_back(&differing[i]);
    }
    Usual most;
    if (are_first) most = usual_of(shown);
    if (most.traits.empty()) most.traits = {{kArguments, words.front(), true}};
    most.programs_may_differ = usual.programs_may_differ;
    compare(shown, most, are_first, sentences);
}

std::string joined(std::string text, const std::vector<std::string>& differences) {
    const char* before = ": ";
    for (const std::string& difference : differences) {
        text += before + difference;
        before = "; ";
    }
    return text;
}

}  // namespace

std::vector<std::string> NodeComparison::learn(JobNodes& nodes) {
    std::map<std::string_view, Nodes> by_role;
    for (const auto& [rank, node] : nodes) {
        if (!node.is_compared && node.hello.local_world_size > 0) by_role[node.hello.role].push_back(&node);
    }
    Sentences sentences;
    for (const auto& [role, alike] : by_role) {
        const auto known = by_role_.find(role);
        if (known != by_role_.end()) {
            compare(alike, known->second, false, sentences);
            compare_arguments(alike, known->second, false, sentences);
            continue;
        }
        Usual usual = usual_of(alike);
        compare(alike, usual, true, sentences);
        compare_arguments(alike, usual, true, sentences);
        if (by_role_.size() < kMaxRolesCompared) by_role_.emplace(role, std::move(usual));
    }
    for (auto& [rank, node] : nodes) {
        node.is_compared = true;
        node.hello.traits = {};
    }
    return sentences.all();
}

std::vector<std::string> NodeComparison::against(const Hello& newcomer) const {
    const auto known = by_role_.find(newcomer.role);
    if (known == by_role_.end() || newcomer.local_world_size == 0) return {};
    const JobNode node{.hello = newcomer};
    Sentences sentences;
    compare({&node}, known->second, false, sentences);
    compare_arguments({&node}, known->second, false, sentences);
    return sentences.all();
}

Refused refused_for(const std::vector<std::string>& differences) {
    return {joined("the job is refused by --strict-env on node 0", differences), kExitNotAdmitted};
}

Refused newcomer_refused_for(const std::vector<std::string>& differences) {
    return {joined("--strict-env lets in no node that differs", differences), kExitNotAdmitted};
}

}  // namespace job
}  // namespace ddprun
