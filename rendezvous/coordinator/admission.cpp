#include "rendezvous/coordinator/admission.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

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

std::string key_of_node(const Hello& hello) {
    return hello.node_rank == kUnnumbered ? fmt::format("{} {} {}", hello.host, hello.pid, hello.nonce)
                                          : std::to_string(hello.node_rank);
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

}  // namespace job
}  // namespace ddprun
