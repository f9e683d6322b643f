#include "launcher/view/job_view.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
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
constexpr std::array kUnknownOfJob{"progress", "lost_time"};

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

// ClaimedRanks: which nodes say of which ranks that they are theirs. Of two nodes that claim the same rank
// neither is believed, since nothing tells which of them is wrong; but the node that was asked knows its own,
// and one that tells of another round is wrong where it differs.
class ClaimedRanks {
  public:
    explicit ClaimedRanks(const AgentStatus& own)
        : own_(own.node),
          round_(own.round),
          claims_(static_cast<std::size_t>(std::max(own.world_size, 0)), kNobody) {
        for (const WorkerStatus& worker : own.workers) {
            const auto place = static_cast<std::size_t>(worker.rank);
            if (place < claims_.size()) claims_[place] = own_;
        }
    }

    // Takes what a node says, of this round first. Returns false if a rank is not the node's.
    bool claim(int node, const AgentStatus& status) {
        int last = -1;
        for (const WorkerStatus& worker : status.workers) {
            const auto place = static_cast<std::size_t>(worker.rank);
            const bool is_own = std::int64_t{worker.rank} - status.first_rank == worker.local_rank &&
                                worker.local_rank > std::exchange(last, worker.local_rank);
            if (!is_own || place >= claims_.size()) return false;
            if (status.round != round_ && claims_[place] != kNobody) return false;
        }
        for (const WorkerStatus& worker : status.workers) {
            const int other = std::exchange(claims_[static_cast<std::size_t>(worker.rank)], node);
            if (other == kNobody) continue;
            disputes_.try_emplace(node, Dispute{other, worker.rank});
            if (other != own_) disputes_.try_emplace(other, Dispute{node, worker.rank});
        }
        return true;
    }

    // Returns why the node is not believed, in words; empty: nothing speaks against it.
    std::string dispute_of(int node) const {
        const auto dispute = disputes_.find(node);
        if (dispute == disputes_.end()) return {};
        return fmt::format("rank {} is claimed by node {} as well", dispute->second.rank,
                           dispute->second.other);
    }

  private:
    static constexpr int kNobody = -1;
    struct Dispute {
        int other = 0;
        int rank = 0;
    };
    const int own_;
    const int round_;
    std::vector<int> claims_;  // by rank: the node
    std::map<int, Dispute> disputes_;
};

void add_node(JobView& view, const AgentStatus& status) {
    view.nodes.push_back({.node = status.node,
                          .host = status.host,
                          .pid = status.pid,
                          .state = status.state,
                          .why = {},
                          .first_rank = status.first_rank,
                          .ranks = static_cast<int>(status.workers.size()),
                          .kill_unix_ms = status.kill_unix_ms});
    for (RankView& rank : rank_views(status.workers, status.node, status.host))
        view.ranks.push_back(std::move(rank));
}

std::string why_unknown(const NodeAnswer& answer, const std::optional<AgentStatus>& status, int round) {
    if (!answer.trouble.empty()) return answer.trouble;
    return status && status->round != round ? "it tells of another round" : "its answer is not understood";
}

// Returns the verdict that node 0 has put beside its status.
std::optional<VerdictView> verdict_in(const NodeAnswer& answer) {
    std::optional<VerdictView> verdict;
    const auto object = parse_json_object(answer.text, ViewRules::kMaxDepth);
    if (!object || !take_member<ViewRules>(*object, "verdict", verdict)) return std::nullopt;
    return verdict;
}

struct ReadAnswer {
    const NodeAnswer* answer = nullptr;
    std::optional<AgentStatus> status;
    bool is_sound = false;
};

// Adds the nodes that have answered, and marks them in `is_known`.
void add_others(JobView& view, const AgentStatus& own, const std::vector<NodeAnswer>& others,
                std::vector<bool>& is_known) {
    ClaimedRanks claimed(own);
    std::vector<ReadAnswer> answers;
    for (const NodeAnswer& answer : others) {
        const auto place = static_cast<std::size_t>(answer.node);
        if (place >= is_known.size() || is_known[place]) continue;
        is_known[place] = true;
        ReadAnswer& read = answers.emplace_back(ReadAnswer{&answer, std::nullopt});
        if (answer.text.size() <= kMaxStatus) read.status = view_from_json<AgentStatus>(answer.text);
    }
    std::stable_partition(answers.begin(), answers.end(), [&own](const ReadAnswer& read) {
        return read.status && read.status->round == own.round;
    });
    for (ReadAnswer& read : answers)
        read.is_sound = read.status && claimed.claim(read.answer->node, *read.status);
    for (auto& [answer, status, is_sound] : answers) {
        const std::string dispute = claimed.dispute_of(answer->node);
        if (is_sound && dispute.empty()) {
            status->node = answer->node;
            status->host = answer->host;
            add_node(view, *status);
            if (answer->node == 0) view.verdict = verdict_in(*answer);
            continue;
        }
        view.nodes.push_back({.node = answer->node,
                              .host = answer->host,
                              .pid = {},
                              .state = "unknown",
                              .why = dispute.empty() ? why_unknown(*answer, status, own.round) : dispute,
                              .first_rank = {},
                              .ranks = {},
                              .kill_unix_ms = {}});
    }
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

VerdictView verdict_view(const HangVerdict& verdict, std::int64_t since_unix_ms, std::int64_t now_unix_ms) {
    return {.kind = verdict.kind,
            .since_unix_ms = since_unix_ms,
            .age_s = std::max<std::int64_t>(now_unix_ms - since_unix_ms, 0) / 1000,
            .suspects = verdict.suspects,
            .waiting = verdict.waiting,
            .sentence = verdict.sentence,
            .evidence = verdict.evidence};
}

JobView job_view(const JobNames& names, const AgentStatus& own, const std::vector<NodeAnswer>& others,
                 const std::string& why_none, std::optional<VerdictView> own_verdict) {
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
                 .ranks = {},
                 .verdict = std::move(own_verdict)};
    add_node(view, own);
    std::vector<bool> is_known(static_cast<std::size_t>(std::max(own.group_world_size, own.node + 1)));
    is_known[static_cast<std::size_t>(own.node)] = true;
    add_others(view, own, others, is_known);
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
std::string to_json(const AgentStatus& status, const std::optional<VerdictView>& verdict) {
    json::object object;
    put_members<ViewRules>(object, status);
    if (verdict) object["verdict"] = json_of<ViewRules>(*verdict);
    return json::serialize(object);
}
std::optional<AgentStatus> parse_agent_status(std::string_view text) {
    return view_from_json<AgentStatus>(text);
}

}  // namespace launch
}  // namespace ddprun
