// The names under which one process launcher of MPI's kind tells its tasks about each other, and what follows from their
// values. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "launcher/cluster/family.hpp"

namespace ddprun::inline launch {

struct TaskNames {
    std::string_view size;
    std::string_view rank;
    std::string_view local_size = {};
    std::string_view local_rank = {};
    std::string_view nodes = {};
    std::string_view node_rank =
        {};  // where nodes have numbers of their own; else tasks that are alone give theirs
    std::string_view host = {};  // what the launcher calls this machine
    std::string_view job_id = {};
    std::string_view job_name = {};  // in front of that: "openmpi"
    std::string_view one_per_node = {};
};

// Nothing where the size is no whole number of at least 1. The number of nodes is told, or follows where each of them has
// one task, or all tasks are here; where it does not, that is left open.
std::optional<FamilyFacts> read_tasks(const ClusterView& view, const TaskNames& names);

}  // namespace ddprun::inline launch
