#include "launcher/view/job_view.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 8;

struct ViewRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }
};

// What schema 1 has of a rank, and of a job, that nothing of a launcher knows yet.
constexpr std::array kUnknownOfRank{
    "doing", "call",         "cpu",          "cpu_seconds", "resident_memory_bytes", "threads",
    "gpu",   "output_age_s", "output_bytes", "last_line",   "waiting_ratio"};
constexpr std::array kUnknownOfJob{"progress", "verdict", "lost_time"};

template <class T>
std::optional<T> parsed(std::string_view text) {
    const auto object = parse_json_object(text, kMaxDepth);
    T value;
    if (!object || !from_json<ViewRules>(*object, value)) return std::nullopt;
    return value;
}

std::string state_of_job(const std::string& agent_state) {
    if (agent_state == "joining" || agent_state == "rejoining") return "joining";
    return agent_state == "running" || agent_state == "draining" ? "running" : "stopping";
}

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

}  // namespace

std::vector<RankView> rank_views(const std::vector<WorkerStatus>& workers, int node,
                                 const std::string& host) {
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
    JobView view{.id = names.id,
                 .name = names.name,
                 .job_id = own.job_id,
                 .run_id = names.run_id,
                 .state = state_of_job(own.state),
                 .round = own.round,
                 .restarts = own.restart_count,
                 .max_restarts = own.max_restarts,
                 .resizes = own.resizes,
                 .started_unix_ms = names.started_unix_ms,
                 .world_size = own.world_size,
                 .url = {},
                 .nodes = {},
                 .ranks = {}};
    add_node(view, own);
    std::vector<bool> is_known(static_cast<std::size_t>(std::max(own.group_world_size, own.node + 1)));
    is_known[static_cast<std::size_t>(own.node)] = true;
    for (const NodeAnswer& answer : others) {
        const auto place = static_cast<std::size_t>(answer.node);
        if (place >= is_known.size() || is_known[place]) continue;
        is_known[place] = true;
        auto status = parsed<AgentStatus>(answer.text);
        if (status) {
            status->node = answer.node;
            add_node(view, *status);
        } else {
            view.nodes.push_back(
                {.node = answer.node,
                 .host = answer.host,
                 .pid = {},
                 .state = "unknown",
                 .why = answer.trouble.empty() ? "its answer is not understood" : answer.trouble,
                 .first_rank = {},
                 .ranks = {}});
        }
    }
    for (std::size_t node = 0; node < is_known.size(); ++node) {
        if (is_known[node]) continue;
        NodeView silent{.node = static_cast<int>(node), .state = "unknown", .why = why_none};
        view.nodes.push_back(std::move(silent));
    }
    std::sort(view.nodes.begin(), view.nodes.end(),
              [](const NodeView& a, const NodeView& b) { return a.node < b.node; });
    std::stable_sort(view.ranks.begin(), view.ranks.end(),
                     [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
    return view;
}

std::string to_json(const JobView& view) {
    json::object object;
    put_members<ViewRules>(object, view);
    for (json::value& rank : object["ranks"].as_array()) {
        for (const char* name : kUnknownOfRank) rank.as_object()[name] = nullptr;
    }
    for (const char* name : kUnknownOfJob) object[name] = nullptr;
    return json::serialize(object);
}

std::optional<JobView> parse_job_view(std::string_view text) { return parsed<JobView>(text); }
std::string to_json(const AgentStatus& status) { return json::serialize(json_of<ViewRules>(status)); }
std::optional<AgentStatus> parse_agent_status(std::string_view text) { return parsed<AgentStatus>(text); }

}  // namespace launch
}  // namespace ddprun
