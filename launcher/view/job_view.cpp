#include "launcher/view/job_view.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/view/view_json.hpp"
#include "rendezvous/job/number_limits.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

// What schema 1 has of a rank, and of a job, that nothing of a launcher knows yet.
constexpr std::array kUnknownOfRank{
    "doing", "call",         "cpu",          "cpu_seconds", "resident_memory_bytes", "threads",
    "gpu",   "output_age_s", "output_bytes", "last_line",   "waiting_ratio"};
constexpr std::array kUnknownOfJob{"progress", "verdict", "lost_time"};

// An empty text says that something is not known yet.
std::optional<std::string> if_known(const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

std::string state_of_job(const std::string& agent_state) {
    if (agent_state == "joining" || agent_state == "rejoining") return "joining";
    return agent_state == "running" || agent_state == "draining" ? "running" : "stopping";
}

// kMaxStatus: the longest text of a node's status, some more than that of kMaxWorkersPerNode workers.
constexpr std::size_t kMaxStatus = 256 * std::size_t{kMaxWorkersPerNode};

// TakenRanks: those of nodes that are in the view already. What another node says of them is not believed.
class TakenRanks {
  public:
    explicit TakenRanks(int world_size) : is_taken_(static_cast<std::size_t>(std::max(world_size, 0))) {}

    // Returns false if a rank is not the node's, or none of this round.
    bool take(const AgentStatus& status) {
        int last = -1;
        for (const WorkerStatus& worker : status.workers) {
            const auto place = static_cast<std::size_t>(worker.rank);
            const bool is_own = std::int64_t{worker.rank} - status.first_rank == worker.local_rank &&
                                worker.local_rank > std::exchange(last, worker.local_rank);
            if (!is_own || place >= is_taken_.size() || is_taken_[place]) return false;
        }
        for (const WorkerStatus& worker : status.workers)
            is_taken_[static_cast<std::size_t>(worker.rank)] = true;
        return true;
    }

  private:
    std::vector<bool> is_taken_;
};

void add_node(JobView& view, const AgentStatus& status) {
    view.nodes.push_back({.node = status.node,
                          .host = status.host,
                          .pid = status.pid,
                          .state = status.state,
                          .why = {},
                          .first_rank = status.first_rank,
                          .ranks = static_cast<int>(status.workers.size())});
    for (RankView& rank : rank_views(status.workers, status.node, status.host))
        view.ranks.push_back(std::move(rank));
}

std::string why_unknown(const NodeAnswer& answer, const std::optional<AgentStatus>& status, int round) {
    if (!answer.trouble.empty()) return answer.trouble;
    return status && status->round != round ? "it tells of another round" : "its answer is not understood";
}

}  // namespace

std::vector<RankView> rank_views(const std::vector<WorkerStatus>& workers, int node,
                                 const std::optional<std::string>& host) {
    std::vector<RankView> ranks;
    for (const WorkerStatus& worker : workers) {
        const bool by_signal = worker.signal.value_or(0) != 0;
        ranks.push_back({.rank = worker.rank,
                         .local_rank = worker.local_rank,
                         .node = node,
                         .host = host,
                         .pid = worker.pid,
                         .state = !worker.exit_code ? "running"
                                  : by_signal       ? "signaled"
                                                    : "exited",
                         .exit_code = worker.exit_code,
                         .signal = by_signal ? worker.signal : std::nullopt});
    }
    return ranks;
}

JobView job_view(const JobNames& names, const AgentStatus& own, const std::vector<NodeAnswer>& others,
                 const std::string& why_none) {
    // Before the first round there is no job yet.
    const auto of_round = [&own](int number) {
        return own.job_id.empty() ? std::nullopt : std::optional(number);
    };
    JobView view{.id = if_known(names.id),
                 .name = if_known(names.name),
                 .job_id = if_known(own.job_id),
                 .run_id = if_known(names.run_id),
                 .state = state_of_job(own.state),
                 .round = of_round(own.round),
                 .restarts = of_round(own.restart_count),
                 .max_restarts = of_round(own.max_restarts),
                 .resizes = of_round(own.resizes),
                 .started_unix_ms = names.started_unix_ms,
                 .world_size = of_round(own.world_size),
                 .url = {},
                 .nodes = {},
                 .ranks = {}};
    add_node(view, own);
    TakenRanks taken(own.world_size);
    taken.take(own);
    std::vector<bool> is_known(static_cast<std::size_t>(std::max(own.group_world_size, own.node + 1)));
    is_known[static_cast<std::size_t>(own.node)] = true;
    for (const NodeAnswer& answer : others) {
        const auto place = static_cast<std::size_t>(answer.node);
        if (place >= is_known.size() || is_known[place]) continue;
        is_known[place] = true;
        auto status = answer.text.size() <= kMaxStatus ? view_from_json<AgentStatus>(answer.text)
                                                       : std::optional<AgentStatus>();
        if (status && taken.take(*status)) {
            status->node = answer.node;
            status->host = answer.host;
            add_node(view, *status);
        } else {
            view.nodes.push_back({.node = answer.node,
                                  .host = answer.host,
                                  .pid = {},
                                  .state = "unknown",
                                  .why = why_unknown(answer, status, own.round),
                                  .first_rank = {},
                                  .ranks = {}});
        }
    }
    for (std::size_t node = 0; node < is_known.size(); ++node) {
        if (is_known[node]) continue;
        NodeView silent{.node = static_cast<int>(node), .state = "unknown"};
        silent.why = why_none.empty() ? "its launcher is not connected" : why_none;
        view.nodes.push_back(std::move(silent));
    }
    std::sort(view.nodes.begin(), view.nodes.end(),
              [](const NodeView& a, const NodeView& b) { return a.node < b.node; });
    std::stable_sort(view.ranks.begin(), view.ranks.end(),
                     [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
    return view;
}

json::object json_object(const JobView& view) {
    json::object object;
    put_members<ViewRules>(object, view);
    for (json::value& rank : object["ranks"].as_array()) {
        for (const char* name : kUnknownOfRank) rank.as_object()[name] = nullptr;
    }
    for (const char* name : kUnknownOfJob) object[name] = nullptr;
    return object;
}

std::string to_json(const JobView& view) { return json::serialize(json_object(view)); }

std::optional<JobView> parse_job_view(std::string_view text) { return view_from_json<JobView>(text); }
std::string to_json(const AgentStatus& status) { return json::serialize(json_of<ViewRules>(status)); }
std::optional<AgentStatus> parse_agent_status(std::string_view text) {
    return view_from_json<AgentStatus>(text);
}

}  // namespace launch
}  // namespace ddprun
