#include "launcher/watch/rank_processes.hpp"

#include <algorithm>
#include <utility>

#include "launcher/process/process_table.hpp"
#include "launcher/watch/process_look.hpp"

namespace ddprun {
inline namespace launch {

std::vector<RankProcesses> rank_processes(const AgentStatus& node) {
    const auto table = read_own_processes();
    std::vector<RankProcesses> ranks;
    for (const WorkerStatus& worker : node.workers) {
        RankProcesses found{worker, {}};
        if (!worker.exit_code && worker.pid > 0) {
            found.processes.push_back(worker.pid);
            for (const ProcessStat& below :
                 table ? descendants(*table, worker.pid) : std::vector<ProcessStat>())
                found.processes.push_back(below.pid);
        }
        ranks.push_back(std::move(found));
    }
    return ranks;
}

pid_t working_process(const RankProcesses& rank) {
    const auto worker = std::find_if(rank.processes.begin(), rank.processes.end(), may_be_rank);
    return worker == rank.processes.end() ? rank.worker.pid : *worker;
}

}  // namespace launch
}  // namespace ddprun
