#include "rendezvous/coordinator/admission.hpp"

#include <utility>

namespace ddprun {
namespace {

Refused not_admitted(std::string reason) { return {std::move(reason), kExitNotAdmitted}; }

std::string text(int number) { return std::to_string(number); }

std::optional<Refused> compare_terms(const Hello& newcomer, const JobTerms& terms) {
    if (newcomer.version != terms.version) {
        return not_admitted("this agent is ddprun " + newcomer.version + ", node 0 is ddprun " +
                            terms.version + "; install one version on all nodes");
    }
    if (newcomer.run_id != terms.run_id) {
        return not_admitted("this agent's --rdzv-id is \"" + newcomer.run_id + "\", but the job here is \"" +
                            terms.run_id + "\"");
    }
    if (newcomer.nnodes != terms.nnodes) {
        return not_admitted("this agent's --nnodes is " + text(newcomer.nnodes) +
                            ", but node 0 has --nnodes " + text(terms.nnodes));
    }
    if (newcomer.node_rank < 0 || newcomer.node_rank >= terms.nnodes) {
        return not_admitted("--node-rank " + text(newcomer.node_rank) + " is out of range: --nnodes is " +
                            text(terms.nnodes));
    }
    if (newcomer.local_world_size < 1 || newcomer.local_world_size > kMaxWorkersPerNode) {
        return not_admitted("--nproc-per-node " + text(newcomer.local_world_size) + " is not between 1 and " +
                            text(kMaxWorkersPerNode));
    }
    return std::nullopt;
}

}  // namespace

std::optional<Refused> reason_to_refuse(const Hello& newcomer, const JobTerms& terms,
                                        const Company& company) {
    if (auto refused = compare_terms(newcomer, terms)) return refused;
    if (const Hello* holder = company.holder) {
        return not_admitted("--node-rank " + text(newcomer.node_rank) + " has already joined from " +
                            holder->host + " (agent pid " + std::to_string(holder->pid) + ")");
    }
    const Hello* other = company.companion;
    if (other == nullptr || newcomer.allow_different || other->allow_different) return std::nullopt;
    if (newcomer.command.digest == other->command.digest) return std::nullopt;
    return not_admitted("this agent runs \"" + shown_beside(newcomer.command, other->command) +
                        "\", but node " + text(other->node_rank) + " (" + other->host + ") runs \"" +
                        shown_beside(other->command, newcomer.command) +
                        "\"; for two jobs give each an --rdzv-id and a --master-port of its own, for one job "
                        "of different programs --allow-different");
}

Company company_of(const Hello& newcomer, const std::optional<Hello>& own, const JobNodes& nodes) {
    Company company;
    if (auto holder = nodes.find(newcomer.node_rank); holder != nodes.end())
        company.holder = &holder->second.hello;
    if (own && (own->host != newcomer.host || own->pid != newcomer.pid)) {
        if (newcomer.node_rank == own->node_rank) company.holder = &*own;
        if (newcomer.role == own->role) company.companion = &*own;
    }
    for (const auto& [rank, node] : nodes) {
        if (company.companion == nullptr && node.hello.role == newcomer.role) company.companion = &node.hello;
    }
    return company;
}

Refused came_too_late() { return {"the job is over", kExitUnavailable}; }
Refused said_hello_before() { return not_admitted("this agent has said Hello before"); }
Refused said_no_hello() { return not_admitted("say Hello first"); }

}  // namespace ddprun
