// JobView: what a job says of itself by any of its launchers, of all of its nodes together: schema
// 1 of `ddpctl status --json` and of GET /status. Pure.
//
// Times in JSON end in `_unix_ms`; what is not known is null. A member is only ever added.
#pragma once

#include <sys/types.h>

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/verdict/verdict.hpp"
#include "launcher/view/gathered_answers.hpp"
#include "rendezvous/codec/description.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

// NodeView: one node of the current round.
struct NodeView {
    int node = 0;  // group rank
    std::optional<std::string> host;
    std::optional<pid_t> pid;        // of the launcher
    std::string state;               // as AgentStatus has it; "unknown": the node did not answer …
    std::optional<std::string> why;  // … for this reason
    std::optional<int> first_rank;
    std::optional<int> ranks;  // how many
    std::optional<std::int64_t> kill_unix_ms;
    bool operator==(const NodeView&) const = default;
};
BOOST_DESCRIBE_STRUCT(NodeView, (), (node, host, pid, state, why, first_rank, ranks, kill_unix_ms))

// RankView: one worker of a node that has answered.
struct RankView {
    int rank = 0;
    int local_rank = 0;
    int node = 0;
    std::optional<std::string> host;
    pid_t pid = 0;
    std::string state;  // running, exited or signaled
    std::optional<int> exit_code;
    std::optional<int> signal;
    bool operator==(const RankView&) const = default;
};
BOOST_DESCRIBE_STRUCT(RankView, (), (rank, local_rank, node, host, pid, state, exit_code, signal))

// VerdictView: which ranks hold a job that hangs, as node 0 has found.
struct VerdictView {
    VerdictKind kind = VerdictKind::none;
    std::int64_t since_unix_ms = 0;  // when the job had got on last …
    std::int64_t age_s = 0;          // … and how long ago that was
    std::vector<int> suspects;
    std::vector<int> waiting;
    std::string sentence;
    std::vector<std::string> evidence;
    bool operator==(const VerdictView&) const = default;
};
BOOST_DESCRIBE_STRUCT(VerdictView, (), (kind, since_unix_ms, age_s, suspects, waiting, sentence, evidence))

struct JobView {
    int schema = 1;
    std::optional<std::string> id;    // what ddpctl takes
    std::optional<std::string> name;  // the program
    std::optional<std::string> job_id;
    std::optional<std::string> run_id;
    std::string state;  // joining, running, stopping, ended or lost
    std::optional<int> round;
    std::optional<int> restarts;
    std::optional<int> max_restarts;
    std::optional<int> resizes;
    std::optional<std::int64_t> started_unix_ms;
    std::optional<int> world_size;
    std::optional<std::string> url;
    std::vector<NodeView> nodes;
    std::vector<RankView> ranks;
    std::optional<VerdictView> verdict;
    bool operator==(const JobView&) const = default;
};
BOOST_DESCRIBE_STRUCT(JobView, (),
                      (schema, id, name, job_id, run_id, state, round, restarts, max_restarts, resizes,
                       started_unix_ms, world_size, url, nodes, ranks, verdict))

// JobNames: what a launcher knows of its job beside its agent's status.
struct JobNames {
    std::string id;
    std::string name;
    std::string run_id;
    std::int64_t started_unix_ms = 0;
};

VerdictView verdict_view(const HangVerdict& verdict, std::int64_t since_unix_ms, std::int64_t now_unix_ms);

// Returns the view of the node that was asked, `own`, and of all others of its round: of those without an
// answer that can be read the trouble, which is `why_none` where they have none. The verdict is
// `own_verdict`, or what node 0 tells.
JobView job_view(const JobNames& names, const AgentStatus& own, const std::vector<NodeAnswer>& others,
                 const std::string& why_none, std::optional<VerdictView> own_verdict = {});

// Returns the ranks of one node's workers.
std::vector<RankView> rank_views(const std::vector<WorkerStatus>& workers, int node,
                                 const std::optional<std::string>& host);

// Returns one JSON object, with null for what the schema has beyond JobView.
boost::json::object json_object(const JobView& view);
std::string to_json(const JobView& view);

// Returns nothing for a text that is no such object.
std::optional<JobView> parse_job_view(std::string_view text);

// Writes an AgentStatus as one node tells it another, with the verdict that node 0 has.
std::string to_json(const AgentStatus& status, const std::optional<VerdictView>& verdict = {});
std::optional<AgentStatus> parse_agent_status(std::string_view text);

}  // namespace launch
}  // namespace ddprun
