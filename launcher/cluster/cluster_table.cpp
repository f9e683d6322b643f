#include "launcher/cluster/cluster_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/cluster/readers.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/control/job_command.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

struct Found {
    const Family* family = nullptr;
    FamilyFacts facts;
};

// One family speaks alone of the nodes' count, number and place.
constexpr std::array<Fact, 4> kNodeFacts = {Fact::nnodes, Fact::node_rank, Fact::master_addr,
                                            Fact::master_port};

bool is_node_fact(Fact fact) {
    return std::find(kNodeFacts.begin(), kNodeFacts.end(), fact) != kNodeFacts.end();
}

std::vector<Found> find_families(const ClusterView& view, const std::string& scheduler) {
    std::vector<Found> found;
    for (const Family& family : families()) {
        if (scheduler != "auto" && scheduler != family.name) continue;
        auto facts = read_family(family, view);
        if (!facts) continue;
        refuse_false_names(view, *facts);
        for (auto* claims : {&facts->claims, &facts->rivals}) {
            for (auto& [fact, claim] : *claims) claim.belief = family.belief;
        }
        found.push_back({&family, *std::move(facts)});
    }
    return found;
}

// The first that fits this machine and itself, as far as it can be read; the first of all where none does.
const Found* choose_launcher(const std::vector<Found>& found) {
    const Found* first = nullptr;
    for (const Found& one : found) {
        if (one.family->belief != Belief::task_launcher) continue;
        const bool may_be_stale = !one.facts.conflict.empty() && !one.facts.is_malformed;
        if (one.facts.fits && !may_be_stale) return &one;
        if (first == nullptr) first = &one;
    }
    return first;
}

// The first that says how many nodes there are, or else the first.
const Found* choose_platform(const std::vector<Found>& found) {
    const Found* first = nullptr;
    for (const Found& one : found) {
        if (one.family->belief != Belief::platform && one.family->belief != Belief::bare) continue;
        if (one.facts.claims.contains(Fact::nnodes)) return &one;
        if (first == nullptr) first = &one;
    }
    return first;
}

// A launcher of single processes is believed of itself only: a pod or a Slurm allocation of several nodes may
// be around it.
const Found* choose_family(const std::vector<Found>& found) {
    if (const Found* launcher = choose_launcher(found)) return launcher;
    if (const Found* platform = choose_platform(found)) return platform;
    return found.empty() ? nullptr : &found.front();
}

// --- the lines that refuse a start: which variable says what, and the way out

constexpr std::string_view kAlone = "--standalone for a job of this node alone";

std::string_view words_for(Fact fact) {
    if (fact == Fact::nnodes) return "the number of its nodes";
    return fact == Fact::node_rank ? "the number of this node" : "the place where its nodes meet";
}

std::string_view option_for(Fact fact) {
    if (fact == Fact::node_rank) return "--nnodes and --node-rank";
    if (fact == Fact::master_addr) return "--master-addr";
    return fact == Fact::master_port ? "--master-port" : "--nnodes";
}

// Refuses a --scheduler that is not here.
std::string no_sign(std::string_view scheduler) {
    std::string signs;
    for (const Family& family : families()) {
        if (family.name == scheduler) signs += fmt::format("{}{}", signs.empty() ? "" : "; ", family.signs);
    }
    return fmt::format("--scheduler {}: the environment has no sign of it ({})", scheduler, signs);
}

std::string contradiction(const Family& family, const std::string& conflict) {
    return fmt::format("this is {}, but its variables cannot be used: {}; --scheduler none passes them over",
                       family.title, conflict);
}

// `launcher` is "a Slurm step".
std::string place_among(std::string_view launcher, const Tasks& tasks) {
    return fmt::format("this is {} of {} ({})",
                       tasks.task ? fmt::format("task {} of {}", *tasks.task, tasks.count)
                                  : fmt::format("one of {} tasks", tasks.count),
                       launcher, tasks.evidence);
}

// Refuses tasks each of which would be a job of its own.
std::string advice(std::string_view launcher, const Tasks& tasks) {
    const int nodes = tasks.nodes.value_or(tasks.count);
    std::string line = place_among(launcher, tasks) + ", and each would run a job of its own: ";
    if (nodes == 1)
        line += fmt::format("start one ddprun with --nproc-per-node={0} in place of {0} tasks", tasks.count);
    else
        line += fmt::format("start one task on each node ({})", tasks.one_per_node);
    return line +
           ", or give --adapt to run the program itself in each task, or --standalone for a job of its own in each";
}

// Refuses an allocation of several hosts, or of one that is not this machine; empty: this machine is all of
// it.
std::string refused_allocation(const ClusterView& view, const Family& family, const FamilyFacts& facts) {
    const auto told = facts.claims.find(Fact::nnodes);
    const auto way_out = facts.ways_out.find(Fact::nnodes);
    if (told == facts.claims.end())
        return way_out == facts.ways_out.end()
                   ? ""
                   : fmt::format("this is {}, but {} is not told: {}; or give {}", family.title,
                                 words_for(Fact::nnodes), way_out->second, kAlone);
    const auto& [nodes, source, belief] = told->second;
    if (nodes != "1" && facts.hosts.empty() && way_out != facts.ways_out.end())
        return fmt::format("this is one process in {} of {} nodes ({}), but {}; or give {}", family.title,
                           nodes, source, way_out->second, kAlone);
    if (nodes != "1")
        return fmt::format(
            "this is one process in {} of {} nodes ({}), and nobody has started ddprun on the others: start it on each "
            "by {}, or from here by --hosts, or give {}",
            family.title, nodes, source, facts.start_others, kAlone);
    if (!facts.must_be_listed || facts.hosts.empty() || facts.claims.contains(Fact::node_rank)) return "";
    return fmt::format("this is {} of {} ({}), but this machine is {}: start ddprun there by {}, or give {}",
                       family.title, harmless_line(facts.hosts.front().name), facts.hosts_source,
                       harmless_line(view.host_name), facts.start_others, kAlone);
}

std::string missing_fact(const Family& family, const FamilyFacts& facts, Fact fact) {
    const auto way_out = facts.ways_out.find(fact);
    const std::string way =
        way_out != facts.ways_out.end() ? way_out->second : fmt::format("give {}", option_for(fact));
    return fmt::format("this is {}, but {} is not told: {}", family.title, words_for(fact), way);
}

std::string more_nodes(const Family& family, const Claim& said, const Claim& told) {
    return fmt::format(
        "{} nodes by {} are more than {} by {}, which is all that {} has: run ddprun on as many, or give --node-rank and "
        "--master-addr where others come from elsewhere",
        said.value, said.source, told.value, told.source, family.title);
}

std::string number_beyond(const Claim& number, const Claim& nodes) {
    return fmt::format("this is node {} by {}, which must be less than the number of nodes, {} by {}",
                       number.value, number.source, nodes.value, nodes.source);
}

class Derivation {
  public:
    Derivation(const ClusterView& view, const ClusterRequest& request) : view_(view), request_(request) {
        for (const SaidFact& said : request.said) add(said.fact, said.claim, true);
    }

    ClusterTable run() {
        const bool looks =
            !request_.one_node && request_.scheduler != "none" && !is_in_worker(view_.environment);
        const auto found = looks ? find_families(view_, request_.scheduler) : std::vector<Found>{};
        if (looks && found.empty() && request_.scheduler != "auto")
            table_.refusal = no_sign(request_.scheduler);
        if (const Found* chosen = choose_family(found)) take(*chosen, found);
        finish();
        return std::move(table_);
    }

  private:
    void add(Fact fact, const Claim& claim, bool may_count) {
        DerivedFact& derived = table_.facts[fact];
        const bool is_other = derived.chosen && derived.chosen->value != claim.value;
        const bool is_told = std::ranges::any_of(derived.rivals, [&claim](const Claim& rival) {
            return rival.value == claim.value && rival.source == claim.source;
        });
        if (!derived.chosen && may_count)
            derived.chosen = claim;
        else if ((!derived.chosen || is_other) && !is_told)
            derived.rivals.push_back(claim);
    }

    bool is_said(Fact fact) const {
        return std::any_of(request_.said.begin(), request_.said.end(),
                           [fact](const SaidFact& said) { return said.fact == fact; });
    }

    void take(const Found& own, const std::vector<Found>& found) {
        table_.family = own.family->title;
        table_.tasks = own.facts.tasks;
        table_.hosts = own.facts.hosts;
        table_.hosts_source = own.facts.hosts_source;
        table_.many_addresses = own.facts.many_addresses;
        table_.is_outside = own.facts.is_outside;
        judge(own);
        const bool counts = may_number(own);
        for (const auto& [fact, claim] : own.facts.claims) add(fact, claim, counts || !is_node_fact(fact));
        for (const auto& [fact, claim] : own.facts.rivals) add(fact, claim, false);
        for (const Found& other : found) {
            if (&other == &own) continue;
            for (const auto& [fact, claim] : other.facts.claims) add(fact, claim, !is_node_fact(fact));
        }
        const bool is_open = table_.situation == Situation::agent_per_node && table_.refusal.empty();
        if (is_open && chosen(table_, Fact::nnodes) == nullptr)
            table_.refusal = missing_fact(*own.family, own.facts, Fact::nnodes);
        if (!table_.refusal.empty() || nodes() < 2) return;
        if (table_.hosts.empty()) borrow_hosts(found);
        if (request_.numbered) check_numbers(own);
    }

    // The user's word stands: a list of other hosts, or of others' numbers, is none of this job.
    bool may_number(const Found& own) const {
        if (!table_.started_by.empty()) return true;
        if (own.family->belief != Belief::allocation || !is_said(Fact::nnodes)) return true;
        const auto said = chosen_number(table_, Fact::nnodes);
        return said && static_cast<std::size_t>(*said) == own.facts.hosts.size() &&
               own.facts.claims.contains(Fact::node_rank);
    }

    // Everything that only the user can know has been said.
    bool is_complete() const {
        return is_said(Fact::nnodes) &&
               (!request_.numbered || (is_said(Fact::node_rank) && is_said(Fact::master_addr)));
    }

    void judge(const Found& own) {
        const auto told = own.facts.claims.find(Fact::nnodes);
        const int count =
            told == own.facts.claims.end() ? 0 : whole_number<int>(told->second.value).value_or(0);
        const bool is_allocation = own.family->belief == Belief::allocation;
        const bool has_peers = own.facts.tasks && own.facts.tasks->count > count;
        if (is_allocation)
            table_.situation = count == 1 ? Situation::alone : Situation::allocation;
        else if (has_peers && own.facts.tasks->count > 1)
            table_.situation = Situation::process_per_gpu;
        else
            table_.situation = count == 1 ? Situation::alone : Situation::agent_per_node;
        if (is_complete()) return;
        if (is_allocation && is_said(Fact::nnodes)) {
            if (means_all(own.facts, count)) table_.started_by = own.facts.reached_by;
            return;
        }
        const bool has_number = is_said(Fact::nnodes) && (is_said(Fact::node_rank) || !request_.numbered);
        const bool is_expected = has_number || request_.adapts_tasks;
        if (!own.facts.conflict.empty())
            table_.refusal = contradiction(*own.family, own.facts.conflict);
        else if (table_.situation == Situation::process_per_gpu && !is_expected)
            table_.refusal = advice(own.family->title, *own.facts.tasks);
        else if (!is_allocation && count > 0 && asks_for_more(count))
            table_.refusal = more_nodes(*own.family, *chosen(table_, Fact::nnodes), told->second);
        else if (is_allocation && may_start(own.facts, count))
            table_.started_by = own.facts.reached_by;
        else if (is_allocation)
            table_.refusal = refused_allocation(view_, *own.family, own.facts);
    }

    // The user has said what the allocation says, and nothing else that one of several agents would be told;
    // on a node behind the first this is one of them.
    bool means_all(const FamilyFacts& facts, int count) const {
        const auto number = facts.claims.find(Fact::node_rank);
        const bool is_first =
            facts.is_outside || (number != facts.claims.end() && number->second.value == "0");
        return is_first && facts.conflict.empty() && nodes() == count && !is_said(Fact::node_rank) &&
               !is_said(Fact::master_addr) && may_start(facts, count);
    }

    // A list that is not of all nodes (of a heterogeneous job) is of no use, and from a machine outside
    // hardly anybody lets one in.
    bool may_start(const FamilyFacts& facts, int count) const {
        const bool is_inside = facts.claims.contains(Fact::node_rank) || facts.reached_from_outside;
        return request_.numbered && !request_.adapts_tasks && count > 1 && is_inside &&
               !facts.reached_by.empty() && facts.hosts.size() == static_cast<std::size_t>(count);
    }

    // Of nodes that nobody but the family numbers and knows the place of.
    bool asks_for_more(int count) const {
        return request_.numbered && is_said(Fact::nnodes) && !is_said(Fact::node_rank) &&
               !is_said(Fact::master_addr) && request_.least > count;
    }

    int nodes() const { return chosen_number(table_, Fact::nnodes).value_or(0); }

    // A weaker list says where this family's node 0 is, if it is about the same nodes in the same order.
    void borrow_hosts(const std::vector<Found>& found) {
        for (const Found& other : found) {
            const auto& hosts = other.facts.hosts;
            if (hosts.size() != static_cast<std::size_t>(nodes())) continue;
            const auto position = own_position(view_, names_of(hosts));
            if (!position || position != chosen_number(table_, Fact::node_rank)) continue;
            table_.hosts = hosts;
            table_.hosts_source = other.facts.hosts_source;
            if (!table_.facts[Fact::master_addr].chosen)
                table_.facts[Fact::master_addr].chosen =
                    Claim{hosts.front().name, other.facts.hosts_source, other.family->belief};
            return;
        }
    }

    void check_numbers(const Found& own) {
        // A user who names the nodes' count in an allocation may start them by hand, as before anything was
        // derived.
        if (own.family->belief == Belief::allocation || table_.situation == Situation::process_per_gpu)
            return;
        for (const Fact fact : {Fact::node_rank, Fact::master_addr}) {
            if (chosen(table_, fact) == nullptr && table_.refusal.empty())
                table_.refusal = missing_fact(*own.family, own.facts, fact);
        }
        const auto rank = chosen_number(table_, Fact::node_rank);
        if (rank && *rank >= nodes() && table_.refusal.empty())
            table_.refusal = number_beyond(*chosen(table_, Fact::node_rank), *chosen(table_, Fact::nnodes));
        if (table_.refusal.empty()) add_port();
    }

    void add_port() {
        const Claim* id = chosen(table_, Fact::job_id);
        const Claim* place = chosen(table_, Fact::master_addr);
        const bool is_derived = place != nullptr && !is_said(Fact::master_addr);
        if (id == nullptr || !is_derived || chosen(table_, Fact::master_port) != nullptr) return;
        add(Fact::master_port,
            {std::to_string(port_of_job(id->value, request_.derived_ports)), "the job's id", Belief::assumed},
            true);
    }

    void finish() {
        DerivedFact& nnodes = table_.facts[Fact::nnodes];
        if (!nnodes.chosen && table_.refusal.empty())
            nnodes.chosen = Claim{"1", "no sign of more", Belief::assumed};
        const Claim* name = chosen(table_, Fact::own_name);
        if (name == nullptr || !is_own_name(view_, name->value))
            add(Fact::own_name, {view_.host_name, "this machine", Belief::assumed}, true);
        for (auto& entry : table_.facts) {
            DerivedFact& derived = entry.second;
            if (!derived.chosen) continue;
            const std::string& value = derived.chosen->value;
            std::erase_if(derived.rivals, [&value](const Claim& rival) { return rival.value == value; });
        }
    }

    const ClusterView& view_;
    const ClusterRequest& request_;
    ClusterTable table_;
};

}  // namespace

std::uint16_t port_of_job(const std::string& job_id, const PortRange& range) {
    const int beginnings = range.size() - derived_ports(range) + 1;
    Digest digest;
    digest.add(job_id);
    return static_cast<std::uint16_t>(range.first + digest.value() % static_cast<std::uint64_t>(beginnings));
}

ClusterTable derive_cluster(const ClusterView& view, const ClusterRequest& request) {
    return Derivation(view, request).run();
}

bool is_in_worker(const Environment& environment) {
    return environment.contains("TORCHELASTIC_RUN_ID") || environment.contains("DDPRUN_RUN_ID");
}

const Claim* chosen(const ClusterTable& table, Fact fact) {
    const auto derived = table.facts.find(fact);
    return derived != table.facts.end() && derived->second.chosen ? &*derived->second.chosen : nullptr;
}

std::optional<int> chosen_number(const ClusterTable& table, Fact fact) {
    const Claim* claim = chosen(table, fact);
    return claim != nullptr ? whole_number<int>(claim->value, 0) : std::nullopt;
}

std::string one_of_several(const ClusterTable& table) {
    if (table.tasks && table.tasks->count > 1) return place_among(table.family, *table.tasks);
    const Claim* nodes = chosen(table, Fact::nnodes);
    const bool is_told =
        nodes != nullptr && (nodes->belief == Belief::task_launcher || nodes->belief == Belief::platform);
    if (!is_told || nodes->value == "1") return "";
    const auto rank = chosen_number(table, Fact::node_rank);
    return fmt::format("this is {} of {} ({}={})",
                       rank ? fmt::format("node {} of {}", *rank, nodes->value)
                            : fmt::format("one of {} nodes", nodes->value),
                       table.family, nodes->source, nodes->value);
}

std::vector<std::string> scheduler_names() {
    std::vector<std::string> names;
    for (const Family& family : families()) {
        if (std::find(names.begin(), names.end(), family.name) == names.end())
            names.emplace_back(family.name);
    }
    return names;
}

}  // namespace launch
}  // namespace ddprun
