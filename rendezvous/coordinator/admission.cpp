#include "rendezvous/coordinator/admission.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/control/control_text.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace job {

namespace {

Refused not_admitted(std::string reason) { return {std::move(reason), kExitNotAdmitted}; }

std::string nodes_text(int least, int most) {
    return least == 0 ? std::to_string(most) : fmt::format("{}:{}", least, most);
}

std::optional<Refused> compare_terms(const Hello& newcomer, const JobTerms& terms) {
    if (newcomer.version != terms.version) {
        return not_admitted(
            fmt::format("this agent is ddprun {}, and node 0 is of another version; install one on all nodes",
                        newcomer.version));
    }
    if (newcomer.run_id != terms.run_id) {
        return not_admitted(
            fmt::format("this agent's --rdzv-id is \"{}\", and the port that it has reached "
                        "belongs to another job; node 0 of that one says more",
                        newcomer.run_id));
    }
    if (newcomer.nnodes != terms.nnodes || newcomer.min_nodes != terms.min_nodes) {
        return not_admitted(fmt::format("this agent's --nnodes is {}, but node 0 has --nnodes {}",
                                        nodes_text(newcomer.min_nodes, newcomer.nnodes),
                                        nodes_text(terms.min_nodes, terms.nnodes)));
    }
    const bool is_numbered = newcomer.node_rank != kUnnumbered;
    if (is_numbered && (newcomer.node_rank < 0 || newcomer.node_rank >= terms.nnodes)) {
        return not_admitted(fmt::format("--node-rank {} is out of range: --nnodes is {}", newcomer.node_rank,
                                        nodes_text(terms.min_nodes, terms.nnodes)));
    }
    return std::nullopt;
}

}  // namespace

std::optional<Refused> reason_to_refuse(const Hello& newcomer, const JobTerms& terms,
                                        const Company& company) {
    if (auto refused = compare_terms(newcomer, terms)) return refused;
    if (const Hello* holder = company.holder) {
        return not_admitted(fmt::format("--node-rank {} has already joined from {} (agent pid {})",
                                        newcomer.node_rank, holder->host, holder->pid));
    }
    const Hello* other = company.companion;
    if (other == nullptr || newcomer.allow_different || other->allow_different) return std::nullopt;
    if (newcomer.command.digest == other->command.digest) return std::nullopt;
    return not_admitted(
        fmt::format("this agent runs \"{}\", but {} runs \"{}\"; for two jobs give each an --rdzv-id and a "
                    "--master-port of its own, for one job of different programs --allow-different",
                    shown_beside(newcomer.command, other->command), node_text(other->node_rank, other->host),
                    shown_beside(other->command, newcomer.command)));
}

bool is_same_agent(const Hello& one, const Hello& other) {
    return one.host == other.host && one.pid == other.pid && one.nonce == other.nonce;
}

Company company_of(const Hello& newcomer, const std::optional<Hello>& own, const JobNode* holder,
                   const JobNodes& nodes) {
    Company company;
    if (holder != nullptr && !is_same_agent(holder->hello, newcomer)) company.holder = &holder->hello;
    if (own && !is_same_agent(*own, newcomer)) {
        if (newcomer.node_rank == own->node_rank && own->node_rank != kUnnumbered) company.holder = &*own;
        if (newcomer.role == own->role) company.companion = &*own;
    }
    if (company.companion != nullptr) return company;
    const auto same_role = std::find_if(nodes.begin(), nodes.end(), [&newcomer](const auto& entry) {
        return entry.second.hello.role == newcomer.role;
    });
    if (same_role != nodes.end()) company.companion = &same_role->second.hello;
    return company;
}

bool is_stranger(const Hello& newcomer, const JobTerms& terms) {
    return newcomer.version != terms.version || newcomer.run_id != terms.run_id;
}

std::string what_is_strange(const Hello& newcomer, const JobTerms& terms) {
    if (newcomer.version != terms.version)
        return fmt::format("it is ddprun {}, and this node is ddprun {}; install one version on all nodes",
                           newcomer.version, terms.version);
    return fmt::format("its --rdzv-id is \"{}\", and this job's is \"{}\"", newcomer.run_id, terms.run_id);
}

Refused came_too_late() { return {"the job is over", kExitUnavailable}; }
Refused has_all_nodes(int nodes) {
    return {fmt::format("the job runs on all of its {} nodes, and takes no others", nodes), kExitUnavailable};
}
Refused too_many_wait() {
    return {fmt::format("the job runs, and {} nodes wait for a place in it already", kMaxQueued),
            kExitUnavailable};
}
Refused left_out_before(const std::string& host, const std::string& why) {
    return not_admitted(fmt::format("{} is left out of the job: {}", host, why));
}
Refused said_hello_before() { return not_admitted("this agent has said Hello before"); }
Refused said_no_hello() { return not_admitted("say Hello first"); }

namespace {

bool is_own(const JobNode& node, int rank, int local_rank) {
    return node.has_rank(rank) && local_rank < node.hello.local_world_size;
}

struct Claims {
    const JobNode& node;

    bool operator()(const WorkerFailed& failed) const { return is_own_failure(failed.failure); }
    bool operator()(const WorkersGone& gone) const { return !gone.failure || is_own_failure(*gone.failure); }
    bool operator()(const WorkerDying& dying) const { return node.has_rank(dying.rank); }
    bool operator()(const RankSucceeded& succeeded) const { return node.has_rank(succeeded.rank); }
    bool operator()(const RankEnds& ends) const {
        return std::all_of(ends.ends.begin(), ends.ends.end(),
                           [this](const RankEnd& end) { return is_own(node, end.rank, end.local_rank); });
    }
    bool operator()(const StillRunning& running) const {
        return running.count <= node.hello.local_world_size &&
               std::all_of(running.ranks.begin(), running.ranks.end(), [this](const RankRange& range) {
                   return node.has_rank(range.first) && node.has_rank(range.last);
               });
    }
    template <typename Other>
    bool operator()(const Other&) const {
        return true;
    }

    bool is_own_failure(const Failure& failure) const {
        return failure.kind == Failure::Kind::worker_failed && is_own(node, failure.rank, failure.local_rank);
    }
};

}  // namespace

bool can_be_true(const ControlMessage& message, const JobNode& from) {
    return std::visit(Claims{from}, message);
}

namespace {

std::string key_of_node(const Hello& hello) {
    return hello.node_rank == kUnnumbered ? fmt::format("{} {} {}", hello.host, hello.pid, hello.nonce)
                                          : std::to_string(hello.node_rank);
}

}  // namespace

void UnfitNodes::learn(const Hello& hello, bool is_host) {
    const std::string key = key_of_node(hello);
    nodes_.erase(key);
    if (is_host) host_.reset();
    if (hello.unfit.empty()) return;
    UnfitNode node{hello.node_rank == kUnnumbered ? hello.host : node_text(hello.node_rank, hello.host),
                   hello.unfit};
    if (is_host) {
        host_ = std::move(node);
    } else {
        nodes_[key] = std::move(node);
    }
}

std::optional<Refused> UnfitNodes::fault(int nnodes, int least) const {
    const UnfitNode* culprit = host_ ? &*host_ : nullptr;
    if (culprit == nullptr && nnodes - left_out() < least) culprit = &nodes_.begin()->second;
    if (culprit == nullptr) return std::nullopt;
    std::string reason =
        fmt::format("there is no job, since {} is not fit for it (--check): {}", culprit->name, culprit->why);
    if (host_) {
        reason += "; it hosts the job, which cannot do without it";
    } else if (left_out() > 1) {
        reason += fmt::format("; and {} more", left_out() - 1);
    }
    return Refused{std::move(reason), kExitSystem};
}

Refused UnfitNodes::refusal(const Hello& hello) {
    return {"it is not fit for the job (--check): " + hello.unfit, kExitSystem};
}

std::string Exclusion::reason(int place, const std::string& host) const {
    const int rounds = rounds_of(place, host);
    return fmt::format("its workers failed first in {} round{} (--exclude-after {})", rounds,
                       rounds == 1 ? "" : "s", after_);
}

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

// `others`: who has the usual value; nobody's names where they are those of an earlier round.
std::string sentence(std::string_view name, const std::vector<Camp>& camps, const Camp& others) {
    std::string text = fmt::format("nodes differ in {}: ", name);
    for (std::size_t i = 0; i < std::min(camps.size(), kMaxValuesNamed); ++i) {
        const Camp& camp = camps[i];
        const char* verb = i > 0 ? "" : camp.nodes.size() == 1 ? "has " : "have ";
        text += fmt::format("{} {}{}{}, ", named(camp.nodes), verb,
                            i == 0 && camp.value == nullptr ? "it " : "", shown(camp.value));
    }
    if (camps.size() > kMaxValuesNamed)
        text += fmt::format("{} other values, ", camps.size() - kMaxValuesNamed);
    text += fmt::format("{} {}", others.nodes.size() == 1 ? named(others.nodes) : "the others",
                        shown(others.value));
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

constexpr const char* kArguments = "arguments";

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
    for (std::size_t i = 0; is_hidden && i < words.size(); ++i)
        words[i] = fmt::format("(digest {:016x})", commands[i]->whole);
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
