#include "launcher/cluster/cluster_refusal.hpp"

#include <fmt/core.h>

#include "launcher/harmless_text.hpp"

namespace ddprun::inline launch {
namespace {

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

}  // namespace

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

std::string advice(std::string_view launcher, const Tasks& tasks) {
    const int nodes = tasks.nodes.value_or(tasks.count);
    std::string line = fmt::format("this is {} of {} ({}), and each would run a job of its own: ",
                                   tasks.task ? fmt::format("task {} of {}", *tasks.task, tasks.count)
                                              : fmt::format("one of {} tasks", tasks.count),
                                   launcher, tasks.evidence);
    if (nodes == 1)
        line += fmt::format("start one ddprun with --nproc-per-node={0} in place of {0} tasks", tasks.count);
    else
        line += fmt::format("start one task on each node ({})", tasks.one_per_node);
    return line +
           ", or give --adapt to run the program itself in each task, or --standalone for a job of its own "
           "in each";
}

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
            "this is one process in {} of {} nodes ({}), and nobody has started ddprun on the others: start "
            "it on each "
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

std::string number_beyond(const Claim& number, const Claim& nodes) {
    return fmt::format("this is node {} by {}, which must be less than the number of nodes, {} by {}",
                       number.value, number.source, nodes.value, nodes.source);
}

}  // namespace ddprun::inline launch
