#include "apps/ddprun/cluster_rows.hpp"

#include <algorithm>

#include "launcher/cluster/cluster_table.hpp"

namespace ddprun::inline app {
namespace {

std::string parse_scheduler(const std::string& text) {
    std::vector<std::string> names{"auto", "none"};
    for (std::string& name : scheduler_names()) names.push_back(std::move(name));
    if (std::find(names.begin(), names.end(), text) != names.end()) return text;
    throw BadValue("must be " + alternatives(names));
}

}  // namespace

OptionGroup cluster_rows(CommandLine& line) {
    return {"Clusters",
            {{"--scheduler", "NAME",
              "Whose variables say which nodes the job has: auto: whoever has started this process; none: "
              "nobody's; or one by name, like slurm, openmpi, kubernetes (auto)\nWhat options say is "
              "stronger. Multi-node signs that do not suffice are refused; one node never stands in for "
              "several.",
              into(line.scheduler, parse_scheduler)},
             {"--adapt", "",
              "Where srun, mpirun or the like has started a process for each worker already, run PROGRAM "
              "itself in this one\nWith RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, "
              "MASTER_ADDR and MASTER_PORT made of the launcher's own variables, and without an agent: "
              "nothing is supervised.",
              into(line.adapt)}}};
}

}  // namespace ddprun::inline app
